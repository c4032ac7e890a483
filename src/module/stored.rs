//! A value as the server holds it, with state that only this server needs. Frees values, in the background if they are
//! large.

use std::ffi::c_void;

use super::allocator::block_bytes;
use super::datatype::value::StoredValue;
use super::followers::Followers;
use super::huge_pages::spawn;
use super::memory::is_short;
use super::stats::TOTALS;
use everbloom_command::MergedInto;
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::{BlockVisitor, FilterCounts, Kind, Log};
use everbloom_format::carried::Carried;

/// A value with its state. The server holds it as the bare pointer of a box.
pub(super) struct Stored<V: StoredValue> {
    pub(super) value: V,
    pub(super) state: V::State,
}

/// A filter of one of the formats.
pub(super) type StoredFilter = Stored<FilterValue>;

// 128 is a size class of the allocators. A server may have millions of small filters.
const _: () = assert!(size_of::<StoredFilter>() == 128);

// Threads may read a value at the same time: one saves it, and commands look items up.
const _: () = {
    const fn is_shared<T: Sync>() {}
    is_shared::<Stored<FilterValue>>();
    is_shared::<Stored<CuckooFilter>>();
    is_shared::<Stored<Carried>>();
};

impl<V: StoredValue> Stored<V> {
    /// Returns a new value, and counts it.
    pub(super) fn new(value: V) -> Self {
        let state = value.counted();
        Self { value, state }
    }

    /// Returns a new value in a box as a bare pointer, for the server to own.
    pub(super) fn into_pointer(value: V) -> *mut c_void {
        Box::into_raw(Box::new(Self::new(value))).cast()
    }

    /// Returns the bytes that the allocator set aside, for this struct and all blocks of the value. O(blocks).
    pub(super) fn allocated_bytes(&self) -> usize {
        // SAFETY: every `Stored` that the server passes is in a box, which this module has allocated.
        let mut sum = AllocatedBytes(unsafe { block_bytes(std::ptr::from_ref(self), size_of::<Self>()) });
        self.value.visit_blocks(&mut sum);
        sum.0
    }
}

impl<V: StoredValue> Drop for Stored<V> {
    fn drop(&mut self) {
        self.value.uncount(&self.state);
    }
}

/// The sum of the sizes of the allocator's blocks.
struct AllocatedBytes(usize);

impl BlockVisitor for AllocatedBytes {
    fn visit<T>(&mut self, block: &[T]) {
        // SAFETY: the caller, `visit_blocks` of a value, passes blocks that this module has allocated.
        let block_bytes = unsafe { block_bytes(block.as_ptr(), size_of_val(block)) };
        self.0 = self.0.saturating_add(block_bytes);
    }
}

impl StoredFilter {
    /// Updates the totals and what few filters have after a command has changed the filter, except by a merge. Returns the number
    /// of parts that the filter has gained. `before` is from [`Filter::counts_since`](everbloom_filter::Filter::counts_since) before the command; `None` if the
    /// filter was being loaded. `items_added` is 0 for any other change than an add, and `item` is
    /// the item of an add that no log has yet. O(1); O(layers) for a filter whose
    /// memory has changed.
    #[inline(always)]
    pub(super) fn changed(
        &mut self,
        before: Option<&FilterCounts>,
        items_added: u64,
        item: Option<&[u8]>,
    ) -> u32 {
        let Some(before) = before else {
            self.state.counted.loaded(&TOTALS, &self.value);
            self.after_change(0, 0, None);
            return 0;
        };
        let parts_added = self.state.counted.changed(&TOTALS, &self.value, before);
        self.after_change(parts_added, items_added, item);
        parts_added
    }

    /// Updates what few filters have, after a change that added parts and items. `item` is the item of an add that no
    /// log has yet.
    #[inline(always)]
    fn after_change(&mut self, parts_added: u32, items_added: u64, item: Option<&[u8]>) {
        let filter = self.value.filter();
        if parts_added > 0 {
            self.state.after_growth(filter);
        }
        if let Some(rare) = &mut self.state.rare {
            rare.remembered.note_change();
            rare.pages.after_items(filter, items_added);
            if items_added == 0 || filter.kind() == Kind::Counting {
                rare.pages.after_bytes(filter);
                // Copies cannot repeat the change.
                rare.followers = Followers::default();
            } else if let (Some(item), Some(log)) = (item, rare.followers.log()) {
                filter.log_added(item, log);
            }
        }
    }

    /// Updates the totals, the huge pages and what reading commands remember after a command has merged other filters into
    /// this one. O(layers).
    pub(super) fn altered(&mut self, before: MergedInto) {
        let parts_before = self.state.counted.parts();
        self.state.counted.altered(&TOTALS, &self.value, before.items, before.capacity_items);
        let filter = self.value.filter();
        let parts_added = filter.part_count().saturating_sub(parts_before);
        if let Some(rare) = &mut self.state.rare {
            rare.remembered.note_merge(filter, before.dump_end);
        }
        self.after_change(u32::from(parts_added > 0), 0, None);
    }

    /// Returns the value, and the log of its changes if somebody follows it.
    #[inline(always)]
    pub(super) fn value_and_log(&mut self) -> (&mut FilterValue, Log<'_>) {
        let log = self.state.rare.as_mut().and_then(|rare| rare.followers.log());
        (&mut self.value, log)
    }
}

impl Stored<CuckooFilter> {
    /// Updates the totals after a command has changed the filter.
    pub(super) fn changed(&mut self) {
        self.value.uncount(&self.state);
        self.state = self.value.counted();
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

/// Returns the effort of freeing a value, in the server's units. O(layers).
pub(super) fn effort(value: &impl StoredValue) -> usize {
    let unit_bytes = if is_short() { URGENT_FREE_UNIT_BYTES } else { FREE_UNIT_BYTES };
    1 + usize::try_from(value.content_bytes()).unwrap_or(usize::MAX) / unit_bytes
}

/// Frees the former value of a key, in the background if the server would do the same.
pub(super) fn free(stored: StoredFilter) {
    if effort(&stored.value) > AT_ONCE_MAX_UNITS {
        // If no thread can be started, `spawn` drops the value here.
        let _ = spawn("bf-free", move || drop(stored));
    }
}
