//! The rows of the table of commands.

use super::ArgumentKind::{Double, Integer, Key, OneOf, PureToken, String};
use super::{ArgumentKind, ArgumentSpec, CommandSpec, KeyAccess, OptionWord, Presence};

/// The common part of most commands that change a filter. `deny-oom` is for commands that may need memory.
const CHANGES: CommandSpec = CommandSpec {
    name: "",
    arguments: 0..=0,
    flags: "write deny-oom",
    categories: "write",
    has_own_category: true,
    key_access: KeyAccess::ReadWrite,
    tips: None,
    since: "1.0.0",
    complexity: "",
    summary: "",
    syntax: &[],
};
/// The common part of most commands that only read a filter.
const READS: CommandSpec =
    CommandSpec { flags: "readonly fast", categories: "read", key_access: KeyAccess::ReadOnly, ..CHANGES };

/// The maximum number of arguments of commands without a limit. It is more than a client can send.
const MANY: usize = usize::MAX;
/// The tip for clients not to cache the reply, because it can change without a write to the key.
const DONT_CACHE: Option<&str> = Some("dont_cache");

const fn argument(name: &'static str, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { name, kind, token: None, option: None, presence: Presence::Required }
}

const fn repeated(name: &'static str) -> ArgumentSpec {
    ArgumentSpec { presence: Presence::Repeated, ..argument(name, String) }
}

/// Returns a required word, or one choice of several words. A value follows unless `kind` is `PureToken`.
const fn word(name: &'static str, token: &'static str, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { token: Some(token), ..argument(name, kind) }
}

/// Returns one choice of several options.
const fn choice(name: &'static str, option: OptionWord, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { option: Some(option), ..word(name, option.text(), kind) }
}

const fn option(name: &'static str, option: OptionWord, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { presence: Presence::Optional, ..choice(name, option, kind) }
}

/// Returns an option without a value.
const fn flag(name: &'static str, word: OptionWord) -> ArgumentSpec {
    option(name, word, PureToken)
}

/// Returns an optional word of one command, which reads it itself.
const fn own_flag(name: &'static str, token: &'static str) -> ArgumentSpec {
    ArgumentSpec { presence: Presence::Optional, ..word(name, token, PureToken) }
}

/// Returns a choice of at most one of several options.
const fn one_of(name: &'static str, choices: &'static [ArgumentSpec]) -> ArgumentSpec {
    ArgumentSpec { presence: Presence::Optional, ..argument(name, OneOf(choices)) }
}

const KEY: ArgumentSpec = argument("key", Key);
const ITEM: ArgumentSpec = argument("item", String);
const ITEMS: ArgumentSpec = repeated("item");
const ITERATOR: ArgumentSpec = argument("iterator", Integer);
const DATA: ArgumentSpec = argument("data", String);
/// The packing of a batch. The batch follows.
const PACKING: ArgumentSpec = argument(
    "packing",
    OneOf(&[
        word("lines", "LINES", PureToken),
        word("bytes", "FIXED", Integer),
        word("prefixed", "PREFIXED", PureToken),
    ]),
);
const COUNT: ArgumentSpec = own_flag("count", "COUNT");

// The options of BF.RESERVE, BF.INSERT and BF.IMPORT. `options` reads them.
const CAPACITY: ArgumentSpec = option("capacity", OptionWord::Capacity, Integer);
const ERROR: ArgumentSpec = option("error", OptionWord::Error, Double);
const EXPANSION: ArgumentSpec = option("expansion", OptionWord::Expansion, Integer);
const NONSCALING: ArgumentSpec = flag("nonscaling", OptionWord::NonScaling);
const SATURATE: ArgumentSpec = flag("saturate", OptionWord::Saturate);
const KEYED: ArgumentSpec = flag("keyed", OptionWord::Keyed);
const FORMAT: ArgumentSpec = option(
    "format",
    OptionWord::Format,
    OneOf(&[
        word("everbloom", "everbloom", PureToken),
        word("redisbloom", "redisbloom", PureToken),
        word("valkey-bloom", "valkey-bloom", PureToken),
    ]),
);
const COUNTING: ArgumentSpec = flag("counting", OptionWord::Counting);
const WINDOW: ArgumentSpec = one_of(
    "window",
    &[choice("seconds", OptionWord::Window, Integer), choice("milliseconds", OptionWord::PWindow, Integer)],
);
const NOREFRESH: ArgumentSpec = flag("norefresh", OptionWord::NoRefresh);
const STEPS: ArgumentSpec = option("steps", OptionWord::Steps, Integer);
const EXPIRY: ArgumentSpec = one_of(
    "expiry",
    &[
        choice("seconds", OptionWord::Ex, Integer),
        choice("milliseconds", OptionWord::Px, Integer),
        choice("unix-time-seconds", OptionWord::ExAt, Integer),
        choice("unix-time-milliseconds", OptionWord::PxAt, Integer),
    ],
);

