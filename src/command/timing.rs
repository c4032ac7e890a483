//! The time of items that are added to a sliding-window filter, and whether the time must be replicated.
//!
//! A replicated add without a time adds to the newest generation of the filter. So the time is replicated only if the
//! items are the first of a newer generation, belong to an older one, or have a life of their own. A replicated merge without a time accepts the
//! time of every item, so the time is replicated only if a source is ahead.

use super::error::{CommandError, quotable};
use super::keyspace::{Host, KeyName};
use super::options::{CreationOptions, Duration};
use super::table::OptionWord;
use everbloom_filter::filter::policy::window::MomentError;
use everbloom_filter::generation::Generation;
use everbloom_filter::{Filter, Window};

/// The times of the items that a command adds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timing {
    /// The newest generation of a sliding-window filter before the command; `None` for other filters.
    newest: Option<Generation>,
    /// Whether the items got the time of AT, so that the command can be replicated as it was sent.
    pub(super) is_explicit: bool,
    /// The end of the life of the items, in milliseconds of UNIX time, if they have one of their own.
    pub(super) end_ms: Option<u64>,
}

/// The times that replicas need to choose the same generations, in milliseconds of UNIX time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplicatedTimes {
    /// The time of the items.
    pub(super) at_ms: u64,
    /// The end of their life, if they have one of their own.
    pub(super) end_ms: Option<u64>,
}

impl Timing {
    /// Returns the timing for an existing filter, whose current time was set when it was looked up. `options` may have AT
    /// and a life.
    #[inline(always)]
    pub(super) fn of(
        filter: &mut Filter,
        options: &CreationOptions,
        host: &dyn Host,
    ) -> Result<Self, CommandError> {
        if filter.window().is_none() && options.at_ms.is_none() && options.life.is_none() {
            return Ok(Self::default());
        }
        Self::of_window(filter, options, host)
    }

    #[inline(never)]
    fn of_window(
        filter: &mut Filter,
        options: &CreationOptions,
        host: &dyn Host,
    ) -> Result<Self, CommandError> {
        let Some(window) = filter.window() else {
            let life = options.life.map(|life| life.word.text());
            return Err(CommandError::NeedsWindow(life.unwrap_or("AT")));
        };
        let (now_ms, steps) = (window.now_ms(), window.span.steps());
        let newest = Some(filter.newest_generation());
        let is_explicit = match options.at_ms {
            None => false,
            Some(at_ms) if host.is_replicated() => {
                filter.set_moment(at_ms);
                true
            }
            Some(at_ms) => filter.set_event(at_ms).map_err(|error| match error {
                MomentError::Past => CommandError::AtTooOld,
                MomentError::Ahead => CommandError::AtAhead(steps.count()),
            })?,
        };
        let mut end_ms = None;
        if let (Some(life), Some(window)) = (options.life, filter.window()) {
            let end = if host.is_replicated() { life.end(window) } else { life.checked_end(window, now_ms)? };
            filter.set_end(end);
            end_ms = Some(end);
        }
        Ok(Self { newest, is_explicit, end_ms })
    }

    /// Returns the timing for a new filter, and sets the current time of the filter.
    pub(super) fn of_new(
        filter: &mut Filter,
        options: &CreationOptions,
        host: &dyn Host,
    ) -> Result<Self, CommandError> {
        if filter.window().is_some() {
            filter.set_now(host.now_ms());
        }
        Self::of(filter, options, host)
    }

    /// Returns how many of the added items have a life of their own.
    #[inline(always)]
    pub(super) const fn items_with_life(self, items_added: u64) -> u64 {
        if self.end_ms.is_some() { items_added } else { 0 }
    }

    /// Returns the times of the items if replicas need them to choose the same generations; `None` otherwise.
    #[inline(always)]
    pub(super) fn replicated(self, filter: &Filter) -> Option<ReplicatedTimes> {
        let newest = self.newest?;
        let (window, end_ms) = (filter.window()?, self.end_ms);
        let needs_times = end_ms.is_some() || window.moment().added != newest;
        needs_times.then(|| ReplicatedTimes { at_ms: window.now_ms(), end_ms })
    }
}

impl Duration {
    /// Returns the end of a life that begins at the time of a window.
    fn end(self, window: &Window) -> u64 {
        match self.word {
            OptionWord::LifeAt | OptionWord::PLifeAt => self.ms,
            _ => window.now_ms().saturating_add(self.ms),
        }
    }

    /// Returns the end of a life that begins at the time of a window. It is `now_ms` in milliseconds of UNIX time.
    fn checked_end(self, window: &Window, now_ms: u64) -> Result<u64, CommandError> {
        let end_ms = self.end(window);
        if end_ms <= now_ms {
            return Err(CommandError::LifePast(self.word.text()));
        }
        let window_ms = window.span.ms();
        if end_ms > window.now_ms().saturating_add(window_ms) {
            return Err(CommandError::BeyondWindow { word: self.word.text(), window_ms });
        }
        Ok(end_ms)
    }
}

/// Returns the generation at which a reading command looks up items: that of the current time, or, with WITHIN, the one at
/// which only items are found that were added in that time.
#[inline(always)]
pub(super) fn lookup_generation(
    filter: &Filter,
    within: Option<Duration>,
    host: &dyn Host,
) -> Result<Generation, CommandError> {
    let Some(within) = within else { return Ok(filter.generation_at(|| host.now_ms())) };
    let word = within.word.text();
    let window = filter.window_at(host.now_ms()).ok_or(CommandError::NeedsWindow(word))?;
    let window_ms = window.span.ms();
    if within.ms > window_ms {
        return Err(CommandError::BeyondWindow { word, window_ms });
    }
    Ok(window.seen_within(within.ms))
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
