//! The value of a key: a filter, and state that only this server needs. Frees it, in the background if it is large.

use super::allocator::block_bytes;
use super::huge_pages::LargePages;
use super::memory::is_short;
use super::stats::Footprint;
use super::worker::Worker;
use crate::bloom::{BlockVisitor, Filter};

/// A value of one of the data types. The server holds it as the bare pointer of a box.
pub(super) struct Stored {
    /// The filter.
    pub(super) filter: Filter,
    /// The state of its huge pages.
    pub(super) pages: LargePages,
    /// Its part of the statistics.
    counted: Footprint,
}

// A size class of the allocators, because a server may have millions of small filters.
const _: () = assert!(size_of::<Stored>() == 128);

impl Stored {
    /// Returns a new value, and counts its filter.
    pub(super) fn new(filter: Filter) -> Self {
        let counted = Footprint::count(&filter);
        let pages = LargePages::of(&filter);
        Self { filter, pages, counted }
    }

    /// Returns a new value in a box, for the server to own.
    pub(super) fn boxed(filter: Filter) -> Box<Self> {
        Box::new(Self::new(filter))
    }

    /// Returns the bytes that the allocator set aside, for structs and cells. O(layers).
    pub(super) fn allocated_bytes(&self) -> usize {
        // SAFETY: every `Stored` of a key or a callback is in a box of this module.
        let mut sum = Sum(unsafe { block_bytes(std::ptr::from_ref(self), size_of::<Self>()) });
        self.filter.visit_blocks(&mut sum);
        sum.0
    }

    /// Updates the statistics after a command has added `items_added` items, or, with 0, has changed the filter in
    /// another way. `items_before` are from [`Filter::counts_since`] before the command. Returns the number of layers
    /// that the filter has gained. O(1); O(layers) for a filter that has grown.
    #[inline(always)]
    pub(super) fn changed(&mut self, items_before: u64, items_added: u64) -> u32 {
        let layers_before = self.counted.layers();
        let (layers, items) = self.filter.counts_since(layers_before);
        self.counted.recount_items(items_before, items);
        let mut layers_added = 0;
        if layers != layers_before {
            layers_added = u32::try_from(layers.saturating_sub(layers_before)).unwrap_or(u32::MAX);
            self.count_growth(layers_before);
            self.pages.after_growth(&self.filter);
        }
        if items_added == 0 {
            self.pages.after_bytes(&self.filter);
        }
        self.pages.after_items(&self.filter, items_added);
        layers_added
    }

    /// Removes and returns the layers of a sliding-window filter whose items have all expired. O(layers).
    #[inline(always)]
    pub(super) fn take_expired(&mut self) -> Option<Self> {
        // The newest layer never expires.
        let may_expire = self.filter.layer_count() > 1 && self.filter.window().is_some();
        if may_expire { self.take_expired_layers() } else { None }
    }

    fn take_expired_layers(&mut self) -> Option<Self> {
        let (items, capacity_items) = (self.filter.counted_items(), self.filter.capacity_items());
        let expired = self.filter.take_expired()?;
        self.counted.recount(&self.filter, items, capacity_items);
        self.pages.after_bytes(&self.filter);
        let counted = Footprint::count(&expired);
        Some(Self { filter: expired, pages: LargePages::default(), counted })
    }

    /// Updates the totals after the filter has gained layers, whose items are counted already. O(layers).
    #[cold]
    fn count_growth(&mut self, layers_before: usize) {
        let before = self.filter.layers().iter().take(layers_before);
        let capacity_before_items =
            before.fold(0u64, |sum, layer| sum.saturating_add(layer.capacity_items()));
        self.counted.recount(&self.filter, self.filter.counted_items(), capacity_before_items);
    }

    /// Updates the totals after a command has deleted items or merged other filters into the filter. It had
    /// `items_before` and `capacity_before_items` before. O(layers).
    pub(super) fn altered(&mut self, items_before: u64, capacity_before_items: u64) {
        let layers_before = self.counted.layers();
        let counted_before = if self.filter.window().is_some() { 0 } else { items_before };
        self.counted.recount(&self.filter, counted_before, capacity_before_items);
        let layers = self.filter.layer_count();
        if layers > layers_before {
            self.pages.after_growth(&self.filter);
        }
        // Deletion writes only to memory that was written to before.
        if layers != layers_before || self.filter.items() >= items_before {
            self.pages.after_bytes(&self.filter);
        }
    }
}

/// The sum of the sizes of the allocator's blocks.
struct Sum(usize);

impl BlockVisitor for Sum {
    fn visit<T>(&mut self, block: &[T]) {
        // SAFETY: `Filter::visit_blocks`, the only caller, passes blocks of a filter that this module has allocated.
        let block_bytes = unsafe { block_bytes(block.as_ptr(), size_of_val(block)) };
        self.0 = self.0.saturating_add(block_bytes);
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.counted.uncount(self.filter.counted_items(), self.filter.capacity_items());
    }
}

/// Bytes that count as one unit of effort to free. The server frees in the background from 65 units on: filters of
/// 128 MiB and more.
///
/// The threshold is high, because memory that is freed in the background is not free yet when eviction checks it, so
/// the server would evict more. Freeing 128 MiB with every page written to takes 0.01 to 0.5 ms on the main thread,
/// and 4 to 6 ms if the system has no huge pages and the allocator returns memory immediately (Redis 7.0 and 8.0,
/// Valkey 8.0 and 9.1, with their allocators). The number of blocks hardly matters: 4096 blocks, the maximum, take
/// 0.07 ms.
const FREE_UNIT_BYTES: usize = 2 << 20;

/// The same while the server is at `maxmemory` or above and may evict. Then only filters of 512 MiB and more are
/// freed in the background: 1 ms, or 20 to 26 ms without huge pages.
const URGENT_FREE_UNIT_BYTES: usize = 8 << 20;

/// Most units that the server frees at once: `LAZYFREE_THRESHOLD` in lazyfree.c of every server.
const AT_ONCE_MAX_UNITS: usize = 64;
/// Most filters in the queue of the background thread. Further ones are freed at once.
const WAITING_MAX: usize = 64;

/// Returns the effort of freeing a filter, in the server's units. O(layers).
pub(super) fn effort(filter: &Filter) -> usize {
    let unit_bytes = if is_short() { URGENT_FREE_UNIT_BYTES } else { FREE_UNIT_BYTES };
    let bits_bytes = filter.layers().iter().map(|layer| size_of_val(layer.cells().words())).sum::<usize>();
    1 + bits_bytes / unit_bytes
}

/// The thread that frees filters.
static FREER: Worker<Stored> = Worker::new("bf-free", WAITING_MAX, drop);

/// Frees the former value of a key, in the background if the server would do the same.
pub(super) fn free(stored: Stored) {
    if effort(&stored.filter) > AT_ONCE_MAX_UNITS {
        // If the worker does not take it, it is freed here.
        drop(FREER.queue(stored));
    }
}