const IFABSENT: ArgumentSpec = flag("ifabsent", OptionWord::IfAbsent);
/// The life of an item in a sliding window.
const LIFE: ArgumentSpec = one_of(
    "life",
    &[
        choice("seconds", OptionWord::Life, Integer),
        choice("milliseconds", OptionWord::PLife, Integer),
        choice("unix-time-seconds", OptionWord::LifeAt, Integer),
        choice("unix-time-milliseconds", OptionWord::PLifeAt, Integer),
    ],
);
/// How long ago an item was added to a sliding window.
const WITHIN: ArgumentSpec = one_of(
    "within",
    &[choice("seconds", OptionWord::Within, Integer), choice("milliseconds", OptionWord::PWithin, Integer)],
);

// The maximum of a row with options is enough for every option once, with a margin for future options. A command with
// more arguments is a mistake.

pub(super) const RESERVE: CommandSpec = CommandSpec {
    name: "bf.reserve",
    arguments: 3..=20,
    categories: "write fast",
    complexity: "O(1)",
    summary: "Creates an empty filter",
    syntax: &[
        KEY,
        argument("error_rate", Double),
        argument("capacity", Integer),
        EXPANSION,
        NONSCALING,
        SATURATE,
        KEYED,
        FORMAT,
        COUNTING,
        WINDOW,
        NOREFRESH,
        STEPS,
        EXPIRY,
        flag("ifnotexists", OptionWord::IfNotExists),
    ],
    ..CHANGES
};

pub(super) const ADD: CommandSpec = CommandSpec {
    name: "bf.add",
    arguments: 2..=5,
    complexity: "O(k * n) for k probes and n layers",
    summary: "Adds an item to a filter and creates the filter if it does not exist",
    syntax: &[KEY, ITEM, IFABSENT, LIFE],
    ..CHANGES
};

pub(super) const MADD: CommandSpec = CommandSpec {
    name: "bf.madd",
    arguments: 2..=MANY,
    complexity: "O(m * k * n) for m items, k probes and n layers",
    summary: "Adds items to a filter and creates the filter if it does not exist",
    syntax: &[KEY, ITEMS],
    ..CHANGES
};

pub(super) const INSERT: CommandSpec = CommandSpec {
    name: "bf.insert",
    arguments: 3..=MANY,
    complexity: "O(m * k * n) for m items, k probes and n layers",
    summary: "Adds items to a filter and creates the filter with the given options if it does not exist",
    syntax: &[
        KEY,
        CAPACITY,
        ERROR,
        EXPANSION,
        flag("nocreate", OptionWord::NoCreate),
        NONSCALING,
        SATURATE,
        KEYED,
        option("key", OptionWord::Key, String),
        FORMAT,
        COUNTING,
        option("bucketsize", OptionWord::BucketSize, Integer),
        option("maxiterations", OptionWord::MaxIterations, Integer),
        WINDOW,
        NOREFRESH,
        STEPS,
        option("unix-time-milliseconds", OptionWord::At, Integer),
        IFABSENT,
        LIFE,
        option("seed", OptionWord::Seed, String),
        option("tightening", OptionWord::Tightening, Double),
        flag("unreserved", OptionWord::Unreserved),
        option("validatescaleto", OptionWord::ValidateScaleTo, Integer),
        EXPIRY,
        word("items", "ITEMS", PureToken),
        ITEMS,
    ],
    ..CHANGES
};

