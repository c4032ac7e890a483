//! What the INFO section counts, all of it. Filters are freed on background threads too, so every count is atomic.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bloom::Filter;
use crate::command::Effects;

static FILTERS: AtomicU64 = AtomicU64::new(0);
static ITEMS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static ADDS: AtomicU64 = AtomicU64::new(0);
static CHECKS: AtomicU64 = AtomicU64::new(0);

/// What one filter is counted for.
pub(super) struct Footprint {
    items: u64,
    /// Memory of the filter.
    bytes: u64,
    layers: usize,
}

impl Footprint {
    /// Counts a filter that now exists. O(layers).
    pub(super) fn count(filter: &Filter) -> Self {
        FILTERS.fetch_add(1, Relaxed);
        let footprint =
            Self { items: filter.items(), bytes: filter.size_bytes(), layers: filter.layer_count() };
        ITEMS.fetch_add(footprint.items, Relaxed);
        BYTES.fetch_add(footprint.bytes, Relaxed);
        footprint
    }

    /// Counts what has changed of a filter that took so many items; answers whether it has grown. O(1), where it has
    /// grown O(layers).
    #[inline(always)]
    pub(super) fn recount(&mut self, filter: &Filter, items_added: u64) -> bool {
        self.items = self.items.wrapping_add(items_added);
        ITEMS.fetch_add(items_added, Relaxed);
        let has_grown = self.layers != filter.layer_count();
        if has_grown {
            self.grown(filter);
        }
        has_grown
    }

    #[cold]
    fn grown(&mut self, filter: &Filter) {
        let bytes = filter.size_bytes();
        // Counts wrap, so that a difference in either direction is one addition.
        BYTES.fetch_add(bytes.wrapping_sub(self.bytes), Relaxed);
        self.bytes = bytes;
        self.layers = filter.layer_count();
    }

    /// The filter does not exist any more.
    pub(super) fn forget(&self) {
        FILTERS.fetch_sub(1, Relaxed);
        ITEMS.fetch_sub(self.items, Relaxed);
        BYTES.fetch_sub(self.bytes, Relaxed);
    }
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
