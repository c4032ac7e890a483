//! What lies under a key: a filter, and what only this server needs to know of it.

use super::allocator::block_bytes;
use super::huge_pages::LargePages;
use super::stats::{Footprint, recount_items};
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

    /// Counts what a command has added to the filter, of which [`Filter::counts_since`] said `layers_before` and
    /// `items_before`: so many items, or other things than items. Returns how many layers more the filter has. O(1), where it has grown O(layers).
    #[inline(always)]
    pub(super) fn changed(&mut self, layers_before: usize, items_before: u64, items_added: u64) -> u32 {
        let (layers, items) = self.filter.counts_since(layers_before);
        recount_items(self.filter.kind(), items_before, items);
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

    /// Counts the layers that were added; their items are counted.
    #[cold]
    fn count_growth(&mut self, layers_before: usize) {
        let added_items = self.filter.capacity_items_from(layers_before);
        let capacity_before_items = self.filter.capacity_items().saturating_sub(added_items);
        let items = self.filter.counted_items();
        self.counted.recount(&self.filter, layers_before, items, capacity_before_items);
    }

    /// Takes what is dead out of a filter that forgets. O(layers).
    #[inline(always)]
    pub(super) fn take_dead(&mut self) -> Option<Self> {
        if self.filter.keeps_time() { self.take_dead_layers() } else { None }
    }

    fn take_dead_layers(&mut self) -> Option<Self> {
        let (layers, capacity_items) = (self.filter.layer_count(), self.filter.capacity_items());
        let dead = self.filter.take_dead()?;
        self.counted.recount(&self.filter, layers, self.filter.counted_items(), capacity_items);
        self.pages.after_bytes(&self.filter);
        let counted = Footprint::count(&dead);
        Some(Self { filter: dead, pages: self.pages.of_part(), counted })
    }

    /// A command has deleted items or merged other filters into this one, which had so many layers, items
    /// and so much capacity before. O(layers).
    pub(super) fn altered(&mut self, layers_before: usize, items_before: u64, capacity_before_items: u64) {
        self.counted.recount(&self.filter, layers_before, items_before, capacity_before_items);
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
        self.counted.forget(&self.filter);
        self.pages.undo(&self.filter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::window::Span;
    use crate::bloom::{Blueprint, Everbloom, Growth, Window};
    use crate::prefetch::Processor;

    const DAY_MS: u64 = 86_400_000;

    /// What the system was told of the memory at an address (`VmFlags`, see proc(5)).
    fn advice_at(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut is_here = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let range = range.and_then(|(from, to)| {
                Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?)
            });
            is_here = range.map_or(is_here, |range| range.contains(&address));
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_here) {
                return Some(flags.to_owned());
            }
        }
        None
    }

    /// A filter that forgets with two layers, the first of which takes up a few large pages.
    fn filter_of_two_layers() -> Filter {
        let growth = Growth::from_expansion(1);
        let parameters = Everbloom { error_rate: 1e-6, capacity_items: 1_000_000, growth };
        let window = Window::new(parameters, Span::new(DAY_MS), false);
        let mut filter = Filter::reserve(Blueprint::Window(window), &u64::MAX).unwrap();
        filter.tell_time(DAY_MS);
        let mut item = 0u64;
        while filter.layer_count() < 2 {
            item += 1;
            filter.add(&item.to_le_bytes(), &u64::MAX, Processor).unwrap();
        }
        filter
    }

    #[test]
    fn what_was_taken_out_of_a_filter_takes_back_what_the_system_was_told_of_it() {
        let mut stored = Stored::new(filter_of_two_layers());
        let words = stored.filter.storages().next().unwrap().words();
        let block = words.as_ptr().addr().next_multiple_of(2 << 20);
        assert!(size_of_val(words) >= 4 << 20, "{}", size_of_val(words));
        stored.pages = LargePages::advised(&stored.filter);
        if !advice_at(block).is_some_and(|advice| advice.contains("hg")) {
            eprintln!("skipped: the system has no large pages");
            return;
        }
        stored.filter.tell_time(4 * DAY_MS);
        stored.filter.add(b"late", &u64::MAX, Processor).unwrap();
        let mut dead = stored.take_dead().unwrap();
        assert_eq!((dead.filter.layer_count(), stored.filter.layer_count()), (1, 1));
        // As when it is freed, with the memory still there to be looked at.
        dead.pages.undo(&dead.filter);
        assert!(advice_at(block).is_some_and(|advice| !advice.contains("hg")));
        let last = stored.filter.storages().next().unwrap().words();
        let block = last.as_ptr().addr().next_multiple_of(2 << 20);
        assert!(advice_at(block).is_some_and(|advice| advice.contains("hg")));
    }
}
