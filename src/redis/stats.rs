//! What the INFO section counts, all of it. Filters are freed on background threads too, so every count is atomic.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bloom::Filter;
use crate::command::Effects;

static FILTERS: AtomicU64 = AtomicU64::new(0);
static ITEMS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static ADDS: AtomicU64 = AtomicU64::new(0);
static CHECKS: AtomicU64 = AtomicU64::new(0);

/// Bytes of memory that one filter is counted for.
pub(super) struct Footprint(u64);

impl Footprint {
    /// Counts a filter that now exists. O(layers).
    pub(super) fn count(filter: &Filter) -> Self {
        let footprint = Self(filter.size_bytes());
        FILTERS.fetch_add(1, Relaxed);
        ITEMS.fetch_add(counted_items(filter), Relaxed);
        BYTES.fetch_add(footprint.0, Relaxed);
        footprint
    }

    /// Counts a filter anew that has grown. O(layers).
    #[cold]
    pub(super) fn recount(&mut self, filter: &Filter) {
        let bytes = filter.size_bytes();
        // Counts wrap, so that a difference in either direction is one addition.
        BYTES.fetch_add(bytes.wrapping_sub(self.0), Relaxed);
        self.0 = bytes;
    }

    /// The filter does not exist any more.
    pub(super) fn forget(&self, filter: &Filter) {
        FILTERS.fetch_sub(1, Relaxed);
        ITEMS.fetch_sub(counted_items(filter), Relaxed);
        BYTES.fetch_sub(self.0, Relaxed);
    }
}

/// The items that a filter is counted for: none of one that forgets, for nobody is told when it does.
fn counted_items(filter: &Filter) -> u64 {
    if filter.keeps_time() { 0 } else { filter.items() }
}

/// Counts items that a filter has taken.
#[inline(always)]
pub(super) fn filter_took(filter: &Filter, items: u64) {
    if !filter.keeps_time() {
        ITEMS.fetch_add(items, Relaxed);
    }
}

/// Counts items that were deleted from a filter.
pub(super) fn filter_lost(items: u64) {
    ITEMS.fetch_sub(items, Relaxed);
}

/// Counts what a command did with items.
#[inline(always)]
pub(super) fn count_items(effects: &Effects<'_>) {
    if effects.items_added > 0 {
        ADDS.fetch_add(effects.items_added, Relaxed);
    }
    if effects.items_checked > 0 {
        CHECKS.fetch_add(effects.items_checked, Relaxed);
    }
}

/// All counts at about one time.
pub(super) struct Counts {
    /// Filters in all databases.
    pub(super) filters: u64,
    /// Items added to them.
    pub(super) items: u64,
    /// Their memory.
    pub(super) bytes: u64,
    /// Items that commands added since the module was loaded.
    pub(super) adds: u64,
    /// Items that commands checked since the module was loaded.
    pub(super) checks: u64,
}

/// The counts now.
pub(super) fn counts() -> Counts {
    Counts {
        filters: FILTERS.load(Relaxed),
        items: ITEMS.load(Relaxed),
        bytes: BYTES.load(Relaxed),
        adds: ADDS.load(Relaxed),
        checks: CHECKS.load(Relaxed),
    }
}
