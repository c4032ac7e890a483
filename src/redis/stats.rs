//! What the INFO section counts. Filters are freed on background threads too, so every count is atomic.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bloom::Filter;

static FILTERS: AtomicU64 = AtomicU64::new(0);
static ITEMS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static ADDS: AtomicU64 = AtomicU64::new(0);
static CHECKS: AtomicU64 = AtomicU64::new(0);

/// What one filter counts for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Footprint {
    items: u64,
    /// Memory of the filter.
    pub(super) bytes: u64,
}

impl Footprint {
    /// O(layers).
    pub(super) fn of(filter: &Filter) -> Self {
        Self { items: filter.items(), bytes: filter.size_bytes() }
    }
}

/// A filter now exists.
pub(super) fn filter_made(footprint: Footprint) {
    FILTERS.fetch_add(1, Relaxed);
    ITEMS.fetch_add(footprint.items, Relaxed);
    BYTES.fetch_add(footprint.bytes, Relaxed);
}

/// A filter does not exist any more.
pub(super) fn filter_freed(footprint: Footprint) {
    FILTERS.fetch_sub(1, Relaxed);
    ITEMS.fetch_sub(footprint.items, Relaxed);
    BYTES.fetch_sub(footprint.bytes, Relaxed);
}

/// A filter took items, and nothing else about it changed.
pub(super) fn filter_took(items: u64) {
    ITEMS.fetch_add(items, Relaxed);
}

/// A filter changed. Counts wrap, so that a difference in either direction is one addition.
pub(super) fn filter_changed(before: Footprint, after: Footprint) {
    if before != after {
        ITEMS.fetch_add(after.items.wrapping_sub(before.items), Relaxed);
        BYTES.fetch_add(after.bytes.wrapping_sub(before.bytes), Relaxed);
    }
}

/// Items were added by commands.
pub(super) fn items_added(items: u64) {
    ADDS.fetch_add(items, Relaxed);
}

/// Items were checked by commands.
pub(super) fn items_checked(items: u64) {
    CHECKS.fetch_add(items, Relaxed);
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
