//! The options of BF.RESERVE, BF.INSERT and BF.IMPORT, a row each: how they are documented, and how their values are read.

use super::parts::{V0_2, argument, word};
use super::{ArgumentKind, ArgumentSpec, Presence};
use crate::bloom::limits::CAPACITY_MAX_ITEMS;
use crate::command::error::CommandError;
use crate::command::expiry;
use crate::command::number::{is_ratio, parse_double};
use crate::command::options::{self, Read};
use crate::command::window;
use crate::command::words::Word;

/// An option with a value.
const fn valued(name: &'static str, token: &'static str, kind: ArgumentKind, read: Read) -> ArgumentSpec {
    let presence = Presence::Optional;
    ArgumentSpec { token: Some(token), presence, read: Some(read), ..argument(name, kind) }
}

/// An option without a value.
const fn flag(name: &'static str, token: &'static str, read: Read) -> ArgumentSpec {
    valued(name, token, ArgumentKind::PureToken, read)
}

/// One of the options of a choice.
const fn choice(name: &'static str, token: &'static str, read: Read) -> ArgumentSpec {
    ArgumentSpec { presence: Presence::Required, ..valued(name, token, ArgumentKind::Integer, read) }
}

/// At most one of some options.
const fn one_of(name: &'static str, choices: &'static [ArgumentSpec]) -> ArgumentSpec {
    ArgumentSpec { presence: Presence::Optional, ..argument(name, ArgumentKind::OneOf(choices)) }
}

/// The option, which the second release brought to a command that was there before.
const fn since_0_2(option: ArgumentSpec) -> ArgumentSpec {
    ArgumentSpec { since: Some(V0_2), ..option }
}

pub(super) const CAPACITY: ArgumentSpec =
    valued("capacity", "CAPACITY", ArgumentKind::Integer, |options, value| {
        options.creation.capacity_items = Some(value.number(1, CAPACITY_MAX_ITEMS)?);
        Ok(())
    });
pub(super) const ERROR: ArgumentSpec = valued("error", "ERROR", ArgumentKind::Double, |options, value| {
    options.creation.error_rate = Some(value.ratio()?);
    Ok(())
});
pub(super) const EXPANSION: ArgumentSpec =
    valued("expansion", "EXPANSION", ArgumentKind::Integer, options::expansion);
pub(super) const NONSCALING: ArgumentSpec = flag("nonscaling", "NONSCALING", |options, _| {
    options.creation.is_fixed = true;
    Ok(())
});
pub(super) const SATURATE: ArgumentSpec = since_0_2(flag("saturate", "SATURATE", |options, _| {
    options.creation.is_saturating = true;
    Ok(())
}));
pub(super) const KEYED: ArgumentSpec = since_0_2(flag("keyed", "KEYED", |options, _| {
    options.creation.is_keyed = true;
    Ok(())
}));
pub(super) const HASH_KEY: ArgumentSpec =
    since_0_2(valued("key", "KEY", ArgumentKind::String, |options, value| {
        options.creation.key = Some(value.array(CommandError::BadKey)?);
        Ok(())
    }));
pub(super) const FORMAT: ArgumentSpec = valued(
    "format",
    "FORMAT",
    ArgumentKind::OneOf(&[
        word("everbloom", "everbloom"),
        word("redisbloom", "redisbloom"),
        word("valkey-bloom", "valkey-bloom"),
    ]),
    |options, value| {
        options.creation.format = Some(Word::named(value.bytes()?).ok_or(CommandError::UnknownFormat)?);
        Ok(())
    },
);
pub(super) const COUNTING: ArgumentSpec = since_0_2(flag("counting", "COUNTING", |options, _| {
    options.creation.is_counting = true;
    Ok(())
}));
pub(super) const WINDOW: ArgumentSpec = since_0_2(one_of(
    "window",
    &[
        choice("seconds", "WINDOW", |options, value| window::read(options, value, 1000)),
        choice("milliseconds", "PWINDOW", |options, value| window::read(options, value, 1)),
    ],
));
pub(super) const NOREFRESH: ArgumentSpec = since_0_2(flag("norefresh", "NOREFRESH", |options, _| {
    options.creation.no_refresh = true;
    Ok(())
}));
pub(super) const AT: ArgumentSpec =
    since_0_2(valued("unix-time-milliseconds", "AT", ArgumentKind::Integer, window::read_moment));
pub(super) const SEED: ArgumentSpec = valued("seed", "SEED", ArgumentKind::String, |options, value| {
    options.creation.seed = Some(value.array(CommandError::BadSeed)?);
    Ok(())
});
pub(super) const TIGHTENING: ArgumentSpec =
    valued("tightening", "TIGHTENING", ArgumentKind::Double, |options, value| {
        let ratio = parse_double(value.bytes()?).ok_or(CommandError::BadTightening)?;
        options.creation.tightening_ratio = Some(ratio);
        if is_ratio(ratio) { Ok(()) } else { Err(CommandError::TighteningRange) }
    });
pub(super) const VALIDATESCALETO: ArgumentSpec =
    valued("validatescaleto", "VALIDATESCALETO", ArgumentKind::Integer, |options, value| {
        options.creation.scale_to_items = Some(value.number(1, u64::MAX)?);
        Ok(())
    });
pub(super) const EXPIRY: ArgumentSpec = since_0_2(one_of(
    "expiry",
    &[
        choice("seconds", "EX", |options, value| expiry::read(options, value, 1000, false)),
        choice("milliseconds", "PX", |options, value| expiry::read(options, value, 1, false)),
        choice("unix-time-seconds", "EXAT", |options, value| expiry::read(options, value, 1000, true)),
        choice("unix-time-milliseconds", "PXAT", |options, value| expiry::read(options, value, 1, true)),
    ],
));
pub(super) const NOCREATE: ArgumentSpec = flag("nocreate", "NOCREATE", |options, _| {
    options.no_create = true;
    Ok(())
});
pub(super) const IFNOTEXISTS: ArgumentSpec = since_0_2(flag("ifnotexists", "IFNOTEXISTS", |options, _| {
    options.if_not_exists = true;
    Ok(())
}));
pub(super) const SCHEME: ArgumentSpec =
    valued("scheme", "SCHEME", ArgumentKind::String, |options, value| options.import.read_scheme(value));
pub(super) const BITS: ArgumentSpec = valued("bits", "BITS", ArgumentKind::Integer, |options, value| {
    options.import.size_bits = Some(value.number(1, u64::MAX)?);
    Ok(())
});
pub(super) const HASHES: ArgumentSpec =
    valued("hashes", "HASHES", ArgumentKind::Integer, |options, value| {
        options.import.probes = Some(value.number(1, u32::MAX)?);
        Ok(())
    });
pub(super) const SHIFT: ArgumentSpec = valued("shift", "SHIFT", ArgumentKind::Integer, |options, value| {
    options.import.shift = Some(value.number(0, u8::MAX)?);
    Ok(())
});
pub(super) const ORDER: ArgumentSpec = valued(
    "order",
    "ORDER",
    ArgumentKind::OneOf(&[word("msb", "msb"), word("lsb", "lsb")]),
    |options, value| {
        options.import.order = Some(value.word()?);
        Ok(())
    },
);
pub(super) const ENCODING: ArgumentSpec =
    valued("encoding", "ENCODING", ArgumentKind::String, |options, value| {
        options.import.encoding = Some(value.word()?);
        Ok(())
    });
pub(super) const REPLACE: ArgumentSpec = flag("replace", "REPLACE", |options, _| {
    options.is_replacing = true;
    Ok(())
});
