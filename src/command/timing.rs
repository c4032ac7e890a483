//! The time of items that are added to a sliding-window filter, and whether the time must be replicated.
//!
//! A replicated add without a time adds to the newest generation of the filter. So the time is replicated only if the
//! items are the first of a newer generation, or belong to an older one.

use super::error::CommandError;
use super::keyspace::Host;
use crate::bloom::Filter;
use crate::bloom::filter::policy::window::MomentError;
use crate::bloom::generation::Generation;

/// The time of the items that a command adds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timing {
    /// The newest generation of a sliding-window filter before the command; `None` for other filters.
    newest: Option<Generation>,
    /// Whether the items got the time of AT, so that the command can be replicated as it was sent.
    pub(super) is_explicit: bool,
}

impl Timing {
    /// Returns the timing for an existing filter, whose current time was set when it was looked up. `at_ms` is the
    /// value of AT.
    ///
    /// # Errors
    /// [`CommandError::NeedsWindow`], [`CommandError::AtTooOld`] and [`CommandError::AtAhead`].
    #[inline(always)]
    pub(super) fn of(filter: &mut Filter, at_ms: Option<u64>, host: &dyn Host) -> Result<Self, CommandError> {
        if filter.window().is_none() && at_ms.is_none() {
            return Ok(Self::default());
        }
        Self::of_window(filter, at_ms, host)
    }

    #[inline(never)]
    fn of_window(filter: &mut Filter, at_ms: Option<u64>, host: &dyn Host) -> Result<Self, CommandError> {
        if filter.window().is_none() {
            return Err(CommandError::NeedsWindow("AT"));
        }
        let newest = Some(filter.newest_generation());
        let is_explicit = match at_ms {
            None => false,
            Some(at_ms) if host.is_replicated() => {
                filter.set_moment(at_ms);
                true
            }
            Some(at_ms) => filter.set_event(at_ms).map_err(|error| match error {
                MomentError::Past => CommandError::AtTooOld,
                MomentError::Ahead => CommandError::AtAhead,
            })?,
        };
        Ok(Self { newest, is_explicit })
    }

    /// Returns the timing for a new filter, and sets the current time of the filter.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(super) fn of_new(
        filter: &mut Filter,
        at_ms: Option<u64>,
        host: &dyn Host,
    ) -> Result<Self, CommandError> {
        if filter.window().is_some() {
            filter.set_now(host.now_ms());
        }
        Self::of(filter, at_ms, host)
    }

    /// Returns the time of the items in milliseconds of UNIX time if replicas need it to choose the same generation;
    /// `None` otherwise.
    #[inline(always)]
    pub(super) fn replicated_ms(self, filter: &Filter) -> Option<u64> {
        let newest = self.newest?;
        let window = filter.window()?;
        (window.moment().added != newest).then(|| window.now_ms())
    }
}
