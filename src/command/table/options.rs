//! The options of BF.RESERVE, BF.INSERT and BF.IMPORT, one row per option: its documentation, and how it is read into
//! [`Options`]. The rows of these three commands list their options.

use super::ArgumentKind::{Double, Integer, OneOf, PureToken, String};
use super::commands::{CHANGES, ITEMS, KEY, MANY, argument, word};
use super::{ArgumentKind, ArgumentSpec, CommandSpec, Presence};
use crate::bloom::limits::CAPACITY_MAX_ITEMS;
use crate::command::error::CommandError;
use crate::command::options::{Options, Read, ReadValue};

pub(super) static RESERVE: CommandSpec = CommandSpec {
    name: "bf.reserve",
    // Every option once, and a few more for future options. Longer commands are mistakes.
    arguments: 3..=20,
    categories: "write fast",
    complexity: "O(1)",
    summary: "Creates an empty filter",
    syntax: &[
        KEY,
        argument("error_rate", ArgumentKind::Double),
        argument("capacity", ArgumentKind::Integer),
        EXPANSION,
        NONSCALING,
        SATURATE,
        KEYED,
        FORMAT,
        COUNTING,
        WINDOW,
        NOREFRESH,
        EXPIRY,
        IFNOTEXISTS,
    ],
    ..CHANGES
};

pub(super) static INSERT: CommandSpec = CommandSpec {
    name: "bf.insert",
    arguments: 3..=MANY,
    complexity: "O(m * k * n) for m items, k probes and n layers",
    summary: "Adds items to a filter and creates the filter with the given options if it does not exist",
    syntax: &[
        KEY,
        CAPACITY,
        ERROR,
        EXPANSION,
        NOCREATE,
        NONSCALING,
        SATURATE,
        KEYED,
        HASH_KEY,
        FORMAT,
        COUNTING,
        WINDOW,
        NOREFRESH,
        AT,
        SEED,
        TIGHTENING,
        UNRESERVED,
        VALIDATESCALETO,
        EXPIRY,
        word("items", "ITEMS"),
        ITEMS,
    ],
    ..CHANGES
};

pub(super) static IMPORT: CommandSpec = CommandSpec {
    name: "bf.import",
    arguments: 3..=23,
    complexity: "O(n) for a filter of n bytes",
    summary: "Creates a filter from the bitmap that a client keeps in a string and uses the hash scheme of that client",
    syntax: &[
        KEY,
        argument(
            "origin",
            ArgumentKind::OneOf(&[
                ArgumentSpec { token: Some("SOURCE"), ..argument("source", ArgumentKind::String) },
                ArgumentSpec { token: Some("GUAVA"), ..argument("bytes", ArgumentKind::String) },
                word("empty", "EMPTY"),
            ]),
        ),
        SCHEME,
        BITS,
        HASHES,
        CAPACITY,
        SHIFT,
        ORDER,
        ENCODING,
        ERROR,
        EXPANSION,
        NONSCALING,
        REPLACE,
        EXPIRY,
    ],
    ..CHANGES
};

/// Returns an option with a value.
const fn valued(
    name: &'static str,
    token: &'static str,
    kind: ArgumentKind,
    read: ReadValue,
) -> ArgumentSpec {
    option(name, token, kind, Read::Value(read))
}

/// Returns an option without a value.
const fn flag(name: &'static str, token: &'static str, set: fn(&mut Options)) -> ArgumentSpec {
    option(name, token, PureToken, Read::Flag(set))
}

const fn option(name: &'static str, token: &'static str, kind: ArgumentKind, read: Read) -> ArgumentSpec {
    let presence = Presence::Optional;
    ArgumentSpec { token: Some(token), presence, read: Some(read), ..argument(name, kind) }
}

/// Returns one option of a choice.
const fn choice(name: &'static str, token: &'static str, read: ReadValue) -> ArgumentSpec {
    ArgumentSpec { presence: Presence::Required, ..valued(name, token, Integer, read) }
}

/// Returns a choice of at most one of several options.
const fn one_of(name: &'static str, choices: &'static [ArgumentSpec]) -> ArgumentSpec {
    ArgumentSpec { presence: Presence::Optional, ..argument(name, OneOf(choices)) }
}

