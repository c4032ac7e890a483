//! The options of BF.RESERVE, BF.INSERT and BF.IMPORT.
//!
//! Which options a command has, and how the value of each is read, are rows of the table of commands
//! ([`ArgumentSpec::read`]).

use super::arguments::Arguments;
use super::creation::CreationOptions;
use super::error::{CommandError, quotable};
use super::import::{ImportError, ImportOptions};
use super::number::{is_ratio, parse_double, parse_integer};
use super::settings::Host;
use super::table::{ArgumentKind, ArgumentSpec, Command};
use super::words::Word;
use crate::bloom::limits::EXPANSION_MAX;

/// The options that a command was given, each checked by itself. The last of a repeated option counts.
#[derive(Debug, Default)]
pub struct Options {
    /// Those of a filter that is to be made.
    pub(super) creation: CreationOptions,
    /// Those of a client's string.
    pub(super) import: ImportOptions,
    /// EXPANSION, which BF.RESERVE checks last.
    pub(super) expansion: Option<i64>,
    /// NOCREATE: a filter that is not there is an error.
    pub(super) no_create: bool,
    /// IFNOTEXISTS: a filter that is there is no error.
    pub(super) if_not_exists: bool,
    /// REPLACE.
    pub(super) is_replacing: bool,
}

/// Reads the value of an option.
pub type Read = fn(&mut Options, &mut Value<'_, '_>) -> Result<(), CommandError>;

/// The place where the value of an option is read.
pub struct Value<'v, 'a> {
    token: &'static str,
    arguments: &'v mut Arguments<'a>,
    host: &'v dyn Host,
}

impl Options {
    /// Reads options up to the word `end`, or to the last argument. Returns whether that word was there.
    ///
    /// # Errors
    /// The first option that is unknown, or whose value is bad or missing.
    pub(super) fn read(
        &mut self,
        arguments: &mut Arguments<'_>,
        end: Option<&str>,
        host: &dyn Host,
    ) -> Result<bool, CommandError> {
        let options = arguments.command().spec().syntax;
        while let Some(word) = arguments.optional() {
            if end.is_some_and(|end| word.eq_ignore_ascii_case(end.as_bytes())) {
                return Ok(true);
            }
            let Some((token, read)) = find(options, word) else {
                return Err(match arguments.command() {
                    Command::Insert => CommandError::InsertUnknownArgument,
                    _ => CommandError::UnknownArgument(quotable(word)),
                });
            };
            read(self, &mut Value { token, arguments, host })?;
        }
        Ok(false)
    }
}

/// Returns the option that a word is, in any case.
fn find(options: &[ArgumentSpec], word: &[u8]) -> Option<(&'static str, Read)> {
    options.iter().find_map(|option| match (option.token, option.read, &option.kind) {
        (Some(token), Some(read), _) if word.eq_ignore_ascii_case(token.as_bytes()) => Some((token, read)),
        (None, _, ArgumentKind::OneOf(choices)) => find(choices, word),
        _ => None,
    })
}

impl<'a> Value<'_, 'a> {
    /// Returns what the command says of a bad value of this option: RedisBloom has texts of its own for each command.
    fn bad(&self) -> CommandError {
        match (self.arguments.command(), self.token) {
            (Command::Import, token) => ImportError::BadValue(token).into(),
            (Command::Reserve, _) => CommandError::ReserveExpansion,
            (_, "ERROR") => CommandError::InsertErrorRate,
            (_, "EXPANSION") => CommandError::InsertExpansion,
            _ => CommandError::InsertCapacity,
        }
    }

    /// Returns the server.
    pub(super) const fn host(&self) -> &dyn Host {
        self.host
    }

    /// Returns the name of the command in lower case.
    pub(super) fn command_name(&self) -> &'static str {
        self.arguments.name()
    }

    /// Returns the value.
    ///
    /// # Errors
    /// That there is none.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], CommandError> {
        let is_reserve = self.arguments.command() == Command::Reserve;
        self.arguments.optional().ok_or_else(|| match self.token {
            "EXPANSION" if is_reserve => CommandError::ReserveNoExpansion,
            "FORMAT" if is_reserve => CommandError::UnknownFormat,
            _ => self.arguments.wrong_arity(),
        })
    }

    /// Returns the value, of so many bytes.
    ///
    /// # Errors
    /// That there is none, and `error` for another length.
    pub(super) fn array<const N: usize>(&mut self, error: CommandError) -> Result<[u8; N], CommandError> {
        self.bytes()?.try_into().map_err(|_| error)
    }

    /// Returns the value, an integer from `min` to `max`.
    ///
    /// # Errors
    /// That there is none, or a bad one.
    pub(super) fn number<N: TryFrom<u64> + Into<u64>>(&mut self, min: N, max: N) -> Result<N, CommandError> {
        let value = parse_integer(self.bytes()?).and_then(|value| u64::try_from(value).ok());
        let value = value.filter(|value| (min.into()..=max.into()).contains(value));
        value.and_then(|value| N::try_from(value).ok()).ok_or_else(|| self.bad())
    }

    /// Returns the value, a number strictly between 0 and 1.
    ///
    /// # Errors
    /// That there is none, or a bad one.
    pub(super) fn ratio(&mut self) -> Result<f64, CommandError> {
        parse_double(self.bytes()?).filter(|ratio| is_ratio(*ratio)).ok_or_else(|| self.bad())
    }

    /// Returns the value, one of the words of a type.
    ///
    /// # Errors
    /// That there is none, or another word.
    pub(super) fn word<W: Word>(&mut self) -> Result<W, CommandError> {
        W::named(self.bytes()?).ok_or_else(|| self.bad())
    }
}

/// Reads EXPANSION.
pub(super) fn expansion(options: &mut Options, value: &mut Value<'_, '_>) -> Result<(), CommandError> {
    if value.arguments.command() == Command::Reserve {
        options.expansion = Some(parse_integer(value.bytes()?).ok_or_else(|| value.bad())?);
    } else {
        options.creation.expansion = Some(value.number(0, EXPANSION_MAX)?);
    }
    Ok(())
}
