//! What the commands of the table share: arguments, and words for flags, tips and the like.

use super::{ArgumentKind, ArgumentSpec, CommandSpec, KeyAccess, Presence};

pub(super) const fn argument(name: &'static str, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { name, kind, token: None, presence: Presence::Required, since: None }
}

pub(super) const fn option(name: &'static str, token: &'static str, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { name, kind, token: Some(token), presence: Presence::Optional, since: None }
}

pub(super) const fn word(name: &'static str, token: &'static str) -> ArgumentSpec {
    ArgumentSpec {
        name,
        kind: ArgumentKind::PureToken,
        token: Some(token),
        presence: Presence::Required,
        since: None,
    }
}

/// The argument, which the second release brought to a command that was there before.
pub(super) const fn since_0_2(argument: ArgumentSpec) -> ArgumentSpec {
    ArgumentSpec { since: Some(V0_2), ..argument }
}

pub(super) const KEY: ArgumentSpec = argument("key", ArgumentKind::Key);
pub(super) const ITEM: ArgumentSpec = argument("item", ArgumentKind::String);
pub(super) const ITEMS: ArgumentSpec = ArgumentSpec {
    name: "item",
    kind: ArgumentKind::String,
    token: None,
    presence: Presence::Repeated,
    since: None,
};
pub(super) const ITERATOR: ArgumentSpec = argument("iterator", ArgumentKind::Integer);
pub(super) const EXPANSION: ArgumentSpec = option("expansion", "EXPANSION", ArgumentKind::Integer);
pub(super) const NONSCALING: ArgumentSpec = option("nonscaling", "NONSCALING", ArgumentKind::PureToken);
pub(super) const SATURATE: ArgumentSpec = since_0_2(option("saturate", "SATURATE", ArgumentKind::PureToken));
pub(super) const KEYED: ArgumentSpec = since_0_2(option("keyed", "KEYED", ArgumentKind::PureToken));
pub(super) const FORMAT: ArgumentSpec = option(
    "format",
    "FORMAT",
    ArgumentKind::OneOf(&[
        word("everbloom", "everbloom"),
        word("redisbloom", "redisbloom"),
        word("valkey-bloom", "valkey-bloom"),
    ]),
);

pub(super) const COUNTING: ArgumentSpec = since_0_2(option("counting", "COUNTING", ArgumentKind::PureToken));

pub(super) const WINDOW: ArgumentSpec = ArgumentSpec {
    name: "window",
    kind: ArgumentKind::OneOf(&[moment("seconds", "WINDOW"), moment("milliseconds", "PWINDOW")]),
    token: None,
    presence: Presence::Optional,
    since: Some(V0_2),
};
pub(super) const NOREFRESH: ArgumentSpec =
    since_0_2(option("norefresh", "NOREFRESH", ArgumentKind::PureToken));
/// How the items of a batch are packed; the batch follows.
pub(super) const PACKING: ArgumentSpec = ArgumentSpec {
    name: "packing",
    kind: ArgumentKind::OneOf(&[
        word("lines", "LINES"),
        ArgumentSpec {
            name: "bytes",
            kind: ArgumentKind::Integer,
            token: Some("FIXED"),
            presence: Presence::Required,
            since: None,
        },
        word("prefixed", "PREFIXED"),
    ]),
    token: None,
    presence: Presence::Required,
    since: None,
};
pub(super) const DATA: ArgumentSpec = argument("data", ArgumentKind::String);

pub(super) const EXPIRY: ArgumentSpec = ArgumentSpec {
    name: "expiry",
    kind: ArgumentKind::OneOf(&[
        moment("seconds", "EX"),
        moment("milliseconds", "PX"),
        moment("unix-time-seconds", "EXAT"),
        moment("unix-time-milliseconds", "PXAT"),
    ]),
    token: None,
    presence: Presence::Optional,
    since: Some(V0_2),
};

const fn moment(name: &'static str, token: &'static str) -> ArgumentSpec {
    ArgumentSpec {
        name,
        kind: ArgumentKind::Integer,
        token: Some(token),
        presence: Presence::Required,
        since: None,
    }
}

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
