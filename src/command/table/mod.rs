//! The table of commands: the source for registration, COMMAND DOCS, the arity check and docs/commands.md.

mod option_word;
mod rows;

pub use option_word::OptionWord;

use std::ops::RangeInclusive;

/// Lists every command once with its row. Calls `$use!` with the list.
#[macro_export]
macro_rules! for_each_command {
    ($use:ident) => {
        $use! {
            Reserve => RESERVE,
            Add => ADD,
            MAdd => MADD,
            Insert => INSERT,
            Del => DEL,
            Exists => EXISTS,
            MExists => MEXISTS,
            Ttl => TTL,
            PTtl => PTTL,
            BulkAdd => BULKADD,
            BulkExists => BULKEXISTS,
            Info => INFO,
            Stats => STATS,
            Card => CARD,
            Debug => DEBUG,
            Clear => CLEAR,
            ScanDump => SCANDUMP,
            Follow => FOLLOW,
            LoadChunk => LOADCHUNK,
            Load => LOAD,
            Import => IMPORT,
            Export => EXPORT,
            Merge => MERGE,
            CfReserve => CF_RESERVE,
            CfAdd => CF_ADD,
            CfAddNx => CF_ADDNX,
            CfInsert => CF_INSERT,
            CfInsertNx => CF_INSERTNX,
            CfExists => CF_EXISTS,
            CfMExists => CF_MEXISTS,
            CfCount => CF_COUNT,
            CfDel => CF_DEL,
            CfInfo => CF_INFO,
            CfDebug => CF_DEBUG,
            CfCompact => CF_COMPACT,
            CfScanDump => CF_SCANDUMP,
            CfLoadChunk => CF_LOADCHUNK,
        }
    };
}

macro_rules! commands {
    ($($command:ident => $spec:ident,)*) => {
        /// A command of the module.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Command {
            $(#[doc = concat!("The command of the row ", stringify!($spec), ".")] $command,)*
        }

        /// Every command.
        pub const COMMANDS: [Command; [$(Command::$command),*].len()] = [$(Command::$command),*];

        impl Command {
            /// Returns the command's row.
            #[must_use]
            #[inline(always)]
            pub fn spec(self) -> &'static CommandSpec {
                match self {
                    $(Self::$command => &rows::$spec,)*
                }
            }
        }
    };
}
for_each_command!(commands);

/// The access of a command to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAccess {
    /// The command reads the key.
    ReadOnly,
    /// The command may create or change the key.
    ReadWrite,
}

/// A row of the table: the properties of a command for the server and the documentation. The key is always the first
/// argument.
///
/// BF.MERGE and BF.IMPORT have further keys, which are not in the row (docs/decisions/0013-keys-beside-the-first.md).
#[derive(Debug)]
pub struct CommandSpec {
    /// Name in lower case.
    pub name: &'static str,
    /// The allowed numbers of arguments after the name.
    pub arguments: RangeInclusive<usize>,
    /// Flags of the command, as the module API names them.
    pub flags: &'static str,
    /// ACL categories of the server.
    pub categories: &'static str,
    /// Whether the command is in the module's category too: `bloom`, or `cuckoo` for CF.*.
    pub has_own_category: bool,
    /// The access to the key.
    pub key_access: KeyAccess,
    /// Tips for clients, as COMMAND DOCS defines them.
    pub tips: Option<&'static str>,
    /// First version of everbloom with the command.
    pub since: &'static str,
    /// Time complexity.
    pub complexity: &'static str,
    /// A sentence about the command, without its full stop.
    pub summary: &'static str,
    /// The arguments after the name.
    pub syntax: &'static [ArgumentSpec],
}

impl CommandSpec {
    /// Returns whether this is a CF.* command.
    #[must_use]
    pub fn is_of_cuckoo(&self) -> bool {
        self.name.starts_with("cf.")
    }

    /// Returns the arity as Redis counts it: with the name, negative if it is a minimum.
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
    /// The type of its value.
    pub kind: ArgumentKind,
    /// The word before the value, or the word alone.
    pub token: Option<&'static str>,
    /// The option that the word is, if `options` reads it.
    pub option: Option<OptionWord>,
    /// How often it appears.
    pub presence: Presence,
}

/// The type of an argument.
#[derive(Debug)]
pub enum ArgumentKind {
    /// The key.
    Key,
    /// Any bytes. Keys after the first one are of this type too, because the server must not treat them as keys
    /// (docs/decisions/0013-keys-beside-the-first.md).
    String,
    /// An integer.
    Integer,
    /// A floating-point number.
    Double,
    /// The token itself.
    PureToken,
    /// One of these arguments.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arities_equal_those_of_redisbloom() {
        let arities: Vec<_> =
            COMMANDS.iter().map(|command| (command.spec().name, command.spec().arity())).collect();
        let expected = [
            ("bf.reserve", -4),
            ("bf.add", -3),
            ("bf.madd", -3),
            ("bf.insert", -4),
            ("bf.del", -3),
            ("bf.exists", -3),
            ("bf.mexists", -3),
            ("bf.ttl", 3),
            ("bf.pttl", 3),
            ("bf.bulkadd", -4),
            ("bf.bulkexists", -4),
            ("bf.info", -2),
            ("bf.stats", 2),
            ("bf.card", 2),
            ("bf.debug", 2),
            ("bf.clear", 2),
            ("bf.scandump", 3),
            ("bf.follow", -2),
            ("bf.loadchunk", 4),
            ("bf.load", 3),
            ("bf.import", -4),
            ("bf.export", 2),
            ("bf.merge", -3),
            ("cf.reserve", -3),
            ("cf.add", 3),
            ("cf.addnx", 3),
            ("cf.insert", -4),
            ("cf.insertnx", -4),
            ("cf.exists", 3),
            ("cf.mexists", -3),
            ("cf.count", 3),
            ("cf.del", 3),
            ("cf.info", 2),
            ("cf.debug", 2),
            ("cf.compact", -1),
            ("cf.scandump", 3),
            ("cf.loadchunk", 4),
        ];
        assert_eq!(arities, expected);
    }
}
