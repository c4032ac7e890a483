//! The one table of commands: registration, COMMAND DOCS, the arity check and docs/commands.md come from it.

mod add;
mod ask;
mod bulk;
mod import;
mod merge;
mod options;
mod parts;
mod pieces;

use std::ops::RangeInclusive;

use super::options::Read;

/// Names every command once, in the order of the documentation: `$use!` is given all of them, each with its
/// entry in the table.
macro_rules! for_each_command {
    ($use:ident) => {
        $use! {
            /// BF.RESERVE.
            Reserve => add::RESERVE,
            /// BF.ADD.
            Add => add::ADD,
            /// BF.MADD.
            MAdd => add::MADD,
            /// BF.INSERT.
            Insert => add::INSERT,
            /// BF.DEL.
            Del => add::DEL,
            /// BF.EXISTS.
            Exists => ask::EXISTS,
            /// BF.MEXISTS.
            MExists => ask::MEXISTS,
            /// BF.BULKADD.
            BulkAdd => bulk::BULKADD,
            /// BF.BULKEXISTS.
            BulkExists => bulk::BULKEXISTS,
            /// BF.INFO.
            Info => ask::INFO,
            /// BF.STATS.
            Stats => ask::STATS,
            /// BF.CARD.
            Card => ask::CARD,
            /// BF.DEBUG.
            Debug => ask::DEBUG,
            /// BF.CLEAR.
            Clear => add::CLEAR,
            /// BF.SCANDUMP.
            ScanDump => pieces::SCANDUMP,
            /// BF.LOADCHUNK.
            LoadChunk => pieces::LOADCHUNK,
            /// BF.LOAD.
            Load => pieces::LOAD,
            /// BF.IMPORT.
            Import => import::IMPORT,
            /// BF.EXPORT.
            Export => import::EXPORT,
            /// BF.MERGE.
            Merge => merge::MERGE,
        }
    };
}
#[cfg(feature = "server")]
pub(crate) use for_each_command;

macro_rules! commands {
    ($($(#[$doc:meta])* $command:ident => $room:ident::$spec:ident,)*) => {
        /// A command of the module.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Command {
            $($(#[$doc])* $command,)*
        }

        /// Every command, in the order of the documentation.
        pub const COMMANDS: [Command; [$(Command::$command),*].len()] = [$(Command::$command),*];

        impl Command {
            /// What the server and the documentation know of the command.
            #[must_use]
            #[inline(always)]
            pub fn spec(self) -> &'static CommandSpec {
                match self {
                    $(Self::$command => &$room::$spec,)*
                }
            }
        }
    };
}
for_each_command!(commands);

/// What a command does with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAccess {
    /// Reads it.
    ReadOnly,
    /// May create or change it.
    ReadWrite,
}

/// What the server and the documentation know of a command. The key is always the first argument.
///
/// Further keys, of BF.MERGE and BF.IMPORT, are not in it (docs/decisions/0013-keys-beside-the-first.md).
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
    /// Version of everbloom that brought it, where that is not the command's.
    pub since: Option<&'static str>,
    /// How the value of an option is read; `None` for other arguments.
    pub read: Option<Read>,
}

/// What an argument is.
#[derive(Debug)]
pub enum ArgumentKind {
    /// The key.
    Key,
    /// Any bytes. Also a key that is only read ([`Keyspace::may_read`](crate::command::Keyspace::may_read)): the server is
    /// told of the first key only.
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
            ("bf.del", -3),
            ("bf.exists", 3),
            ("bf.mexists", -3),
            ("bf.bulkadd", -4),
            ("bf.bulkexists", -4),
            ("bf.info", -2),
            ("bf.stats", 2),
            ("bf.card", 2),
            ("bf.debug", 2),
            ("bf.clear", 2),
            ("bf.scandump", 3),
            ("bf.loadchunk", 4),
            ("bf.load", 3),
            ("bf.import", -4),
            ("bf.export", 2),
            ("bf.merge", -3),
        ];
        assert_eq!(arities, expected);
    }
}
