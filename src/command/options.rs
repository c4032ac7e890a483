//! The options of BF.RESERVE, BF.INSERT and BF.IMPORT: one grammar for the three commands.
//!
//! The table of commands lists the options of each command and how each is read ([`ArgumentSpec::read`]). This file
//! has the struct for their values, and the readers. `creation` and `import` interpret the values together.

use super::arguments::Arguments;
use super::error::{CommandError, ImportError, quotable};
use super::keyspace::Host;
use super::number::{is_ratio, parse_double, parse_integer};
use super::table::{ArgumentKind, ArgumentSpec, Command};
use super::words::Word;
use crate::bloom::Format;
use crate::bloom::filter::policy::BitOrder;
use crate::bloom::hash::scheme::{ItemEncoding, Scheme};
use crate::bloom::hash::siphash::{KEY_BYTES, SEED_BYTES};
use crate::bloom::limits::{EXPANSION_MAX, WINDOW_MAX_MS, WINDOW_MIN_MS};

/// The options of a command. Each value is checked for its own range only. A repeated option replaces the one before
/// it.
#[derive(Debug, Default)]
pub struct Options {
    /// The options of a new filter.
    pub(super) creation: CreationOptions,
    /// The options of a client's string.
    pub(super) import: ImportOptions,
    /// EXPANSION of BF.RESERVE, which checks its range last.
    pub(super) expansion: Option<i64>,
    /// NOCREATE: it is an error if the filter does not exist.
    pub(super) no_create: bool,
    /// IFNOTEXISTS: it is no error if the filter exists.
    pub(super) if_not_exists: bool,
    /// REPLACE.
    pub(super) is_replacing: bool,
}

/// The options of a new filter.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreationOptions {
    /// The promised error rate, strictly between 0 and 1.
    pub error_rate: Option<f64>,
    /// The capacity, at least 1.
    pub capacity_items: Option<u64>,
    /// Expansion; 0 for a fixed filter.
    pub expansion: Option<u32>,
    /// NONSCALING.
    pub is_fixed: bool,
    /// SATURATE.
    pub is_saturating: bool,
    /// KEYED.
    pub is_keyed: bool,
    /// KEY.
    pub key: Option<[u8; KEY_BYTES]>,
    /// FORMAT.
    pub format: Option<Format>,
    /// COUNTING.
    pub is_counting: bool,
    /// WINDOW or PWINDOW, in milliseconds.
    pub window_ms: Option<u64>,
    /// NOREFRESH.
    pub no_refresh: bool,
    /// AT: the time of the items, in milliseconds of UNIX time. It also applies to an existing filter.
    pub at_ms: Option<u64>,
    /// SEED.
    pub seed: Option<[u8; SEED_BYTES]>,
    /// TIGHTENING, strictly between 0 and 1.
    pub tightening_ratio: Option<f64>,
    /// EX, PX, EXAT or PXAT: when the key expires, in milliseconds of UNIX time.
    pub expires_at_ms: Option<u64>,
    /// UNRESERVED: nobody chose the capacity.
    pub is_unreserved: bool,
    /// VALIDATESCALETO, in items.
    pub scale_to_items: Option<u64>,
}

/// The options that describe a client's string.
#[derive(Debug, Default)]
pub struct ImportOptions {
    /// Whether SCHEME was given.
    pub(super) has_scheme: bool,
    /// SCHEME; `None` if Guava's bytes contain it.
    pub(super) scheme: Option<Scheme>,
    /// BITS.
    pub(super) size_bits: Option<u64>,
    /// HASHES.
    pub(super) probes: Option<u32>,
    /// SHIFT.
    pub(super) shift: Option<u8>,
    /// ORDER.
    pub(super) order: Option<BitOrder>,
    /// ENCODING.
    pub(super) encoding: Option<ItemEncoding>,
}

/// The value of SCHEME, and the name of the origin, for a string that Guava's `writeTo` wrote.
pub(super) const GUAVA: &[u8] = b"guava";

