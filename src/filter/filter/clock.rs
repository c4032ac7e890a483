//! The time of a sliding-window filter.

use super::Filter;
use super::policy::Window;
use super::policy::window::MomentError;
use crate::generation::Generation;
use crate::table::Table;

/// By how much the clock of another server may always be ahead, in milliseconds.
const LEAD_MAX_MS: u64 = 5000;

impl Filter {
    /// Returns the window of a sliding-window filter, with its current time.
    #[must_use]
    #[inline(always)]
    pub fn window(&self) -> Option<&Window> {
        self.policy.window()
    }

    /// Returns the window of a sliding-window filter with another current time, in milliseconds of UNIX time.
    #[must_use]
    pub fn window_at(&self, now_ms: u64) -> Option<Window> {
        let mut window = *self.window()?;
        window.set_now(now_ms, self.newest_generation());
        Some(window)
    }

    /// Returns the mutable window of a sliding-window filter.
    #[inline(always)]
    fn window_mut(&mut self) -> Option<&mut Window> {
        self.policy.window_mut()
    }

    /// Returns the generation at which items are looked up; 0 if none expires.
    #[must_use]
    #[inline(always)]
    pub fn now(&self) -> Generation {
        self.policy.moment().now
    }

    /// Returns the generation at which items are looked up at the time that `now_ms` returns, in milliseconds of UNIX time;
    /// 0 if none expires. The filter's own time does not matter. O(1).
    #[must_use]
    #[inline(always)]
    pub fn generation_at(&self, now_ms: impl FnOnce() -> u64) -> Generation {
        self.window().map_or(0, |window| window.span.generation_at(now_ms()).max(self.newest_generation()))
    }

    /// Returns the newest generation in which an item was added to a window; 0 before the first. The filter's time is
    /// never before it.
    #[must_use]
    #[inline(always)]
    pub fn newest_generation(&self) -> Generation {
        self.table().map_or(0, Table::newest)
    }

    /// Returns the generation of the newest items that a client may bring at the time `now_ms`, in milliseconds of UNIX
    /// time: those of a clock that is a window ahead. Items of a later time would make all others expire.
    pub(super) fn latest_generation(&self, now_ms: u64) -> Generation {
        let latest = |window: &Window| window.span.generation_at(now_ms.saturating_add(window.span.ms()));
        self.window().map_or(Generation::MAX, latest)
    }

    /// Returns whether the filter has items that a client must not bring at the time `now_ms`, in milliseconds of UNIX
    /// time: items that were added more than a window later.
    #[must_use]
    pub fn is_ahead_of(&self, now_ms: u64) -> bool {
        self.newest_generation() > self.latest_generation(now_ms)
    }

    /// Returns the start of the newest generation, in milliseconds of UNIX time, if that is more than a generation and more
    /// than [`LEAD_MAX_MS`] after `now_ms`: the filter is from a server whose clock is ahead.
    #[must_use]
    pub fn lead_ms(&self, now_ms: u64) -> Option<u64> {
        let window = self.window()?;
        let newest_ms = window.span.start_of(self.newest_generation());
        let permitted_ms = window.span.generation_ms().max(LEAD_MAX_MS);
        (newest_ms > now_ms.saturating_add(permitted_ms)).then_some(newest_ms)
    }

    /// Sets the time of a window before a command that may add: to `now_ms`, in milliseconds of UNIX time, or, if the command is
    /// replicated, to the newest generation. Other filters are unchanged. O(1).
    #[inline(always)]
    pub fn set_time(&mut self, now_ms: impl FnOnce() -> u64, is_replayed: impl FnOnce() -> bool) {
        if self.window().is_none() {
            return;
        }
        self.set_now(now_ms());
        let newest = self.newest_generation();
        // Within the newest generation both times are the same. So `is_replayed`, which takes longer than an add, is not called.
        if newest > 0 && self.now() > newest && is_replayed() {
            self.set_now(0);
        }
    }

    /// Sets the current time of a window for the following lookups and adds, in milliseconds of UNIX time. It is never
    /// before the newest generation. O(1).
    #[inline(always)]
    pub fn set_now(&mut self, now_ms: u64) {
        let newest = self.newest_generation();
        if let Some(window) = self.window_mut() {
            window.set_now(now_ms, newest);
        }
    }

    /// Sets the time of the items that are added next, in milliseconds of UNIX time. It may be before the time of items
    /// in the filter. O(1).
    pub fn set_moment(&mut self, moment_ms: u64) {
        let newest = self.newest_generation();
        if let Some(window) = self.window_mut() {
            window.set_moment(moment_ms, newest);
        }
    }

    /// Sets the end of the life of the items that are added next, in milliseconds of UNIX time. It replaces the end that
    /// follows from their time, which is set before. O(1).
    pub fn set_end(&mut self, end_ms: u64) {
        if let Some(window) = self.window_mut() {
            window.set_end(end_ms);
        }
    }

    /// Counts adds that gave an item a life of its own.
    pub fn count_life_adds(&mut self, adds: u64) {
        if let Some(window) = self.window_mut() {
            window.life_adds = window.life_adds.saturating_add(adds);
        }
    }

    /// Returns how often an add gave an item a life of its own; 0 for filters without a window.
    #[must_use]
    pub fn life_adds(&self) -> u64 {
        self.window().map_or(0, |window| window.life_adds)
    }

    /// Sets the time of the items that are added next to `moment_ms`, in milliseconds of UNIX time. Sets nothing if the
    /// generation of that time is after the current one: the items then get the current time, so that other items do
    /// not expire early. Returns false in that case only. O(1).
    ///
    /// # Errors
    /// [`MomentError`] if items of that time have expired, or if it is more than a generation ahead of the current
    /// time. Nothing has changed then.
    pub fn set_event(&mut self, moment_ms: u64) -> Result<bool, MomentError> {
        let Some(window) = self.window() else { return Ok(true) };
        let is_unchanged = window.accepts(moment_ms)?;
        if is_unchanged {
            self.set_moment(moment_ms);
        }
        Ok(is_unchanged)
    }
}
