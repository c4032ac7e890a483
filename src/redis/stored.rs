//! What lies under a key: a filter, and what only this server needs to know of it.

use super::allocator::block_bytes;
use super::huge_pages::LargePages;
use super::stats::Footprint;
use crate::bloom::{BlockVisitor, Filter};

/// A value of one of the data types. The server holds it as a bare pointer to a box of its own.
pub(super) struct Stored {
    /// The filter.
    pub(super) filter: Filter,
    /// When its memory is collapsed into large pages.
    pub(super) pages: LargePages,
    /// What the statistics count it for.
    counted: Footprint,
}

// A size class of the allocators, for two million small filters are two million of these.
const _: () = assert!(size_of::<Stored>() == 128);

impl Stored {
    /// A filter that now exists.
    pub(super) fn new(filter: Filter) -> Self {
        let counted = Footprint::count(&filter);
        let pages = LargePages::of(&filter);
        Self { filter, pages, counted }
    }

    /// A filter that now exists, in a box that is the server's from here on.
    pub(super) fn boxed(filter: Filter) -> Box<Self> {
        Box::new(Self::new(filter))
    }

    /// Bytes of the allocator's blocks, structs and bit arrays alike. O(layers).
    pub(super) fn allocated_bytes(&self) -> usize {
        // SAFETY: every `Stored` that a key or a callback leads to is in a box of this module.
        let mut sum = Sum(unsafe { block_bytes(std::ptr::from_ref(self), size_of::<Self>()) });
        self.filter.visit_blocks(&mut sum);
        sum.0
    }

    /// Counts what a command has added to the filter: so many items, or other things than items. [`Filter::counts_since`] said
    /// `items_before` before. Returns how many layers more the filter has. O(1), where it has grown or counts O(layers).
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

    /// Takes the layers out of a sliding window whose items have all expired. O(layers).
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

    /// Counts the filter anew with the layers that it has grown by; their items are counted. O(layers).
    #[cold]
    fn count_growth(&mut self, layers_before: usize) {
        let before = self.filter.layers().iter().take(layers_before);
        let capacity_before_items =
            before.fold(0u64, |sum, layer| sum.saturating_add(layer.capacity_items()));
        self.counted.recount(&self.filter, self.filter.counted_items(), capacity_before_items);
    }

    /// Counts the filter anew, which had so many items and so much capacity before, after a command has deleted items or merged
    /// other filters into it. O(layers).
    pub(super) fn altered(&mut self, items_before: u64, capacity_before_items: u64) {
        let layers_before = self.counted.layers();
        let counted_before = if self.filter.window().is_some() { 0 } else { items_before };
        self.counted.recount(&self.filter, counted_before, capacity_before_items);
        let layers = self.filter.layer_count();
        if layers > layers_before {
            self.pages.after_growth(&self.filter);
        }
        // Deleting items writes to no memory that was not written to before.
        if layers != layers_before || self.filter.items() >= items_before {
            self.pages.after_bytes(&self.filter);
        }
    }
}

/// Bytes of the allocator's blocks.
struct Sum(usize);

impl BlockVisitor for Sum {
    fn visit<T>(&mut self, block: &[T]) {
        // SAFETY: by the promise of `Filter::visit_blocks`, of which alone this is a visitor, a block of a filter
        // that this module has made.
        let block_bytes = unsafe { block_bytes(block.as_ptr(), size_of_val(block)) };
        self.0 = self.0.saturating_add(block_bytes);
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.counted.uncount(self.filter.counted_items(), self.filter.capacity_items());
    }
}
