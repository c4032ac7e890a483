//! The rows of the commands without an options grammar, and the common parts of all rows.

use super::{ArgumentKind, ArgumentSpec, CommandSpec, KeyAccess, Presence, V1_0};

pub(super) const fn argument(name: &'static str, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { name, kind, token: None, presence: Presence::Required, read: None }
}

pub(super) const fn word(name: &'static str, token: &'static str) -> ArgumentSpec {
    ArgumentSpec { token: Some(token), ..argument(name, ArgumentKind::PureToken) }
}

/// Returns an optional word.
pub(super) const fn optional_word(name: &'static str, token: &'static str) -> ArgumentSpec {
    ArgumentSpec { presence: Presence::Optional, ..word(name, token) }
}

pub(super) const KEY: ArgumentSpec = argument("key", ArgumentKind::Key);
pub(super) const ITEM: ArgumentSpec = argument("item", ArgumentKind::String);
pub(super) const ITEMS: ArgumentSpec = ArgumentSpec { presence: Presence::Repeated, ..ITEM };
pub(super) const ITERATOR: ArgumentSpec = argument("iterator", ArgumentKind::Integer);
/// The packing of a batch. The batch follows.
pub(super) const PACKING: ArgumentSpec = argument(
    "packing",
    ArgumentKind::OneOf(&[
        word("lines", "LINES"),
        ArgumentSpec { token: Some("FIXED"), ..argument("bytes", ArgumentKind::Integer) },
        word("prefixed", "PREFIXED"),
    ]),
);
pub(super) const DATA: ArgumentSpec = argument("data", ArgumentKind::String);

/// The common part of most commands that change a filter. They may need memory.
pub(super) const CHANGES: CommandSpec = CommandSpec {
    name: "",
    arguments: 0..=0,
    flags: "write deny-oom",
    categories: "write",
    key_access: KeyAccess::ReadWrite,
    tips: None,
    since: V1_0,
    complexity: "",
    summary: "",
    syntax: &[],
};
/// The common part of most commands that only read a filter.
pub(super) const READS: CommandSpec =
    CommandSpec { flags: "readonly fast", categories: "read", key_access: KeyAccess::ReadOnly, ..CHANGES };

/// More arguments than a client can send.
pub(super) const MANY: usize = usize::MAX;
/// The reply can change without a write to the key by a client.
pub(super) const DONT_CACHE: Option<&str> = Some("dont_cache");

pub(super) static ADD: CommandSpec = CommandSpec {
    name: "bf.add",
    arguments: 2..=2,
    complexity: "O(k * n) for k probes and n layers",
    summary: "Adds an item to a filter and creates the filter if it does not exist",
    syntax: &[KEY, ITEM],
    ..CHANGES
};

pub(super) static MADD: CommandSpec = CommandSpec {
    name: "bf.madd",
    arguments: 2..=MANY,
    complexity: "O(m * k * n) for m items, k probes and n layers",
    summary: "Adds items to a filter and creates the filter if it does not exist",
    syntax: &[KEY, ITEMS],
    ..CHANGES
};

pub(super) static CLEAR: CommandSpec = CommandSpec {
    name: "bf.clear",
    arguments: 1..=1,
    // BF.CLEAR frees memory, so it is allowed above `maxmemory`.
    flags: "write fast",
    categories: "write fast",
    since: V1_0,
    complexity: "O(1)",
    summary: "Removes all items from a filter and keeps its parameters and its time to live",
    syntax: &[KEY],
    ..CHANGES
};

pub(super) static DEL: CommandSpec = CommandSpec {
    name: "bf.del",
    arguments: 2..=MANY,
    flags: "write",
    since: V1_0,
    complexity: "O(m) for m items",
    summary: "Deletes items from a counting filter",
    syntax: &[KEY, ITEMS],
    ..CHANGES
};

pub(super) static EXISTS: CommandSpec = CommandSpec {
    name: "bf.exists",
    arguments: 2..=2,
    complexity: "O(k * n) for k probes and n layers",
    summary: "Returns whether an item may be in a filter",
    syntax: &[KEY, ITEM],
    ..READS
};

