//! What the commands of the table share: arguments, and words for flags, tips and the like.

use super::{ArgumentKind, ArgumentSpec, CommandSpec, KeyAccess, Presence};

pub(super) const fn argument(name: &'static str, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { name, kind, token: None, presence: Presence::Required, since: None, read: None }
}

pub(super) const fn word(name: &'static str, token: &'static str) -> ArgumentSpec {
    ArgumentSpec { token: Some(token), ..argument(name, ArgumentKind::PureToken) }
}

/// A word that may be left out.
pub(super) const fn optional_word(name: &'static str, token: &'static str) -> ArgumentSpec {
    ArgumentSpec { presence: Presence::Optional, ..word(name, token) }
}

pub(super) const KEY: ArgumentSpec = argument("key", ArgumentKind::Key);
pub(super) const ITEM: ArgumentSpec = argument("item", ArgumentKind::String);
pub(super) const ITEMS: ArgumentSpec = ArgumentSpec { presence: Presence::Repeated, ..ITEM };
pub(super) const ITERATOR: ArgumentSpec = argument("iterator", ArgumentKind::Integer);
/// How the items of a batch are packed; the batch follows.
pub(super) const PACKING: ArgumentSpec = argument(
    "packing",
    ArgumentKind::OneOf(&[
        word("lines", "LINES"),
        ArgumentSpec { token: Some("FIXED"), ..argument("bytes", ArgumentKind::Integer) },
        word("prefixed", "PREFIXED"),
    ]),
);
pub(super) const DATA: ArgumentSpec = argument("data", ArgumentKind::String);

/// What most commands that change a filter have in common; such a command may need memory for it.
pub(super) const CHANGES: CommandSpec = CommandSpec {
    name: "",
    arguments: 0..=0,
    flags: "write deny-oom",
    categories: "write",
    key_access: KeyAccess::ReadWrite,
    tips: None,
    since: V0_1,
    complexity: "",
    summary: "",
    syntax: &[],
};
/// What most commands that only read have in common.
pub(super) const READS: CommandSpec =
    CommandSpec { flags: "readonly fast", categories: "read", key_access: KeyAccess::ReadOnly, ..CHANGES };

/// More arguments than a client can send.
pub(super) const MANY: usize = usize::MAX;
/// The answer changes without the key being written to by this client.
pub(super) const DONT_CACHE: Option<&str> = Some("dont_cache");
/// First release.
const V0_1: &str = "0.1.0";
/// Second release.
pub(super) const V0_2: &str = "0.2.0";
