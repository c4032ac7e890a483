//! Sliding windows in commands: their options, the moment that items are of, and how it is replicated.
//!
//! An add without a moment that comes from a primary or a log is of the newest generation that the filter has items
//! of: so the moment is said only with the first add of a generation, and with adds that lie behind others.

use std::borrow::Cow;

use super::creation::lines::{number, word};
use super::effects::Line;
use super::error::CommandError;
use super::number::parse_integer;
use super::options::{Options, Value};
use super::settings::Host;
use crate::bloom::Filter;
use crate::bloom::limits::{WINDOW_MAX_MS, WINDOW_MIN_MS};
use crate::bloom::window::{Generation, MomentError};

/// Reads WINDOW or PWINDOW, whose value is in units of so many milliseconds.
///
/// # Errors
/// [`CommandError::WindowRange`].
pub(super) fn read(
    options: &mut Options,
    value: &mut Value<'_, '_>,
    unit_ms: u64,
) -> Result<(), CommandError> {
    let number = parse_integer(value.bytes()?).and_then(|number| u64::try_from(number).ok());
    let window_ms = number.and_then(|number| number.checked_mul(unit_ms));
    let in_range = window_ms.filter(|window_ms| (WINDOW_MIN_MS..=WINDOW_MAX_MS).contains(window_ms));
    options.creation.window_ms = Some(in_range.ok_or(CommandError::WindowRange)?);
    Ok(())
}

/// Reads AT.
///
/// # Errors
/// [`CommandError::BadMoment`].
pub(super) fn read_moment(options: &mut Options, value: &mut Value<'_, '_>) -> Result<(), CommandError> {
    let at_ms = parse_integer(value.bytes()?).and_then(|at_ms| u64::try_from(at_ms).ok());
    options.creation.at_ms = Some(at_ms.ok_or(CommandError::BadMoment)?);
    Ok(())
}

/// The time of items that are about to be added.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timing {
    /// The newest generation that a sliding window had before; nothing for other filters.
    newest: Option<Generation>,
    /// Whether the items are of the very moment that the command says.
    is_said: bool,
}

impl Timing {
    /// Returns that of a filter whose time is set, and of the moment that the command says, if it says one.
    ///
    /// # Errors
    /// [`CommandError::NeedsWindow`], [`CommandError::MomentPast`] and [`CommandError::MomentAhead`].
    #[inline(always)]
    pub(super) fn of(filter: &mut Filter, at_ms: Option<u64>, host: &dyn Host) -> Result<Self, CommandError> {
        if filter.window().is_none() && at_ms.is_none() {
            return Ok(Self::default());
        }
        Self::of_window(filter, at_ms, host)
    }

    #[inline(never)]
    fn of_window(filter: &mut Filter, at_ms: Option<u64>, host: &dyn Host) -> Result<Self, CommandError> {
        let window = filter.window_mut().ok_or(CommandError::NeedsWindow("AT"))?;
        let newest = Some(window.newest());
        let is_said = match at_ms {
            None => false,
            Some(at_ms) if host.must_obey() => {
                window.set_moment(at_ms);
                true
            }
            Some(at_ms) => window.set_event(at_ms).map_err(|error| match error {
                MomentError::Past => CommandError::MomentPast,
                MomentError::Ahead => CommandError::MomentAhead,
            })?,
        };
        Ok(Self { newest, is_said })
    }

    /// Returns that of a filter that was just made.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(super) fn of_new(
        filter: &mut Filter,
        at_ms: Option<u64>,
        host: &dyn Host,
    ) -> Result<Self, CommandError> {
        if let Some(window) = filter.window_mut() {
            window.set_now(host.now_ms());
        }
        Self::of(filter, at_ms, host)
    }

    /// Whether the command says the moment that its items are of, so that it can be replicated as it was sent.
    pub(super) const fn is_said(self) -> bool {
        self.is_said
    }

    /// The moment that items which were added are of, in milliseconds of UNIX time, if others would not know it.
    #[inline(always)]
    pub(super) fn to_say(self, filter: &mut Filter) -> Option<u64> {
        let newest = self.newest?;
        let window = filter.window_mut()?;
        (window.moment().added != newest).then(|| window.now_ms())
    }
}

/// The command that adds `items` of a moment to the filter under `key`, and makes none. `room` is empty; its memory is
/// used.
pub(super) fn line<'a>(
    key: &'a [u8],
    at_ms: u64,
    items: impl Iterator<Item = Cow<'a, [u8]>>,
    mut room: Vec<Cow<'a, [u8]>>,
) -> Line<'a> {
    room.push(Cow::Borrowed(key));
    room.extend([word("NOCREATE"), word("AT"), number(at_ms), word("ITEMS")]);
    room.extend(items);
    Line { command: "BF.INSERT", arguments: room }
}