pub(super) const CLEAR: CommandSpec = CommandSpec {
    name: "bf.clear",
    arguments: 1..=1,
    // BF.CLEAR frees memory, so it is allowed above `maxmemory`.
    flags: "write fast",
    categories: "write fast",
    complexity: "O(1)",
    summary: "Removes all items from a filter and keeps its parameters and its time to live",
    syntax: &[KEY],
    ..CHANGES
};

pub(super) const DEL: CommandSpec = CommandSpec {
    name: "bf.del",
    arguments: 2..=MANY,
    flags: "write",
    complexity: "O(m) for m items",
    summary: "Deletes items from a counting filter",
    syntax: &[KEY, ITEMS],
    ..CHANGES
};

pub(super) const EXISTS: CommandSpec = CommandSpec {
    name: "bf.exists",
    arguments: 2..=4,
    complexity: "O(k * n) for k probes and n layers",
    summary: "Returns whether an item may be in a filter",
    syntax: &[KEY, ITEM, WITHIN],
    ..READS
};

pub(super) const MEXISTS: CommandSpec = CommandSpec {
    name: "bf.mexists",
    arguments: 2..=MANY,
    complexity: "O(m * k * n) for m items, k probes and n layers",
    summary: "Returns for each item whether it may be in a filter",
    syntax: &[KEY, ITEMS],
    ..READS
};

pub(super) const TTL: CommandSpec = CommandSpec {
    name: "bf.ttl",
    arguments: 2..=2,
    tips: DONT_CACHE,
    complexity: "O(k * n) for k probes and n layers",
    summary: "Returns the remaining life of an item in seconds",
    syntax: &[KEY, ITEM],
    ..READS
};

pub(super) const PTTL: CommandSpec =
    CommandSpec { name: "bf.pttl", summary: "Returns the remaining life of an item in milliseconds", ..TTL };

pub(super) const BULKADD: CommandSpec = CommandSpec {
    name: "bf.bulkadd",
    arguments: 3..=12,
    complexity: "O(b + m * k * n) for b bytes, m items, k probes and n layers",
    summary: "Adds a packed batch of items to a filter and creates the filter if it does not exist",
    syntax: &[KEY, flag("nocreate", OptionWord::NoCreate), COUNT, IFABSENT, LIFE, PACKING, DATA],
    ..CHANGES
};

pub(super) const BULKEXISTS: CommandSpec = CommandSpec {
    name: "bf.bulkexists",
    arguments: 3..=10,
    flags: "readonly",
    complexity: "O(b + m * k * n) for b bytes, m items, k probes and n layers",
    summary: "Returns for each item of a packed batch whether it may be in a filter",
    syntax: &[KEY, COUNT, WITHIN, PACKING, DATA],
    ..READS
};

pub(super) const INFO: CommandSpec = CommandSpec {
    name: "bf.info",
    arguments: 1..=2,
    categories: "read fast",
    tips: DONT_CACHE,
    complexity: "O(n) for n layers",
    summary: "Returns the capacity, size, number of layers, number of items and expansion of a filter",
    syntax: &[
        KEY,
        one_of(
            "single_value",
            &[
                word("capacity", "CAPACITY", PureToken),
                word("size", "SIZE", PureToken),
                word("filters", "FILTERS", PureToken),
                word("items", "ITEMS", PureToken),
                word("expansion", "EXPANSION", PureToken),
            ],
        ),
    ],
    ..READS
};

pub(super) const STATS: CommandSpec = CommandSpec {
    name: "bf.stats",
    arguments: 1..=1,
    categories: "read fast",
    tips: DONT_CACHE,
    complexity: "O(n) for n layers",
    summary: "Returns the statistics of a filter and of each of its layers",
    syntax: &[KEY],
    ..READS
};

pub(super) const CARD: CommandSpec = CommandSpec {
    name: "bf.card",
    arguments: 1..=1,
    categories: "read fast",
    complexity: "O(n) for n layers",
    summary: "Returns the number of items in a filter",
    syntax: &[KEY],
    ..READS
};

pub(super) const DEBUG: CommandSpec = CommandSpec {
    name: "bf.debug",
    arguments: 1..=1,
    tips: DONT_CACHE,
    complexity: "O(n) for n layers",
    summary: "Returns a description of every layer of a filter",
    syntax: &[KEY],
    ..READS
};

