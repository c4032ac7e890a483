//! Filters that forget, and the time that they are told.

use super::{BloomFilter, Processor};

impl BloomFilter {
    /// How long a filter that was made with `WINDOW` remembers an item, in milliseconds; none for others. O(1).
    #[must_use]
    pub fn window_ms(&self) -> Option<u64> {
        self.0.window().map(|window| window.span.ms())
    }

    /// Tells a filter that forgets the time, in milliseconds of UNIX time: for what is asked of it and added to it until
    /// it is told another. A filter that was read and never told has the time of its newest item. Time never runs back behind that.
    /// Gives up the layers of which nothing is remembered. Nothing for other filters. O(layers).
    pub fn tell_time(&mut self, now_ms: u64) {
        self.0.tell_time(now_ms);
        drop(self.0.take_dead());
    }

    /// [`contains`](Self::contains) at a moment, in milliseconds of UNIX time, whatever the filter was told: for filters
    /// that several threads ask. Of one that does not forget the moment means nothing. O(layers * probes).
    #[must_use]
    pub fn contains_at(&self, item: &[u8], now_ms: u64) -> bool {
        self.0.contains_at(item, now_ms, Processor)
    }
}
