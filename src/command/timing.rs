//! The time of items that are added to a sliding-window filter, and whether the time must be replicated.
//!
//! A replicated add without a time adds to the newest generation of the filter. So the time is replicated only if the
//! items are the first of a newer generation, or belong to an older one. A replicated merge without a time accepts the
//! time of every item, so the time is replicated only if a source is ahead.

use super::error::{CommandError, quotable};
use super::keyspace::{Host, KeyName};
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

/// The time of the items that a merge brings.
#[derive(Clone, Copy, Debug)]
pub(super) struct MergeTiming {
    /// The generation as of which later items of a source count.
    pub(super) latest: Generation,
    /// The time of the merge, in milliseconds of UNIX time.
    pub(super) now_ms: u64,
    /// Whether a source has later items, so that replicas need the time.
    pub(super) is_source_ahead: bool,
}

impl MergeTiming {
    /// Returns the timing of a merge of `sources`, with their names, into a filter; `None` if it is made. `at_ms` is the
    /// time of a replicated merge, if it has one. Without a time, a replicated merge accepts every time.
    ///
    /// # Errors
    /// [`CommandError::SourceAhead`].
    pub(super) fn of(
        into: Option<&Filter>,
        sources: &[(KeyName<'_>, &Filter)],
        at_ms: Option<u64>,
        host: &dyn Host,
    ) -> Result<Self, CommandError> {
        let any = Self { latest: Generation::MAX, now_ms: host.now_ms(), is_source_ahead: false };
        let first = into.or_else(|| sources.first().map(|(_, source)| *source));
        let Some(window) = first.and_then(Filter::window) else { return Ok(any) };
        if host.is_replicated() {
            let latest = at_ms.map_or(any.latest, |at_ms| window.span.generation_at(at_ms));
            return Ok(Self { latest, ..any });
        }
        // The time of a filter is never before its newest item. A source's time does not matter.
        let now_ms = if into.is_some() { window.now_ms() } else { any.now_ms };
        for (name, source) in sources {
            if let Some(items_ms) = source.lead_ms(now_ms) {
                return Err(CommandError::SourceAhead { key: quotable(name.bytes), items_ms, now_ms });
            }
        }
        let latest = window.span.generation_at(now_ms);
        let is_source_ahead = sources.iter().any(|(_, source)| source.newest_generation() > latest);
        Ok(Self { latest, now_ms, is_source_ahead })
    }
}
