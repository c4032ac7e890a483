//! The size of a table before it exists, and the highest error rate that it will reach.

use super::directory::Directory;
use super::grow::used_before_growth;
use super::lookup::depth;
use super::schedule::{Schedule, size_for};
use super::segment::{Segment, Shape};
use super::{EntryKind, History, Table, TableSpec};

/// Deviations from the mean of eight equal parts of a normal distribution.
const EIGHTHS: [f64; 8] = [-1.534, -0.887, -0.489, -0.157, 0.157, 0.489, 0.887, 1.534];

impl TableSpec {
    /// Returns the expected bytes of a table that has grown to `items` items. If its entries are timed, as many are
    /// live, and others have expired but are not free yet. O(log items).
    #[must_use]
    pub fn expected_bytes(&self, items: u64) -> u64 {
        let schedule = Schedule::new(self.kind, self.error_rate, self.items);
        let least = (schedule.initial_blocks_log(), schedule.initial_segments());
        // What has expired is freed before a table of timed entries grows beyond the size that it is made for.
        let is_level = self.kind == EntryKind::Timed && items <= self.items;
        let most = if is_level { used_before_growth(least.1, least.0) } else { u64::MAX };
        let used = self.kind.slots_for(items).min(most);
        let (segments, blocks_log) = size_for(used);
        let (blocks_log, segments) = (blocks_log, segments).max(least);
        let history = if self.kind == EntryKind::Timed { size_of::<History>() } else { 0 };
        let of_segments = schedule.expected_bytes(self.kind, used, (segments, blocks_log));
        of_segments.saturating_add(Directory::bytes_of(segments)).saturating_add(history as u64)
    }
}

impl EntryKind {
    /// Returns the expected slots in use for a number of items. Timed ones are live for up to fifteen fourteenths of
    /// the window, and not free at once.
    pub(super) const fn slots_for(self, items: u64) -> u64 {
        match self {
            Self::Plain | Self::Counted => items,
            Self::Timed => items.saturating_add(items / 14).saturating_add(items / 24),
        }
    }
}

impl Schedule {
    /// Returns the expected bytes of the segments of a table of this size with `used` slots in use.
    pub(super) fn expected_bytes(
        self,
        kind: EntryKind,
        used: u64,
        (segments, blocks_log): (usize, u32),
    ) -> u64 {
        let depth = depth(segments);
        let whole = 1usize << depth;
        // Some segments have been split in this round.
        let split = segments - whole;
        let bytes = |depth: u32, segments: usize| {
            let width = self.remainder_bits(depth + blocks_log) + 1 + kind.generation_bits();
            let mean = used as f64 / (1u64 << depth) as f64;
            let deviation = if depth == 0 { 0.0 } else { mean.sqrt() };
            let sizes = EIGHTHS.map(|eighth| {
                let used = (mean + eighth * deviation).max(0.0).round();
                Shape::for_slots(blocks_log, width, used as usize).map_or(0.0, |shape| shape.bytes() as f64)
            });
            sizes.iter().sum::<f64>() / EIGHTHS.len() as f64 * segments as f64
        };
        (bytes(depth, whole - split) + bytes(depth + 1, 2 * split)) as u64
    }
}

impl Table {
    /// Returns an upper bound of the error rate over the whole life of the table, to 10^12 items: that of the entries
    /// it has, and of those with which it grows.
    #[must_use]
    pub fn error_rate_max(&self) -> f64 {
        let blocks_log = self.directory.get(0).map_or(0, Segment::blocks_log);
        self.entries_rate()
            + self.schedule.rate_of_growth(self.used_slots(), self.segment_count(), blocks_log)
    }
}
