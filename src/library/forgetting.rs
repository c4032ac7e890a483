//! Sliding windows, and their time.

use super::{BloomFilter, Processor};

impl BloomFilter {
    /// Returns how long an item stays in a filter that was made with `WINDOW`, in milliseconds; nothing for others. O(1).
    #[must_use]
    pub fn window_ms(&self) -> Option<u64> {
        self.0.window().map(|window| window.span.ms())
    }

    /// Sets the time of a filter that was made with `WINDOW`, in milliseconds of UNIX time, for lookups and adds until it is set again.
    /// The time of a filter that was read is that of its newest item until it is set. Time never runs back behind that.
    /// Frees the layers whose items have all expired. Does nothing to other filters. O(layers).
    pub fn tell_time(&mut self, now_ms: u64) {
        if let Some(window) = self.0.window_mut() {
            window.set_now(now_ms);
        }
        drop(self.0.take_expired());
    }

    /// [`contains`](Self::contains) at a moment, in milliseconds of UNIX time, whatever the time of the filter is: for filters
    /// that several threads share. The moment means something to sliding windows only. O(layers * probes).
    #[must_use]
    pub fn contains_at(&self, item: &[u8], now_ms: u64) -> bool {
        self.0.contains_at(item, now_ms, Processor)
    }
}
