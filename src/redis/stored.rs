//! What lies under a key: a filter, and what only this server needs to know of it.

use super::allocator::block_bytes;
use super::huge_pages::LargePages;
use super::stats::{Footprint, filter_took};
use crate::bloom::{BlockVisitor, Filter};

/// A value of one of the data types. The server holds it as a bare pointer to a box of its own.
pub(super) struct Stored {
    /// The filter.
    pub(super) filter: Filter,
    /// How far its memory is in large pages.
    pub(super) pages: LargePages,
    /// What the statistics count it for.
    counted: Footprint,
}

impl Stored {
    /// A filter that now exists, in a box that is the server's from here on.
    pub(super) fn boxed(filter: Filter) -> Box<Self> {
        let counted = Footprint::count(&filter);
        let pages = LargePages::of(&filter);
        Box::new(Self { filter, pages, counted })
    }

    /// Bytes of the allocator's blocks, structs and bit arrays alike. O(layers).
    pub(super) fn allocated_bytes(&self) -> usize {
        let mut sum = Sum(block_bytes(std::ptr::from_ref(self), size_of::<Self>()));
        self.filter.visit_blocks(&mut sum);
        sum.0
    }

    /// A command has changed the filter, which had so many layers before: by so many items, or by other things than items.
    /// Answers how many layers more it has. O(1), where it has grown O(layers).
    #[inline(always)]
    pub(super) fn changed(&mut self, layers_before: usize, items_added: u64) -> u32 {
        filter_took(&self.filter, items_added);
        let layers = self.filter.layer_count();
        let mut layers_added = 0;
        if layers != layers_before {
            layers_added = u32::try_from(layers.saturating_sub(layers_before)).unwrap_or(u32::MAX);
            self.counted.recount(&self.filter, layers_before);
            self.pages.after_growth(&self.filter);
        }
        if items_added == 0 {
            self.pages.after_bytes(&self.filter);
        }
        self.pages.after_items(&self.filter, items_added);
        layers_added
    }
}

/// Bytes of the allocator's blocks.
struct Sum(usize);

impl BlockVisitor for Sum {
    fn visit<T>(&mut self, block: &[T]) {
        self.0 = self.0.saturating_add(block_bytes(block.as_ptr(), size_of_val(block)));
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.counted.forget(&self.filter);
        self.pages.undo(&self.filter);
    }
}
