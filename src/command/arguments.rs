//! Reading the arguments of a command from left to right.

use super::error::CommandError;
use super::keyspace::KeyName;
use super::table::Command;

/// The remaining arguments of a command.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The number of all arguments after the name.
    all: usize,
    rest: &'a [&'a [u8]],
    command: Command,
}

impl<'a> Arguments<'a> {
    /// Returns the arguments of a command; `argv` are those after its name.
    ///
    /// # Errors
    /// [`CommandError::WrongArity`] if their number is not allowed for the command.
    #[inline(always)]
    pub fn new(argv: &'a [&'a [u8]], command: Command) -> Result<Self, CommandError> {
        let spec = command.spec();
        if !spec.arguments.contains(&argv.len()) {
            return Err(CommandError::WrongArity(spec.name));
        }
        Ok(Self { all: argv.len(), rest: argv, command })
    }

    /// Returns the next argument; `None` if there is none.
    #[inline(always)]
    pub fn optional(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Returns the next argument.
    ///
    /// # Errors
    /// [`CommandError::WrongArity`] if there is none.
    #[inline(always)]
    pub fn required(&mut self) -> Result<&'a [u8], CommandError> {
        self.optional().ok_or_else(|| self.wrong_arity())
    }

    /// Returns the next argument as the name of a key.
    ///
    /// # Errors
    /// [`CommandError::WrongArity`] if there is none.
    #[inline(always)]
    pub fn key(&mut self) -> Result<KeyName<'a>, CommandError> {
        let position = self.all.saturating_sub(self.rest.len());
        Ok(KeyName { bytes: self.required()?, position })
    }

    /// Returns all remaining arguments, at least one.
    ///
    /// # Errors
    /// [`CommandError::WrongArity`] if there is none.
    #[inline(always)]
    pub fn items(self) -> Result<&'a [&'a [u8]], CommandError> {
        if self.rest.is_empty() { Err(self.wrong_arity()) } else { Ok(self.rest) }
    }

    /// Returns all remaining arguments, without reading them.
    #[must_use]
    pub const fn rest(&self) -> &'a [&'a [u8]] {
        self.rest
    }

    /// Returns the command.
    #[must_use]
    pub const fn command(&self) -> Command {
        self.command
    }

    /// Returns the error of a command with the wrong number of arguments.
    #[must_use]
    pub fn wrong_arity(&self) -> CommandError {
        CommandError::WrongArity(self.command.spec().name)
    }
}
