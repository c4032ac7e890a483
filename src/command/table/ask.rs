//! The commands that ask a filter: BF.EXISTS, BF.MEXISTS, BF.INFO, BF.STATS, BF.CARD and BF.DEBUG.

use super::parts::{DONT_CACHE, ITEM, ITEMS, KEY, MANY, READS, V0_2, argument, word};
use super::{ArgumentKind, ArgumentSpec, CommandSpec, Presence};

pub(super) static EXISTS: CommandSpec = CommandSpec {
    name: "bf.exists",
    arguments: 2..=2,
    complexity: "O(k * n), where k is the number of probes and n the number of layers",
    summary: "Tells whether an item may be in a filter",
    syntax: &[KEY, ITEM],
    ..READS
};

pub(super) static MEXISTS: CommandSpec = CommandSpec {
    name: "bf.mexists",
    arguments: 2..=MANY,
    complexity: "O(m * k * n), where m is the number of items, k of probes and n of layers",
    summary: "Tells for each of several items whether it may be in a filter",
    syntax: &[KEY, ITEMS],
    ..READS
};

pub(super) static INFO: CommandSpec = CommandSpec {
    name: "bf.info",
    arguments: 1..=2,
    categories: "read fast",
    tips: DONT_CACHE,
    complexity: "O(n), where n is the number of layers",
    summary: "Tells the capacity, memory, layers, items and growth factor of a filter",
    syntax: &[
        KEY,
        ArgumentSpec {
            presence: Presence::Optional,
            ..argument(
                "single_value",
                ArgumentKind::OneOf(&[
                    word("capacity", "CAPACITY"),
                    word("size", "SIZE"),
                    word("filters", "FILTERS"),
                    word("items", "ITEMS"),
                    word("expansion", "EXPANSION"),
                ]),
            )
        },
    ],
    ..READS
};

pub(super) static STATS: CommandSpec = CommandSpec {
    name: "bf.stats",
    arguments: 1..=1,
    categories: "read fast",
    tips: DONT_CACHE,
    since: V0_2,
    complexity: "O(n), where n is the number of layers",
    summary: "Tells all that is known of a filter and of each of its layers",
    syntax: &[KEY],
    ..READS
};

pub(super) static CARD: CommandSpec = CommandSpec {
    name: "bf.card",
    arguments: 1..=1,
    categories: "read fast",
    complexity: "O(n), where n is the number of layers",
    summary: "Tells how many items were added to a filter",
    syntax: &[KEY],
    ..READS
};

pub(super) static DEBUG: CommandSpec = CommandSpec {
    name: "bf.debug",
    arguments: 1..=1,
    tips: DONT_CACHE,
    complexity: "O(n), where n is the number of layers",
    summary: "Describes every layer of a filter",
    syntax: &[KEY],
    ..READS
};
