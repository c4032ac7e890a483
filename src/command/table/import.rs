//! The commands for filters that clients keep in strings: BF.IMPORT and BF.EXPORT.

use super::parts::{CHANGES, EXPANSION, EXPIRY, KEY, NONSCALING, READS, option, word};
use super::{ArgumentKind, ArgumentSpec, CommandSpec, Presence};

pub(super) static IMPORT: CommandSpec = CommandSpec {
    name: "bf.import",
    arguments: 3..=23,
    complexity: "O(n), where n is the number of bytes of the filter",
    summary: "Makes a filter of the bits that a client keeps in a string, to be asked and added to by that client's scheme",
    syntax: &[
        KEY,
        ArgumentSpec {
            name: "origin",
            kind: ArgumentKind::OneOf(&[
                ArgumentSpec {
                    name: "source",
                    kind: ArgumentKind::String,
                    token: Some("SOURCE"),
                    presence: Presence::Required,
                    since: None,
                },
                ArgumentSpec {
                    name: "bytes",
                    kind: ArgumentKind::String,
                    token: Some("GUAVA"),
                    presence: Presence::Required,
                    since: None,
                },
                word("empty", "EMPTY"),
            ]),
            token: None,
            presence: Presence::Required,
            since: None,
        },
        option("scheme", "SCHEME", ArgumentKind::String),
        option("bits", "BITS", ArgumentKind::Integer),
        option("hashes", "HASHES", ArgumentKind::Integer),
        option("capacity", "CAPACITY", ArgumentKind::Integer),
        option("shift", "SHIFT", ArgumentKind::Integer),
        option("order", "ORDER", ArgumentKind::OneOf(&[word("msb", "msb"), word("lsb", "lsb")])),
        option("encoding", "ENCODING", ArgumentKind::String),
        option("error", "ERROR", ArgumentKind::Double),
        EXPANSION,
        NONSCALING,
        option("replace", "REPLACE", ArgumentKind::PureToken),
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