/// How an option is read.
#[derive(Clone, Copy, Debug)]
pub enum Read {
    /// An option without a value.
    Flag(fn(&mut Options)),
    /// An option with a value.
    Value(ReadValue),
}

/// Reads the value of an option.
pub type ReadValue = fn(&mut Options, &mut Value<'_, '_>) -> Result<(), CommandError>;

/// The value of an option that is to be read.
pub struct Value<'v, 'a> {
    token: &'static str,
    arguments: &'v mut Arguments<'a>,
    host: &'v dyn Host,
}

impl Options {
    /// Reads options up to the word `end`, or to the last argument. Returns whether `end` was found.
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
            match find(options, word) {
                Some((_, Read::Flag(set))) => set(self),
                Some((token, Read::Value(read))) => read(self, &mut Value { token, arguments, host })?,
                None if arguments.command() == Command::Insert => {
                    return Err(CommandError::InsertUnknownArgument);
                }
                None => return Err(CommandError::UnknownArgument(quotable(word))),
            }
        }
        Ok(false)
    }

    /// Reads EXPANSION.
    pub(super) fn read_expansion(&mut self, value: &mut Value<'_, '_>) -> Result<(), CommandError> {
        if value.arguments.command() != Command::Reserve {
            return value.number(&mut self.creation.expansion, 0, EXPANSION_MAX);
        }
        self.expansion = Some(parse_integer(value.bytes()?).ok_or(CommandError::ReserveExpansion)?);
        Ok(())
    }

    /// Reads TIGHTENING.
    pub(super) fn read_tightening(&mut self, value: &mut Value<'_, '_>) -> Result<(), CommandError> {
        let ratio = parse_double(value.bytes()?).ok_or(CommandError::BadTightening)?;
        self.creation.tightening_ratio = Some(ratio);
        if is_ratio(ratio) { Ok(()) } else { Err(CommandError::TighteningRange) }
    }

    /// Reads WINDOW or PWINDOW, whose unit is `unit_ms` milliseconds. `error` is the error for another value.
    pub(super) fn read_window(
        &mut self,
        value: &mut Value<'_, '_>,
        unit_ms: u64,
        error: CommandError,
    ) -> Result<(), CommandError> {
        let window_ms = value.unsigned()?.and_then(|number| number.checked_mul(unit_ms));
        let in_range = window_ms.filter(|window_ms| (WINDOW_MIN_MS..=WINDOW_MAX_MS).contains(window_ms));
        self.creation.window_ms = Some(in_range.ok_or(error)?);
        Ok(())
    }

    /// Reads AT.
    pub(super) fn read_at(&mut self, value: &mut Value<'_, '_>) -> Result<(), CommandError> {
        self.creation.at_ms = Some(value.unsigned()?.ok_or(CommandError::BadAt)?);
        Ok(())
    }

    /// Reads EX or PX: a time to live, whose unit is `unit_ms` milliseconds.
    pub(super) fn read_time_to_live(
        &mut self,
        value: &mut Value<'_, '_>,
        unit_ms: i64,
    ) -> Result<(), CommandError> {
        let now_ms = value.host.now_ms();
        self.read_expiry(value, unit_ms, now_ms)
    }

    /// Reads EX, PX, EXAT or PXAT: a time after `start_ms`, whose unit is `unit_ms` milliseconds. The errors are those
    /// of SET.
    pub(super) fn read_expiry(
        &mut self,
        value: &mut Value<'_, '_>,
        unit_ms: i64,
        start_ms: u64,
    ) -> Result<(), CommandError> {
        if self.creation.expires_at_ms.is_some() {
            return Err(CommandError::Syntax);
        }
        let number = parse_integer(value.bytes()?).ok_or(CommandError::NotAnInteger)?;
        // The server stores the time as a signed number.
        let at_ms = number
            .checked_mul(unit_ms)
            .filter(|duration_ms| *duration_ms > 0)
            .and_then(|duration_ms| duration_ms.checked_add_unsigned(start_ms))
            .and_then(|at_ms| u64::try_from(at_ms).ok());
        self.creation.expires_at_ms =
            Some(at_ms.ok_or_else(|| CommandError::ExpireTime(value.arguments.name()))?);
        Ok(())
    }

    /// Reads SCHEME.
    pub(super) fn read_scheme(&mut self, value: &mut Value<'_, '_>) -> Result<(), CommandError> {
        let name = value.bytes()?;
        self.import.has_scheme = true;
        self.import.scheme = if name.eq_ignore_ascii_case(GUAVA) {
            None
        } else {
            Some(Scheme::named(name).ok_or_else(|| ImportError::UnknownScheme(quotable(name)))?)
        };
        Ok(())
    }
}

