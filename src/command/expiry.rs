//! The time to live that a filter is given when it is made: `EX seconds`, `PX milliseconds`, `EXAT` and
//! `PXAT`, which give the moment in UNIX time.

use std::borrow::Cow;

use super::arguments::Arguments;
use super::effects::Line;
use super::error::CommandError;
use super::number::parse_integer;
use super::settings::Host;

/// The moment of an expiry option, in milliseconds of UNIX time; nothing where `word` is no such option.
///
/// # Errors
/// [`CommandError::NotAnInteger`] and [`CommandError::ExpireTime`], as SET has them, and
/// [`CommandError::Syntax`] for a second such option (`before`).
pub(super) fn option(
    word: &[u8],
    before: Option<u64>,
    arguments: &mut Arguments<'_>,
    host: &dyn Host,
) -> Result<Option<u64>, CommandError> {
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let (unit_ms, is_absolute) = match () {
        () if is("EX") => (1000, false),
        () if is("PX") => (1, false),
        () if is("EXAT") => (1000, true),
        () if is("PXAT") => (1, true),
        () => return Ok(None),
    };
    if before.is_some() {
        return Err(CommandError::Syntax);
    }
    let number = parse_integer(arguments.required()?).ok_or(CommandError::NotAnInteger)?;
    let start_ms = if is_absolute { 0 } else { host.now_ms() };
    // The server keeps the moment as a signed number.
    let at_ms = number
        .checked_mul(unit_ms)
        .filter(|duration_ms| *duration_ms > 0)
        .and_then(|duration_ms| duration_ms.checked_add_unsigned(start_ms))
        .and_then(|at_ms| u64::try_from(at_ms).ok());
    at_ms.map(Some).ok_or_else(|| CommandError::ExpireTime(arguments.name()))
}

/// The command that gives the key its moment on replicas and in the append-only file: one that every server
/// knows, and that makes nothing.
pub(super) fn line(key: &[u8], at_ms: u64) -> Line<'_> {
    let moment = Cow::Owned(at_ms.to_string().into_bytes());
    Line { command: "PEXPIREAT", arguments: vec![Cow::Borrowed(key), moment] }
}