pub(super) static MEXISTS: CommandSpec = CommandSpec {
    name: "bf.mexists",
    arguments: 2..=MANY,
    complexity: "O(m * k * n) for m items, k probes and n layers",
    summary: "Returns for each item whether it may be in a filter",
    syntax: &[KEY, ITEMS],
    ..READS
};

pub(super) static INFO: CommandSpec = CommandSpec {
    name: "bf.info",
    arguments: 1..=2,
    categories: "read fast",
    tips: DONT_CACHE,
    complexity: "O(n) for n layers",
    summary: "Returns the capacity, size, number of layers, number of items and expansion of a filter",
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
    since: V1_0,
    complexity: "O(n) for n layers",
    summary: "Returns the statistics of a filter and of each of its layers",
    syntax: &[KEY],
    ..READS
};

pub(super) static CARD: CommandSpec = CommandSpec {
    name: "bf.card",
    arguments: 1..=1,
    categories: "read fast",
    complexity: "O(n) for n layers",
    summary: "Returns the number of items in a filter",
    syntax: &[KEY],
    ..READS
};

pub(super) static DEBUG: CommandSpec = CommandSpec {
    name: "bf.debug",
    arguments: 1..=1,
    tips: DONT_CACHE,
    complexity: "O(n) for n layers",
    summary: "Returns a description of every layer of a filter",
    syntax: &[KEY],
    ..READS
};

const COUNT: ArgumentSpec = optional_word("count", "COUNT");

pub(super) static BULKADD: CommandSpec = CommandSpec {
    name: "bf.bulkadd",
    // Every option once, and a few more for future options. Longer commands are mistakes.
    arguments: 3..=10,
    since: V1_0,
    complexity: "O(b + m * k * n) for b bytes, m items, k probes and n layers",
    summary: "Adds a packed batch of items to a filter and creates the filter if it does not exist",
    syntax: &[KEY, optional_word("nocreate", "NOCREATE"), COUNT, PACKING, DATA],
    ..CHANGES
};

pub(super) static BULKEXISTS: CommandSpec = CommandSpec {
    name: "bf.bulkexists",
    arguments: 3..=10,
    flags: "readonly",
    since: V1_0,
    complexity: "O(b + m * k * n) for b bytes, m items, k probes and n layers",
    summary: "Returns for each item of a packed batch whether it may be in a filter",
    syntax: &[KEY, COUNT, PACKING, DATA],
    ..READS
};

pub(super) static SCANDUMP: CommandSpec = CommandSpec {
    name: "bf.scandump",
    arguments: 2..=2,
    tips: DONT_CACHE,
    complexity: "O(n) for a chunk of n bytes, at most 16 MiB",
    summary: "Returns one chunk of a filter for BF.LOADCHUNK",
    syntax: &[KEY, ITERATOR],
    // RedisBloom flags the key as written, but the command does not write it.
    ..READS
};

pub(super) static LOADCHUNK: CommandSpec = CommandSpec {
    name: "bf.loadchunk",
    arguments: 3..=3,
    complexity: "O(n) for a chunk of n bytes",
    summary: "Restores a filter from the chunks of BF.SCANDUMP",
    syntax: &[KEY, ITERATOR, argument("data", ArgumentKind::String)],
    ..CHANGES
};

pub(super) static LOAD: CommandSpec = CommandSpec {
    name: "bf.load",
    arguments: 2..=2,
    complexity: "O(n) for a blob of n bytes",
    summary: "Restores a filter from an append-only file of valkey-bloom",
    syntax: &[KEY, argument("blob", ArgumentKind::String)],
    ..CHANGES
};

pub(super) static EXPORT: CommandSpec = CommandSpec {
    name: "bf.export",
    arguments: 1..=1,
    flags: "readonly",
    complexity: "O(n) for a filter of n bytes",
    summary: "Returns an imported filter as the string that its client would have",
    syntax: &[KEY],
    ..READS
};

pub(super) static MERGE: CommandSpec = CommandSpec {
    name: "bf.merge",
    arguments: 2..=MANY,
    since: V1_0,
    complexity: "O(n) for n bytes of all filters",
    summary: "Adds all items of the source filters to a destination filter",
    syntax: &[
        argument("dest", ArgumentKind::Key),
        ArgumentSpec { presence: Presence::Repeated, ..argument("source", ArgumentKind::String) },
        optional_word("force", "FORCE"),
    ],
    ..CHANGES
};
