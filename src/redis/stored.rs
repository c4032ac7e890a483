//! What lies under a key: a filter, and what only this server needs to know of it.

use super::huge_pages::LargePages;
use super::stats::{self, Footprint};
use crate::bloom::Filter;

/// A value of one of the data types. The server holds it as a bare pointer to a box of its own.
pub(super) struct Stored {
    /// The filter.
    pub(super) filter: Filter,
    /// How far its memory is in large pages.
    pub(super) pages: LargePages,
}

impl Stored {
    /// A filter that now exists, in a box that is the server's from here on.
    pub(super) fn boxed(filter: Filter) -> Box<Self> {
        stats::filter_made(Footprint::of(&filter));
        let pages = LargePages::of(&filter);
        Box::new(Self { filter, pages })
    }

    /// A command has changed the filter: what it was `before`, unless only items were added to layers that are there; and
    /// how many items it took, none where it was bytes of a dump.
    #[inline(always)]
    pub(super) fn changed(&mut self, before: Option<Footprint>, items_added: u64) {
        match before {
            None => stats::filter_took(items_added),
            Some(before) => self.compare(before, items_added),
        }
        self.pages.after_items(&self.filter, items_added);
    }

    fn compare(&mut self, before: Footprint, items_added: u64) {
        let after = Footprint::of(&self.filter);
        stats::filter_changed(before, after);
        if before.bytes != after.bytes {
            self.pages.after_growth(&self.filter);
        }
        if items_added == 0 {
            self.pages.after_bytes(&self.filter);
        }
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        stats::filter_freed(Footprint::of(&self.filter));
        self.pages.undo(&self.filter);
    }
}
