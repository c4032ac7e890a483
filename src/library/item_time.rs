//! The time of items that are added to a sliding-window filter.

use thiserror::Error;

use everbloom_filter::generation::{Steps, WindowLength};
use everbloom_filter::limits::WINDOW_MIN_MS;

/// What a sliding-window filter does with an item that has a time (`AT` of BF.INSERT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemTime {
    /// The filter adds the item to this generation. A generation is a step of the window: a fourteenth, unless the filter
    /// has more steps. Items of one generation can be added by one command.
    Live {
        /// The number of the generation: larger for later times.
        generation: u64,
    },
    /// The filter refuses the item, which has expired already.
    Expired,
    /// The filter refuses the item, whose time is more than a generation after the current time.
    Ahead,
}

/// How long an item is found in a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemLife {
    /// The item is not in the filter.
    Absent,
    /// The item expires after this time, in milliseconds. It is an upper bound, at most a step of the window too long.
    Left(u64),
    /// The item does not expire: the filter has no window.
    Endless,
}

/// Why a filter cannot say whether an item was added within a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WithinError {
    /// The filter is not a sliding-window filter.
    #[error("the filter has no window")]
    NoWindow,
    /// The time is longer than the window.
    #[error("the time is longer than the window of the filter")]
    BeyondWindow,
}

impl ItemTime {
    /// Returns what a filter with 14 steps and a window of `window_ms` milliseconds does at the time `now_ms` with an item of the
    /// time `item_ms`, both in milliseconds of UNIX time. A window of less than 100 ms, which no filter has, counts as
    /// 100 ms. O(1).
    ///
    /// ```
    /// use everbloom::ItemTime;
    ///
    /// assert_eq!(ItemTime::of(1400, 1_000_000, 1_000_000), ItemTime::Live { generation: 10_001 });
    /// assert_eq!(ItemTime::of(1400, 998_599, 1_000_000), ItemTime::Expired);
    /// assert_eq!(ItemTime::of(1400, 1_000_101, 1_000_000), ItemTime::Ahead);
    /// ```
    #[must_use]
    pub fn of(window_ms: u64, item_ms: u64, now_ms: u64) -> Self {
        Self::with_steps(window_ms, Steps::Fourteen, item_ms, now_ms)
    }

    /// Returns the same as [`of`](Self::of) for a filter whose window has these steps. O(1).
    #[must_use]
    pub fn with_steps(window_ms: u64, steps: Steps, item_ms: u64, now_ms: u64) -> Self {
        let span = WindowLength::new(window_ms.max(WINDOW_MIN_MS)).with_steps(steps);
        let generation = span.generation_at(item_ms);
        if item_ms > now_ms.saturating_add(span.generation_ms()) {
            Self::Ahead
        } else if span.steps().is_live(generation, span.generation_at(now_ms)) {
            Self::Live { generation }
        } else {
            Self::Expired
        }
    }
}
