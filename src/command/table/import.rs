//! The commands for filters that clients keep in strings: BF.IMPORT and BF.EXPORT.

use super::options::{
    BITS, CAPACITY, ENCODING, ERROR, EXPANSION, EXPIRY, HASHES, NONSCALING, ORDER, REPLACE, SCHEME, SHIFT,
};
use super::parts::{CHANGES, KEY, READS, argument, word};
use super::{ArgumentKind, ArgumentSpec, CommandSpec};

pub(super) static IMPORT: CommandSpec = CommandSpec {
    name: "bf.import",
    arguments: 3..=23,
    complexity: "O(n), where n is the number of bytes of the filter",
    summary: "Makes a filter of the bits that a client keeps in a string, to be asked and added to by that client's scheme",
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

pub(super) static EXPORT: CommandSpec = CommandSpec {
    name: "bf.export",
    arguments: 1..=1,
    flags: "readonly",
    complexity: "O(n), where n is the number of bytes of the filter",
    summary: "Gives back the string that the client of an imported filter would have now",
    syntax: &[KEY],
    ..READS
};
