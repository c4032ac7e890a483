//! The time of items that are added to a sliding-window filter.

use crate::bloom::generation::WindowLength;
use crate::bloom::limits::WINDOW_MIN_MS;

/// What a sliding-window filter does with an item that has a time (`AT` of BF.INSERT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemTime {
    /// The filter adds the item to this generation. A generation is a fourteenth of the window. Items of one generation
    /// can be added by one command.
    Live {
        /// The number of the generation: larger for later times.
        generation: u64,
    },
    /// The filter refuses the item, which has expired already.
    Expired,
    /// The filter refuses the item, whose time is more than a generation after the current time.
    Ahead,
}

impl ItemTime {
    /// Returns what a filter with a window of `window_ms` milliseconds does at the time `now_ms` with an item of the
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
        let span = WindowLength::new(window_ms.max(WINDOW_MIN_MS));
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