const CAPACITY: ArgumentSpec = valued("capacity", "CAPACITY", Integer, |options, value| {
    value.number(&mut options.creation.capacity_items, 1, CAPACITY_MAX_ITEMS)
});
const ERROR: ArgumentSpec =
    valued("error", "ERROR", Double, |options, value| value.ratio(&mut options.creation.error_rate));
const EXPANSION: ArgumentSpec = valued("expansion", "EXPANSION", Integer, Options::read_expansion);
const NONSCALING: ArgumentSpec = flag("nonscaling", "NONSCALING", |options| options.creation.is_fixed = true);
const SATURATE: ArgumentSpec = flag("saturate", "SATURATE", |options| options.creation.is_saturating = true);
const KEYED: ArgumentSpec = flag("keyed", "KEYED", |options| options.creation.is_keyed = true);
const HASH_KEY: ArgumentSpec = valued("key", "KEY", String, |options, value| {
    value.array(&mut options.creation.key, CommandError::BadKey)
});
const FORMAT: ArgumentSpec = valued(
    "format",
    "FORMAT",
    OneOf(&[
        word("everbloom", "everbloom"),
        word("redisbloom", "redisbloom"),
        word("valkey-bloom", "valkey-bloom"),
    ]),
    |options, value| value.word(&mut options.creation.format),
);
const COUNTING: ArgumentSpec = flag("counting", "COUNTING", |options| options.creation.is_counting = true);
const WINDOW: ArgumentSpec = one_of(
    "window",
    &[
        choice("seconds", "WINDOW", |options, value| {
            options.read_window(value, 1000, CommandError::WindowSeconds)
        }),
        choice("milliseconds", "PWINDOW", |options, value| {
            options.read_window(value, 1, CommandError::WindowMilliseconds)
        }),
    ],
);
const NOREFRESH: ArgumentSpec = flag("norefresh", "NOREFRESH", |options| options.creation.no_refresh = true);
const AT: ArgumentSpec = valued("unix-time-milliseconds", "AT", Integer, Options::read_at);
const SEED: ArgumentSpec = valued("seed", "SEED", String, |options, value| {
    value.array(&mut options.creation.seed, CommandError::BadSeed)
});
const TIGHTENING: ArgumentSpec = valued("tightening", "TIGHTENING", Double, Options::read_tightening);
const UNRESERVED: ArgumentSpec =
    flag("unreserved", "UNRESERVED", |options| options.creation.is_unreserved = true);
const VALIDATESCALETO: ArgumentSpec =
    valued("validatescaleto", "VALIDATESCALETO", Integer, |options, value| {
        value.number(&mut options.creation.scale_to_items, 1, u64::MAX)
    });
const EXPIRY: ArgumentSpec = one_of(
    "expiry",
    &[
        choice("seconds", "EX", |options, value| options.read_time_to_live(value, 1000)),
        choice("milliseconds", "PX", |options, value| options.read_time_to_live(value, 1)),
        choice("unix-time-seconds", "EXAT", |options, value| options.read_expiry(value, 1000, 0)),
        choice("unix-time-milliseconds", "PXAT", |options, value| options.read_expiry(value, 1, 0)),
    ],
);
const NOCREATE: ArgumentSpec = flag("nocreate", "NOCREATE", |options| options.no_create = true);
const IFNOTEXISTS: ArgumentSpec = flag("ifnotexists", "IFNOTEXISTS", |options| options.if_not_exists = true);
const SCHEME: ArgumentSpec = valued("scheme", "SCHEME", String, Options::read_scheme);
const BITS: ArgumentSpec = valued("bits", "BITS", Integer, |options, value| {
    value.number(&mut options.import.size_bits, 1, i64::MAX.cast_unsigned())
});
const HASHES: ArgumentSpec = valued("hashes", "HASHES", Integer, |options, value| {
    value.number(&mut options.import.probes, 1, u32::MAX)
});
const SHIFT: ArgumentSpec =
    valued("shift", "SHIFT", Integer, |options, value| value.number(&mut options.import.shift, 0, u8::MAX));
const ORDER: ArgumentSpec =
    valued("order", "ORDER", OneOf(&[word("msb", "msb"), word("lsb", "lsb")]), |options, value| {
        value.word(&mut options.import.order)
    });
const ENCODING: ArgumentSpec =
    valued("encoding", "ENCODING", String, |options, value| value.word(&mut options.import.encoding));
const REPLACE: ArgumentSpec = flag("replace", "REPLACE", |options| options.is_replacing = true);