/// Returns the token and the reader of the option that `word` names, in any case.
fn find(options: &[ArgumentSpec], word: &[u8]) -> Option<(&'static str, Read)> {
    options.iter().find_map(|option| match (option.token, option.read, &option.kind) {
        (Some(token), Some(read), _) if word.eq_ignore_ascii_case(token.as_bytes()) => Some((token, read)),
        (None, _, ArgumentKind::OneOf(choices)) => find(choices, word),
        _ => None,
    })
}

impl<'a> Value<'_, 'a> {
    /// Returns the command's error for a bad value of this option: RedisBloom has different texts for each command.
    /// `allowed` are the valid values.
    fn bad(&self, allowed: String) -> CommandError {
        match (self.arguments.command(), self.token) {
            (Command::Import, token) => ImportError::BadValue(token, allowed).into(),
            (_, "FORMAT") => CommandError::UnknownFormat,
            (_, "ERROR") => CommandError::InsertErrorRate,
            (_, "EXPANSION") => CommandError::InsertExpansion,
            _ => CommandError::InsertCapacity,
        }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// The command's error for a missing value.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], CommandError> {
        let is_reserve = self.arguments.command() == Command::Reserve;
        self.arguments.optional().ok_or_else(|| match self.token {
            "EXPANSION" if is_reserve => CommandError::ReserveNoExpansion,
            "FORMAT" if is_reserve => CommandError::UnknownFormat,
            _ => self.arguments.wrong_arity(),
        })
    }

    /// Returns the value if it is an integer that is not negative.
    fn unsigned(&mut self) -> Result<Option<u64>, CommandError> {
        Ok(parse_integer(self.bytes()?).and_then(|value| u64::try_from(value).ok()))
    }

    /// Reads an array of bytes into `target`. `error` is the error for another length.
    pub(super) fn array<const N: usize>(
        &mut self,
        target: &mut Option<[u8; N]>,
        error: CommandError,
    ) -> Result<(), CommandError> {
        *target = Some(self.bytes()?.try_into().map_err(|_| error)?);
        Ok(())
    }

    /// Reads an integer from `min` to `max` into `target`.
    pub(super) fn number<N: TryFrom<u64> + Into<u64>>(
        &mut self,
        target: &mut Option<N>,
        min: N,
        max: N,
    ) -> Result<(), CommandError> {
        let (min, max) = (min.into(), max.into());
        let value = self.unsigned()?.filter(|value| (min..=max).contains(value));
        let value = value.and_then(|value| N::try_from(value).ok());
        *target = Some(value.ok_or_else(|| self.bad(format!("{min} to {max}")))?);
        Ok(())
    }

    /// Reads a number strictly between 0 and 1 into `target`.
    pub(super) fn ratio(&mut self, target: &mut Option<f64>) -> Result<(), CommandError> {
        let ratio = parse_double(self.bytes()?).filter(|ratio| is_ratio(*ratio));
        *target = Some(ratio.ok_or_else(|| self.bad("a number between 0 and 1".to_owned()))?);
        Ok(())
    }

    /// Reads one of the words of a type into `target`.
    pub(super) fn word<W: Word>(&mut self, target: &mut Option<W>) -> Result<(), CommandError> {
        *target = Some(W::named(self.bytes()?).ok_or_else(|| self.bad(W::listed()))?);
        Ok(())
    }
}
