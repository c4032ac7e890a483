//! The one table of commands: registration, COMMAND DOCS, the arity check and docs/commands.md come from it.

use std::ops::RangeInclusive;

/// A command of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// BF.RESERVE.
    Reserve,
    /// BF.ADD.
    Add,
    /// BF.MADD.
    MAdd,
    /// BF.INSERT.
    Insert,
    /// BF.EXISTS.
    Exists,
    /// BF.MEXISTS.
    MExists,
    /// BF.INFO.
    Info,
    /// BF.CARD.
    Card,
    /// BF.DEBUG.
    Debug,
    /// BF.SCANDUMP.
    ScanDump,
    /// BF.LOADCHUNK.
    LoadChunk,
    /// BF.LOAD.
    Load,
    /// BF.IMPORT.
    Import,
    /// BF.EXPORT.
    Export,
}

/// Every command, in the order of the documentation.
pub const COMMANDS: [Command; 14] = [
    Command::Reserve,
    Command::Add,
    Command::MAdd,
    Command::Insert,
    Command::Exists,
    Command::MExists,
    Command::Info,
    Command::Card,
    Command::Debug,
    Command::ScanDump,
    Command::LoadChunk,
    Command::Load,
    Command::Import,
    Command::Export,
];

/// What a command does with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAccess {
    /// Reads it.
    ReadOnly,
    /// May create or change it.
    ReadWrite,
}

/// Where the second key of a command is, which it only reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceKey {
    /// The word right before it, in upper case; where it is missing there is no second key.
    pub word: &'static str,
    /// Place of the word among the arguments, with the command's name at 0.
    pub word_position: usize,
}

/// What the server and the documentation know of a command. The key is always the first argument.
#[derive(Debug)]
pub struct CommandSpec {
    /// Name in lower case.
    pub name: &'static str,
    /// Numbers of arguments after the name that the command takes.
    pub arguments: RangeInclusive<usize>,
    /// Flags of the command, as the module API names them.
    pub flags: &'static str,
    /// ACL categories beside `bloom`.
    pub categories: &'static str,
    /// What it does with its key.
    pub key_access: KeyAccess,
    /// Its second key, if it can have one.
    pub source_key: Option<SourceKey>,
    /// Tips for clients.
    pub tips: Option<&'static str>,
    /// Version of everbloom that brought the command.
    pub since: &'static str,
    /// Cost.
    pub complexity: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// The arguments after the name.
    pub syntax: &'static [ArgumentSpec],
}

impl CommandSpec {
    /// The arity as Redis counts it: with the name, negative when it is a minimum.
    #[must_use]
    pub fn arity(&self) -> i32 {
        let least = i32::try_from(*self.arguments.start()).unwrap_or(i32::MAX).saturating_add(1);
        if self.arguments.start() == self.arguments.end() { least } else { least.saturating_neg() }
    }
}

/// An argument for COMMAND DOCS.
#[derive(Debug)]
pub struct ArgumentSpec {
    /// Name of the argument.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgumentKind,
    /// The word before it, or the word it is.
    pub token: Option<&'static str>,
    /// Whether it may be left out or repeated.
    pub presence: Presence,
}

/// What an argument is.
#[derive(Debug)]
pub enum ArgumentKind {
    /// The key.
    Key,
    /// The key of [`CommandSpec::source_key`].
    SourceKey,
    /// Any bytes.
    String,
    /// An integer.
    Integer,
    /// A floating-point number.
    Double,
    /// The token itself.
    PureToken,
    /// One of these.
    OneOf(&'static [ArgumentSpec]),
}

/// How often an argument appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Exactly once.
    Required,
    /// At most once.
    Optional,
    /// Once or more.
    Repeated,
}

const fn argument(name: &'static str, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { name, kind, token: None, presence: Presence::Required }
}

const fn option(name: &'static str, token: &'static str, kind: ArgumentKind) -> ArgumentSpec {
    ArgumentSpec { name, kind, token: Some(token), presence: Presence::Optional }
}

const fn word(name: &'static str, token: &'static str) -> ArgumentSpec {
    ArgumentSpec { name, kind: ArgumentKind::PureToken, token: Some(token), presence: Presence::Required }
}

const KEY: ArgumentSpec = argument("key", ArgumentKind::Key);
const ITEM: ArgumentSpec = argument("item", ArgumentKind::String);
const ITEMS: ArgumentSpec =
    ArgumentSpec { name: "item", kind: ArgumentKind::String, token: None, presence: Presence::Repeated };
const ITERATOR: ArgumentSpec = argument("iterator", ArgumentKind::Integer);
const EXPANSION: ArgumentSpec = option("expansion", "EXPANSION", ArgumentKind::Integer);
const NONSCALING: ArgumentSpec = option("nonscaling", "NONSCALING", ArgumentKind::PureToken);
const FORMAT: ArgumentSpec = option(
    "format",
    "FORMAT",
    ArgumentKind::OneOf(&[
        word("everbloom", "everbloom"),
        word("redisbloom", "redisbloom"),
        word("valkey-bloom", "valkey-bloom"),
    ]),
);