pub(super) const SCANDUMP: CommandSpec = CommandSpec {
    name: "bf.scandump",
    arguments: 2..=2,
    tips: DONT_CACHE,
    complexity: "O(n) for a chunk of n bytes, at most 16 MiB",
    summary: "Returns one chunk of a filter for BF.LOADCHUNK",
    syntax: &[KEY, ITERATOR],
    // RedisBloom flags the key as written, but the command does not write it.
    ..READS
};

pub(super) const FOLLOW: CommandSpec = CommandSpec {
    name: "bf.follow",
    arguments: 1..=5,
    // A client that follows a filter learns more than by lookups: SECURITY.md.
    categories: "read dangerous",
    has_own_category: false,
    tips: DONT_CACHE,
    complexity: "O(n) for n records",
    summary: "Returns what was added to a filter since a position",
    syntax: &[
        KEY,
        ArgumentSpec { presence: Presence::Optional, ..argument("id", Integer) },
        ArgumentSpec { presence: Presence::Optional, ..argument("offset", Integer) },
        ArgumentSpec { presence: Presence::Optional, ..word("count", "COUNT", Integer) },
    ],
    ..READS
};

pub(super) const LOADCHUNK: CommandSpec = CommandSpec {
    name: "bf.loadchunk",
    arguments: 3..=3,
    complexity: "O(n) for a chunk of n bytes",
    summary: "Restores a filter from the chunks of BF.SCANDUMP",
    syntax: &[KEY, ITERATOR, DATA],
    ..CHANGES
};

pub(super) const LOAD: CommandSpec = CommandSpec {
    name: "bf.load",
    arguments: 2..=2,
    complexity: "O(n) for a blob of n bytes",
    summary: "Restores a filter from an append-only file of valkey-bloom",
    syntax: &[KEY, argument("blob", String)],
    ..CHANGES
};

pub(super) const IMPORT: CommandSpec = CommandSpec {
    name: "bf.import",
    arguments: 3..=28,
    complexity: "O(n) for a filter of n bytes",
    summary: "Creates a filter from the bitmap that a client keeps in a string and uses the hash scheme of that client",
    syntax: &[
        KEY,
        argument(
            "origin",
            OneOf(&[
                word("source", "SOURCE", String),
                word("bytes", "GUAVA", String),
                word("empty", "EMPTY", PureToken),
            ]),
        ),
        option("scheme", OptionWord::Scheme, String),
        option("bits", OptionWord::Bits, Integer),
        option("hashes", OptionWord::Hashes, Integer),
        CAPACITY,
        option("shift", OptionWord::Shift, Integer),
        option(
            "order",
            OptionWord::Order,
            OneOf(&[word("msb", "msb", PureToken), word("lsb", "lsb", PureToken)]),
        ),
        option("encoding", OptionWord::Encoding, String),
        ERROR,
        EXPANSION,
        NONSCALING,
        flag("replace", OptionWord::Replace),
        EXPIRY,
    ],
    ..CHANGES
};

pub(super) const EXPORT: CommandSpec = CommandSpec {
    name: "bf.export",
    arguments: 1..=1,
    flags: "readonly",
    complexity: "O(n) for a filter of n bytes",
    summary: "Returns an imported filter as the string that its client would have",
    syntax: &[KEY],
    ..READS
};

pub(super) const MERGE: CommandSpec = CommandSpec {
    name: "bf.merge",
    arguments: 2..=MANY,
    complexity: "O(n) for n bytes of all filters",
    summary: "Adds all items of the source filters to a destination filter",
    syntax: &[argument("dest", Key), repeated("source"), own_flag("force", "FORCE")],
    ..CHANGES
};

// The rows of CF.*, whose keys are counting filters. Flags, categories and arities are those of RedisBloom.

/// The item of CF.INSERT and CF.INSERTNX, with the options before it.
const CF_INSERT_SYNTAX: &[ArgumentSpec] = &[
    KEY,
    CAPACITY,
    ERROR,
    KEYED,
    flag("nocreate", OptionWord::NoCreate),
    EXPIRY,
    word("items", "ITEMS", PureToken),
    ITEMS,
];

