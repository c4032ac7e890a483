//! The value of a key: a filter, and state that only this server needs. Frees it, in the background if it is large.

use std::ffi::c_void;

use super::allocator::block_bytes;
use super::huge_pages::{LargePages, spawn};
use super::memory::is_short;
use super::stats::TOTALS;
use crate::bloom::{BlockVisitor, Filter, FilterCounts};
use crate::command::totals::CountedFilter;

/// A value of one of the data types. The server holds it as the bare pointer of a box.
pub(super) struct StoredFilter {
    /// The filter.
    pub(super) filter: Filter,
    /// The state of the filter's huge pages.
    pub(super) pages: LargePages,
    /// The filter's part of the statistics.
    counted: CountedFilter,
}

// 128 is a size class of the allocators. A server may have millions of small filters.
const _: () = assert!(size_of::<StoredFilter>() == 128);

impl StoredFilter {
    /// Returns a new value, and counts its filter.
    pub(super) fn new(filter: Filter) -> Self {
        let counted = CountedFilter::count(&TOTALS, &filter);
        let pages = LargePages::of(&filter);
        Self { filter, pages, counted }
    }

    /// Returns a new value in a box as a bare pointer, for the server to own.
    pub(super) fn into_value(filter: Filter) -> *mut c_void {
        Box::into_raw(Box::new(Self::new(filter))).cast()
    }

    /// Returns the bytes that the allocator set aside, for structs, bits and table. O(layers + segments).
    pub(super) fn allocated_bytes(&self) -> usize {
        // SAFETY: every `StoredFilter` that the server passes is in a box, which this module has allocated.
        let mut sum = AllocatedBytes(unsafe { block_bytes(std::ptr::from_ref(self), size_of::<Self>()) });
        self.filter.visit_blocks(&mut sum);
        sum.0
    }

    /// Updates the totals and the huge pages after a command has changed the filter, except by a merge. Returns the number
    /// of parts that the filter has gained. `before` is from [`Filter::counts_since`] before the command. `items_added`
    /// is 0 for any other change than an add. O(1); O(layers) for a filter whose memory has changed.
    #[inline(always)]
    pub(super) fn changed(&mut self, before: &FilterCounts, items_added: u64) -> u32 {
        let parts_added = self.counted.changed(&TOTALS, &self.filter, before);
        if parts_added > 0 {
            self.pages.after_growth(&self.filter);
        }
        if items_added == 0 {
            self.pages.after_bytes(&self.filter);
        }
        self.pages.after_items(&self.filter, items_added);
        parts_added
    }

    /// Updates the totals and the huge pages after a command has merged other filters into this one. Before, this filter
    /// had `items_before` items and a capacity of `capacity_before_items`. O(layers).
    pub(super) fn altered(&mut self, items_before: u64, capacity_before_items: u64) {
        let parts_before = self.counted.parts();
        self.counted.altered(&TOTALS, &self.filter, items_before, capacity_before_items);
        if self.filter.part_count() > parts_before {
            self.pages.after_growth(&self.filter);
        }
        self.pages.after_bytes(&self.filter);
    }
}

/// The sum of the sizes of the allocator's blocks.
pub(super) struct AllocatedBytes(usize);

impl AllocatedBytes {
    /// Returns a sum that begins with `bytes`.
    pub(super) const fn from_bytes(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Returns the sum.
    pub(super) const fn bytes(&self) -> usize {
        self.0
    }
}

impl BlockVisitor for AllocatedBytes {
    fn visit<T>(&mut self, block: &[T]) {
        // SAFETY: the callers, `visit_blocks` of filters and other values, pass blocks that this module has allocated.
        let block_bytes = unsafe { block_bytes(block.as_ptr(), size_of_val(block)) };
        self.0 = self.0.saturating_add(block_bytes);
    }
}

impl Drop for StoredFilter {
    fn drop(&mut self) {
        self.counted.uncount(&TOTALS, &self.filter);
    }
}

/// Bytes that count as one unit of effort to free. The server frees in the background from 65 units on: filters of
/// 128 MiB and more.
///
/// The threshold is high, because memory that is freed in the background is not free yet when eviction checks it, so
/// the server would evict more. Freeing 128 MiB with every page written to takes 0.01 to 0.5 ms on the main thread,
/// and 4 to 6 ms if the system has no huge pages and the allocator returns memory immediately (Redis 7.0 and 8.0,
/// Valkey 8.0 and 9.1, with their allocators). The number of blocks hardly matters: 4096 layers, the maximum, take
/// 0.07 ms. A table has a block for every 6 to 12 KiB.
const FREE_UNIT_BYTES: usize = 2 << 20;

/// Bytes that count as one unit while the server is at `maxmemory` or above and may evict. Then only filters of 512 MiB
/// and more are freed in the background. Freeing 512 MiB takes 1 ms, or 20 to 26 ms without huge pages.
const URGENT_FREE_UNIT_BYTES: usize = 8 << 20;

/// The most units that the server frees at once. It is `LAZYFREE_THRESHOLD` in lazyfree.c of every server.
const AT_ONCE_MAX_UNITS: usize = 64;

/// Returns the effort of freeing a filter, in the server's units. O(layers).
pub(super) fn effort(filter: &Filter) -> usize {
    units_of(filter.size_bytes())
}

/// Returns the effort of freeing a value of this size, in the server's units.
pub(super) fn units_of(size_bytes: u64) -> usize {
    let unit_bytes = if is_short() { URGENT_FREE_UNIT_BYTES } else { FREE_UNIT_BYTES };
    1 + usize::try_from(size_bytes).unwrap_or(usize::MAX) / unit_bytes
}

/// Frees the former value of a key, in the background if the server would do the same.
pub(super) fn free(stored: StoredFilter) {
    if effort(&stored.filter) > AT_ONCE_MAX_UNITS {
        // If no thread can be started, `spawn` drops the value here.
        let _ = spawn("bf-free", move || drop(stored));
    }
}