/// More arguments than a client can send.
const MANY: usize = usize::MAX;
/// A command that changes a filter and may need memory for it.
const WRITE: &str = "write deny-oom";
/// A command that only reads.
const READ: &str = "readonly fast";
/// The answer changes without the key being written to by this client.
const DONT_CACHE: Option<&str> = Some("dont_cache");
/// First release.
const V0_1: &str = "0.1.0";

impl Command {
    /// What the server and the documentation know of the command.
    #[must_use]
    #[inline(always)]
    pub fn spec(self) -> &'static CommandSpec {
        match self {
            Self::Reserve => &RESERVE,
            Self::Add => &ADD,
            Self::MAdd => &MADD,
            Self::Insert => &INSERT,
            Self::Exists => &EXISTS,
            Self::MExists => &MEXISTS,
            Self::Info => &INFO,
            Self::Card => &CARD,
            Self::Debug => &DEBUG,
            Self::ScanDump => &SCANDUMP,
            Self::LoadChunk => &LOADCHUNK,
            Self::Load => &LOAD,
            Self::Import => &IMPORT,
            Self::Export => &EXPORT,
        }
    }
}

static RESERVE: CommandSpec = CommandSpec {
    name: "bf.reserve",
    arguments: 3..=8,
    flags: WRITE,
    categories: "write fast",
    key_access: KeyAccess::ReadWrite,
    source_key: None,
    tips: None,
    since: V0_1,
    complexity: "O(1)",
    summary: "Creates an empty filter with an error rate, a capacity and a way to grow",
    syntax: &[
        KEY,
        argument("error_rate", ArgumentKind::Double),
        argument("capacity", ArgumentKind::Integer),
        EXPANSION,
        NONSCALING,
        FORMAT,
    ],
};

static ADD: CommandSpec = CommandSpec {
    name: "bf.add",
    arguments: 2..=2,
    flags: WRITE,
    categories: "write",
    key_access: KeyAccess::ReadWrite,
    source_key: None,
    tips: None,
    since: V0_1,
    complexity: "O(k * n), where k is the number of probes and n the number of layers",
    summary: "Adds an item to a filter, which is created if it does not exist",
    syntax: &[KEY, ITEM],
};

static MADD: CommandSpec = CommandSpec {
    name: "bf.madd",
    arguments: 2..=MANY,
    flags: WRITE,
    categories: "write",
    key_access: KeyAccess::ReadWrite,
    source_key: None,
    tips: None,
    since: V0_1,
    complexity: "O(m * k * n), where m is the number of items, k of probes and n of layers",
    summary: "Adds items to a filter, which is created if it does not exist",
    syntax: &[KEY, ITEMS],
};

static INSERT: CommandSpec = CommandSpec {
    name: "bf.insert",
    arguments: 3..=MANY,
    flags: WRITE,
    categories: "write",
    key_access: KeyAccess::ReadWrite,
    source_key: None,
    tips: None,
    since: V0_1,
    complexity: "O(m * k * n), where m is the number of items, k of probes and n of layers",
    summary: "Adds items to a filter, which is created with the given parameters if it does not exist",
    syntax: &[
        KEY,
        option("capacity", "CAPACITY", ArgumentKind::Integer),
        option("error", "ERROR", ArgumentKind::Double),
        EXPANSION,
        option("nocreate", "NOCREATE", ArgumentKind::PureToken),
        NONSCALING,
        FORMAT,
        option("seed", "SEED", ArgumentKind::String),
        option("tightening", "TIGHTENING", ArgumentKind::Double),
        option("validatescaleto", "VALIDATESCALETO", ArgumentKind::Integer),
        word("items", "ITEMS"),
        ITEMS,
    ],
};

static EXISTS: CommandSpec = CommandSpec {
    name: "bf.exists",
    arguments: 2..=2,
    flags: READ,
    categories: "read",
    key_access: KeyAccess::ReadOnly,
    source_key: None,
    tips: None,
    since: V0_1,
    complexity: "O(k * n), where k is the number of probes and n the number of layers",
    summary: "Tells whether an item may be in a filter",
    syntax: &[KEY, ITEM],
};

static MEXISTS: CommandSpec = CommandSpec {
    name: "bf.mexists",
    arguments: 2..=MANY,
    flags: READ,
    categories: "read",
    key_access: KeyAccess::ReadOnly,
    source_key: None,
    tips: None,
    since: V0_1,
    complexity: "O(m * k * n), where m is the number of items, k of probes and n of layers",
    summary: "Tells for each of several items whether it may be in a filter",
    syntax: &[KEY, ITEMS],
};

static INFO: CommandSpec = CommandSpec {
    name: "bf.info",
    arguments: 1..=2,
    flags: READ,
    categories: "read fast",
    key_access: KeyAccess::ReadOnly,
    source_key: None,
    tips: DONT_CACHE,
    since: V0_1,
    complexity: "O(n), where n is the number of layers",
    summary: "Tells the capacity, memory, layers, items and growth factor of a filter",
    syntax: &[
        KEY,
        ArgumentSpec {
            name: "single_value",
            kind: ArgumentKind::OneOf(&[
                word("capacity", "CAPACITY"),
                word("size", "SIZE"),
                word("filters", "FILTERS"),
                word("items", "ITEMS"),
                word("expansion", "EXPANSION"),
            ]),
            token: None,
            presence: Presence::Optional,
        },
    ],
};

