//! The policy of sliding windows: an item is live for a window of time after its last add.

use super::promise::Growth;
use crate::generation::{AddTime, Generation, WindowLength};
use crate::limits::{WINDOW_MAX_MS, WINDOW_MIN_MS};

/// The parameters of a sliding-window filter, and its current time. The capacity of its promise is the number of items per
/// window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// How long an item is live.
    pub span: WindowLength,
    /// Whether an item is live from its first add, instead of its last.
    pub no_refresh: bool,
    /// How many adds have given an item a life of its own.
    pub life_adds: u64,
    /// Whether the items that are added next have a life of their own. It is not saved.
    pub(in crate::filter) has_life: bool,
    /// The current time in generations. It is not saved.
    moment: AddTime,
    /// The current time, or the time of the items that are added next, in milliseconds of UNIX time.
    now_ms: u64,
}

/// Why items cannot be added at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentError {
    /// The items have expired already.
    Past,
    /// The time is more than a generation ahead.
    Ahead,
}

impl Window {
    /// Returns a policy with these parameters, which must be valid.
    #[must_use]
    pub fn new(span: WindowLength, no_refresh: bool) -> Self {
        Self { span, no_refresh, life_adds: 0, has_life: false, moment: AddTime::default(), now_ms: 0 }
    }

    /// Checks the parameters, and the growth of the promise.
    ///
    /// # Errors
    /// The name of the first one that is out of range.
    pub fn validate(&self, growth: Growth) -> Result<(), &'static str> {
        if !(WINDOW_MIN_MS..=WINDOW_MAX_MS).contains(&self.span.ms()) {
            return Err("window");
        }
        if matches!(growth, Growth::Saturating | Growth::Unreserved { .. }) {
            return Err("growth");
        }
        Ok(())
    }

    /// Returns the current time.
    #[must_use]
    #[inline(always)]
    pub const fn moment(&self) -> AddTime {
        self.moment
    }

    /// Returns the current time, or the time of the items that are added next if it was set after the current time, in
    /// milliseconds of UNIX time.
    #[must_use]
    pub const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Sets the current time in milliseconds of UNIX time, for a filter whose newest item is of generation `newest`.
    /// The time is never before that. O(1).
    pub(in crate::filter) fn set_now(&mut self, now_ms: u64, newest: Generation) {
        let by_clock = self.span.generation_at(now_ms);
        let now = by_clock.max(newest);
        (self.moment, self.has_life) = (AddTime { added: now, now }, false);
        // The start of a generation takes a long division, which most calls do not need.
        self.now_ms = if now == by_clock { now_ms } else { self.span.start_of(now) };
    }

    /// Sets the time of the items that are added next, which may be before that of other items. O(1).
    pub(in crate::filter) fn set_moment(&mut self, moment_ms: u64, newest: Generation) {
        let added = self.span.generation_at(moment_ms);
        (self.moment, self.has_life) = (AddTime { added, now: added.max(newest) }, false);
        self.now_ms = moment_ms;
    }

    /// Sets the end of the life of the items that are added next, in milliseconds of UNIX time. The time of the add stays.
    /// No item lives longer than one that is added now. O(1).
    pub(in crate::filter) fn set_end(&mut self, end_ms: u64) {
        self.moment.added = self.span.generation_until(end_ms).min(self.moment.now);
        self.has_life = true;
    }

    /// Returns the generation as of which a lookup finds the items that were added at most `within_ms` milliseconds before
    /// the current time. `within_ms` is at most the window. O(1).
    #[must_use]
    pub fn seen_within(&self, within_ms: u64) -> Generation {
        self.span.generation_at(self.now_ms.saturating_add(self.span.ms().saturating_sub(within_ms)))
    }

    /// Returns whether items can be added with the time `moment_ms`. Returns false if the generation of that time is
    /// after the current one: items then get the current time, so that other items do not expire early. O(1).
    ///
    /// # Errors
    /// [`MomentError`] if items of that time have expired, or if it is more than a generation ahead of the current
    /// time.
    pub(in crate::filter) fn accepts(&self, moment_ms: u64) -> Result<bool, MomentError> {
        if moment_ms > self.now_ms.saturating_add(self.span.generation_ms()) {
            return Err(MomentError::Ahead);
        }
        let added = self.span.generation_at(moment_ms);
        if !self.span.steps().is_live(added, self.moment.now) {
            return Err(MomentError::Past);
        }
        Ok(added <= self.moment.now)
    }
}
