//! The one table of commands: registration, COMMAND DOCS, the arity check and docs/commands.md come from it.

mod add;
mod ask;
mod import;
mod parts;

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

impl Command {
    /// What the server and the documentation know of the command.
    #[must_use]
    #[inline(always)]
    pub fn spec(self) -> &'static CommandSpec {
        match self {
            Self::Reserve => &add::RESERVE,
            Self::Add => &add::ADD,
            Self::MAdd => &add::MADD,
            Self::Insert => &add::INSERT,
            Self::Exists => &ask::EXISTS,
            Self::MExists => &ask::MEXISTS,
            Self::Info => &ask::INFO,
            Self::Card => &ask::CARD,
            Self::Debug => &ask::DEBUG,
            Self::ScanDump => &import::SCANDUMP,
            Self::LoadChunk => &import::LOADCHUNK,
            Self::Load => &import::LOAD,
            Self::Import => &import::IMPORT,
            Self::Export => &import::EXPORT,
        }
    }
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
