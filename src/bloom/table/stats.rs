//! The statistics of a table, for operators.

use super::{EntryKind, Leftovers, Table};
use crate::bloom::generation::Generation;

/// The statistics of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TableStats {
    /// Items: [`Table::items`].
    pub items: u64,
    /// The same, but each counted once: [`Table::distinct_items`].
    pub distinct_items: u64,
    /// Bytes of its segments and directory.
    pub size_bytes: u64,
    /// Its segments.
    pub segments: u64,
    /// Entries that know no more of an item than its bucket.
    pub leftovers: Leftovers,
    /// Entries that have expired and are not free yet.
    pub expired_entries: u64,
    /// An upper bound of its current error rate.
    pub error_rate: f64,
}

impl TableStats {
    /// Returns about how many bytes the expired entries take.
    #[must_use]
    pub fn expired_bytes(&self) -> u64 {
        let share =
            self.expired_entries as f64 / self.items.saturating_add(self.expired_entries).max(1) as f64;
        (self.size_bytes as f64 * share) as u64
    }
}

impl Table {
    /// Returns the statistics at `now`. O(1).
    #[must_use]
    pub fn stats(&self, now: Generation) -> TableStats {
        let items = self.items(now);
        let is_timed = self.kind() == EntryKind::Timed;
        TableStats {
            items,
            distinct_items: self.distinct_items(now),
            size_bytes: self.size_bytes(),
            segments: self.segment_count() as u64,
            leftovers: self.leftovers(),
            expired_entries: if is_timed { self.used_slots().saturating_sub(items) } else { 0 },
            error_rate: self.error_rate(now),
        }
    }
}
