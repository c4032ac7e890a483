//! The time to live that a filter is given when it is made: `EX seconds`, `PX milliseconds`, `EXAT` and
//! `PXAT`, which give the moment in UNIX time.

use std::borrow::Cow;

use super::effects::Line;
use super::error::CommandError;
use super::number::parse_integer;
use super::options::{Options, Value};

/// Reads an option whose value is a duration from now on, or a moment, in units of so many milliseconds.
///
/// # Errors
/// [`CommandError::NotAnInteger`] and [`CommandError::ExpireTime`], as SET has them, and [`CommandError::Syntax`] for a second such
/// option.
pub(super) fn read(
    options: &mut Options,
    value: &mut Value<'_, '_>,
    unit_ms: i64,
    is_moment: bool,
) -> Result<(), CommandError> {
    if options.creation.expires_at_ms.is_some() {
        return Err(CommandError::Syntax);
    }
    let number = parse_integer(value.bytes()?).ok_or(CommandError::NotAnInteger)?;
    let start_ms = if is_moment { 0 } else { value.host().now_ms() };
    // The server keeps the moment as a signed number.
    let at_ms = number
        .checked_mul(unit_ms)
        .filter(|duration_ms| *duration_ms > 0)
        .and_then(|duration_ms| duration_ms.checked_add_unsigned(start_ms))
        .and_then(|at_ms| u64::try_from(at_ms).ok());
    options.creation.expires_at_ms =
        Some(at_ms.ok_or_else(|| CommandError::ExpireTime(value.command_name()))?);
    Ok(())
}

/// The command that gives the key its moment on replicas and in the append-only file: one that every server
/// knows, and that makes nothing.
pub(super) fn line(key: &[u8], at_ms: u64) -> Line<'_> {
    let moment = Cow::Owned(at_ms.to_string().into_bytes());
    Line { command: "PEXPIREAT", arguments: vec![Cow::Borrowed(key), moment] }
}
