//! What lies under a key: a filter, and what only this server needs to know of it.

use super::huge_pages::LargePages;
use super::stats::{Footprint, filter_lost, filter_took};
use crate::bloom::Filter;

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

    /// A command has changed the filter, which had so many layers before: by so many items, or by other things than items.
    /// O(1), where it has grown O(layers).
    #[inline(always)]
    pub(super) fn changed(&mut self, layers_before: usize, items_added: u64) {
        filter_took(&self.filter, items_added);
        if self.filter.layer_count() != layers_before {
            self.counted.recount(&self.filter);
            self.pages.after_growth(&self.filter);
        }
        if items_added == 0 {
            self.pages.after_bytes(&self.filter);
        }
        self.pages.after_items(&self.filter, items_added);
    }

    /// The filter has lost layers. O(layers).
    #[cold]
    pub(super) fn shrunk(&mut self) {
        self.counted.recount(&self.filter);
        self.pages.after_bytes(&self.filter);
    }

    /// A command has taken so many items out of the filter, which had so many layers before. O(1), where it has lost one
    /// O(layers).
    pub(super) fn deleted(&mut self, layers_before: usize, items: u64) {
        filter_lost(items);
        if self.filter.layer_count() != layers_before {
            self.shrunk();
        }
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.counted.forget(&self.filter);
        self.pages.undo(&self.filter);
    }
}
