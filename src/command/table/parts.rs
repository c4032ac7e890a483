//! What the commands of the table share: arguments, and words for flags, tips and the like.

use super::{ArgumentKind, ArgumentSpec, Presence};

pub(super) const fn argument(name: &'static str, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { name, kind, token: None, presence: Presence::Required }
}

pub(super) const fn option(name: &'static str, token: &'static str, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { name, kind, token: Some(token), presence: Presence::Optional }
}

pub(super) const fn word(name: &'static str, token: &'static str) -> ArgumentSpec {
    ArgumentSpec { name, kind: ArgumentKind::PureToken, token: Some(token), presence: Presence::Required }
}

pub(super) const KEY: ArgumentSpec = argument("key", ArgumentKind::Key);
pub(super) const ITEM: ArgumentSpec = argument("item", ArgumentKind::String);
pub(super) const ITEMS: ArgumentSpec =
    ArgumentSpec { name: "item", kind: ArgumentKind::String, token: None, presence: Presence::Repeated };
pub(super) const ITERATOR: ArgumentSpec = argument("iterator", ArgumentKind::Integer);
pub(super) const EXPANSION: ArgumentSpec = option("expansion", "EXPANSION", ArgumentKind::Integer);
pub(super) const NONSCALING: ArgumentSpec = option("nonscaling", "NONSCALING", ArgumentKind::PureToken);
pub(super) const FORMAT: ArgumentSpec = option(
    "format",
    "FORMAT",
    ArgumentKind::OneOf(&[
        word("everbloom", "everbloom"),
        word("redisbloom", "redisbloom"),
        word("valkey-bloom", "valkey-bloom"),
    ]),
);

/// More arguments than a client can send.
pub(super) const MANY: usize = usize::MAX;
/// A command that changes a filter and may need memory for it.
pub(super) const WRITE: &str = "write deny-oom";
/// A command that only reads.
pub(super) const READ: &str = "readonly fast";
/// The answer changes without the key being written to by this client.
pub(super) const DONT_CACHE: Option<&str> = Some("dont_cache");
/// First release.
pub(super) const V0_1: &str = "0.1.0";