pub(super) const CF_RESERVE: CommandSpec = CommandSpec {
    name: "cf.reserve",
    arguments: 2..=16,
    categories: "write fast",
    complexity: "O(1)",
    summary: "Creates an empty counting filter",
    syntax: &[
        KEY,
        argument("capacity", Integer),
        option("bucketsize", OptionWord::BucketSize, Integer),
        option("maxiterations", OptionWord::MaxIterations, Integer),
        EXPANSION,
        ERROR,
        KEYED,
        EXPIRY,
    ],
    ..CHANGES
};

pub(super) const CF_ADD: CommandSpec = CommandSpec {
    name: "cf.add",
    arguments: 2..=2,
    complexity: "O(1)",
    summary: "Counts one occurrence of an item and creates the counting filter if it does not exist",
    syntax: &[KEY, ITEM],
    ..CHANGES
};

pub(super) const CF_ADDNX: CommandSpec = CommandSpec {
    name: "cf.addnx",
    summary: "Adds an item that is absent and creates the counting filter if it does not exist",
    ..CF_ADD
};

pub(super) const CF_INSERT: CommandSpec = CommandSpec {
    name: "cf.insert",
    arguments: 3..=MANY,
    complexity: "O(m) for m items",
    summary: "Counts one occurrence of each item and creates the counting filter if it does not exist",
    syntax: CF_INSERT_SYNTAX,
    ..CHANGES
};

pub(super) const CF_INSERTNX: CommandSpec = CommandSpec {
    name: "cf.insertnx",
    summary: "Adds the items that are absent and creates the counting filter if it does not exist",
    ..CF_INSERT
};

pub(super) const CF_EXISTS: CommandSpec = CommandSpec {
    name: "cf.exists",
    arguments: 2..=2,
    complexity: "O(1)",
    summary: "Returns whether an item may be in a filter",
    syntax: &[KEY, ITEM],
    ..READS
};

pub(super) const CF_MEXISTS: CommandSpec = CommandSpec {
    name: "cf.mexists",
    complexity: "O(m) for m items",
    summary: "Returns for each item whether it may be in a filter",
    ..MEXISTS
};

pub(super) const CF_COUNT: CommandSpec = CommandSpec {
    name: "cf.count",
    summary: "Returns how often an item was added to a counting filter and not deleted",
    ..CF_EXISTS
};

pub(super) const CF_DEL: CommandSpec = CommandSpec {
    name: "cf.del",
    arguments: 2..=2,
    flags: "write fast",
    complexity: "O(1)",
    summary: "Deletes one occurrence of an item from a counting filter",
    syntax: &[KEY, ITEM],
    ..CHANGES
};

pub(super) const CF_INFO: CommandSpec = CommandSpec {
    name: "cf.info",
    arguments: 1..=1,
    complexity: "O(1)",
    summary: "Returns the size and the number of items of a counting filter",
    syntax: &[KEY],
    ..INFO
};

pub(super) const CF_DEBUG: CommandSpec = CommandSpec {
    name: "cf.debug",
    categories: "read",
    summary: "Returns a line of text about a counting filter",
    ..CF_INFO
};

pub(super) const CF_COMPACT: CommandSpec = CommandSpec {
    name: "cf.compact",
    // RedisBloom reports an arity of -1. One key is required.
    arguments: 0..=1,
    // RedisBloom flags the command as reading, and so changes read-only replicas.
    flags: "write fast",
    complexity: "O(n) for n bytes of a cuckoo filter of RedisBloom, O(1) for a counting filter",
    summary: "Moves the items of a cuckoo filter of RedisBloom to fewer arrays and does nothing for a counting filter",
    syntax: &[KEY],
    ..CHANGES
};

pub(super) const CF_SCANDUMP: CommandSpec = CommandSpec {
    name: "cf.scandump",
    summary: "Returns one chunk of a counting filter for CF.LOADCHUNK",
    ..SCANDUMP
};

pub(super) const CF_LOADCHUNK: CommandSpec = CommandSpec {
    name: "cf.loadchunk",
    summary: "Restores a counting filter from the chunks of CF.SCANDUMP",
    ..LOADCHUNK
};