static CARD: CommandSpec = CommandSpec {
    name: "bf.card",
    arguments: 1..=1,
    flags: READ,
    categories: "read fast",
    key_access: KeyAccess::ReadOnly,
    source_key: None,
    tips: None,
    since: V0_1,
    complexity: "O(n), where n is the number of layers",
    summary: "Tells how many items were added to a filter",
    syntax: &[KEY],
};

static DEBUG: CommandSpec = CommandSpec {
    name: "bf.debug",
    arguments: 1..=1,
    flags: READ,
    categories: "read",
    key_access: KeyAccess::ReadOnly,
    source_key: None,
    tips: DONT_CACHE,
    since: V0_1,
    complexity: "O(n), where n is the number of layers",
    summary: "Describes every layer of a filter",
    syntax: &[KEY],
};

static SCANDUMP: CommandSpec = CommandSpec {
    name: "bf.scandump",
    arguments: 2..=2,
    flags: READ,
    categories: "read",
    // RedisBloom flags the key as written to; it is not.
    key_access: KeyAccess::ReadOnly,
    source_key: None,
    tips: DONT_CACHE,
    since: V0_1,
    complexity: "O(n), where n is the number of bytes of the piece, at most 16 MiB",
    summary: "Reads a filter piece by piece, to be loaded elsewhere with BF.LOADCHUNK",
    syntax: &[KEY, ITERATOR],
};

static LOADCHUNK: CommandSpec = CommandSpec {
    name: "bf.loadchunk",
    arguments: 3..=3,
    flags: WRITE,
    categories: "write",
    key_access: KeyAccess::ReadWrite,
    source_key: None,
    tips: None,
    since: V0_1,
    complexity: "O(n), where n is the number of bytes of the piece",
    summary: "Restores a filter from the pieces that BF.SCANDUMP gave",
    syntax: &[KEY, ITERATOR, argument("data", ArgumentKind::String)],
};

static LOAD: CommandSpec = CommandSpec {
    name: "bf.load",
    arguments: 2..=2,
    flags: WRITE,
    categories: "write",
    key_access: KeyAccess::ReadWrite,
    source_key: None,
    tips: None,
    since: V0_1,
    complexity: "O(n), where n is the number of bytes of the blob",
    summary: "Restores a filter from an append-only file of valkey-bloom",
    syntax: &[KEY, argument("blob", ArgumentKind::String)],
};

static IMPORT: CommandSpec = CommandSpec {
    name: "bf.import",
    arguments: 3..=23,
    // The server finds both keys by their specifications, and asks the module where the second one is missing.
    flags: "write deny-oom getkeys-api",
    categories: "write",
    key_access: KeyAccess::ReadWrite,
    source_key: Some(SourceKey { word: "SOURCE", word_position: 2 }),
    tips: None,
    since: V0_1,
    complexity: "O(n), where n is the number of bytes of the filter",
    summary: "Makes a filter of the bits that a client keeps in a string, to be asked and added to by that client's scheme",
    syntax: &[
        KEY,
        ArgumentSpec {
            name: "origin",
            kind: ArgumentKind::OneOf(&[
                ArgumentSpec {
                    name: "source",
                    kind: ArgumentKind::SourceKey,
                    token: Some("SOURCE"),
                    presence: Presence::Required,
                },
                ArgumentSpec {
                    name: "bytes",
                    kind: ArgumentKind::String,
                    token: Some("GUAVA"),
                    presence: Presence::Required,
                },
                word("empty", "EMPTY"),
            ]),
            token: None,
            presence: Presence::Required,
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
    ],
};

static EXPORT: CommandSpec = CommandSpec {
    name: "bf.export",
    arguments: 1..=1,
    flags: "readonly",
    categories: "read",
    key_access: KeyAccess::ReadOnly,
    source_key: None,
    tips: None,
    since: V0_1,
    complexity: "O(n), where n is the number of bytes of the filter",
    summary: "Gives back the string that the client of an imported filter would have now",
    syntax: &[KEY],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arities_are_redisblooms() {
        let arities: Vec<_> =
            COMMANDS.iter().map(|command| (command.spec().name, command.spec().arity())).collect();
        let expected = [
            ("bf.reserve", -4),
            ("bf.add", 3),
            ("bf.madd", -3),
            ("bf.insert", -4),
            ("bf.exists", 3),
            ("bf.mexists", -3),
            ("bf.info", -2),
            ("bf.card", 2),
            ("bf.debug", 2),
            ("bf.scandump", 3),
            ("bf.loadchunk", 4),
            ("bf.load", 3),
            ("bf.import", -4),
            ("bf.export", 2),
        ];
        assert_eq!(arities, expected);
    }
}
