//! The commands whose items are packed into one argument: BF.BULKADD and BF.BULKEXISTS.

use super::parts::{CHANGES, DATA, KEY, PACKING, READS, V0_2, optional_word};
use super::{ArgumentSpec, CommandSpec};

const COUNT: ArgumentSpec = optional_word("count", "COUNT");

pub(super) static BULKADD: CommandSpec = CommandSpec {
    name: "bf.bulkadd",
    // Every option once, and a few more for those to come: what is longer is a mistake.
    arguments: 3..=10,
    since: V0_2,
    complexity: "O(b + m * k * n), where b is the number of bytes, m of items, k of probes and n of layers",
    summary: "Adds a packed batch of items to a filter, which is created if it does not exist",
    syntax: &[KEY, optional_word("nocreate", "NOCREATE"), COUNT, PACKING, DATA],
    ..CHANGES
};

pub(super) static BULKEXISTS: CommandSpec = CommandSpec {
    name: "bf.bulkexists",
    arguments: 3..=10,
    flags: "readonly",
    since: V0_2,
    complexity: "O(b + m * k * n), where b is the number of bytes, m of items, k of probes and n of layers",
    summary: "Tells for each item of a packed batch whether it may be in a filter",
    syntax: &[KEY, COUNT, PACKING, DATA],
    ..READS
};
