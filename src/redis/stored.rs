//! What lies under a key: a filter, and what only this server needs to know of it.

use super::allocator::block_bytes;
use super::huge_pages::LargePages;
use super::stats::{Footprint, counted_items};
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

    /// Counts what a command has added to the filter, which had so many items before: so many items, or other things than items. Returns how many layers more the filter has. O(layers).
    #[inline(always)]
    pub(super) fn changed(&mut self, items_before: u64, items_added: u64) -> u32 {
        let layers_before = self.counted.layers();
        let layers = self.filter.layer_count();
        let mut layers_added = 0;
        if layers == layers_before {
            self.counted.recount_items(&self.filter, items_before);
        } else {
            layers_added = u32::try_from(layers.saturating_sub(layers_before)).unwrap_or(u32::MAX);
            self.count_growth(layers_before, items_before);
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
        self.filter.window()?;
        self.take_expired_layers()
    }

    fn take_expired_layers(&mut self) -> Option<Self> {
        let (items, capacity_items) = (counted_items(&self.filter), self.filter.capacity_items());
        let expired = self.filter.take_expired()?;
        self.counted.recount(&self.filter, items, capacity_items);
        self.pages.after_bytes(&self.filter);
        let counted = Footprint::count(&expired);
        Some(Self { filter: expired, pages: self.pages.of_part(), counted })
    }

    /// Counts the filter anew with the layers that it has grown by. O(layers).
    #[cold]
    fn count_growth(&mut self, layers_before: usize, items_before: u64) {
        let before = self.filter.layers().iter().take(layers_before);
        let capacity_before_items =
            before.fold(0u64, |sum, layer| sum.saturating_add(layer.capacity_items()));
        self.counted.recount(&self.filter, items_before, capacity_before_items);
    }

    /// Counts the filter anew, which had so many items and so much capacity before, after a command has deleted items or merged
    /// other filters into it. O(layers).
    pub(super) fn altered(&mut self, items_before: u64, capacity_before_items: u64) {
        let layers_before = self.counted.layers();
        self.counted.recount(&self.filter, items_before, capacity_before_items);
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
        self.counted.uncount(counted_items(&self.filter), self.filter.capacity_items());
        self.pages.undo(&self.filter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::window::Span;
    use crate::bloom::{CellType, Growth, Hash, Policy, Promise, Spec, Window};
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

    /// Returns a sliding window of two layers, the first of which takes up a few large pages.
    fn filter_of_two_layers() -> Filter {
        let growth = Growth::from_expansion(1);
        let promise = Promise { error_rate: 1e-6, capacity_items: 1_000_000, growth };
        let policy = Policy::Window(Box::new(Window::new(promise, Span::new(DAY_MS), false)));
        let spec = Spec { policy, hash: Hash::Murmur3, cells: CellType::Columns };
        let mut filter = Filter::reserve(spec, &u64::MAX).unwrap();
        filter.set_time(|| DAY_MS, || false);
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
        let words = stored.filter.layers()[0].cells().words();
        let block = words.as_ptr().addr().next_multiple_of(2 << 20);
        assert!(size_of_val(words) >= 4 << 20, "{}", size_of_val(words));
        stored.pages = LargePages::advised(&stored.filter);
        if !advice_at(block).is_some_and(|advice| advice.contains("hg")) {
            eprintln!("skipped: the system has no large pages");
            return;
        }
        stored.filter.set_time(|| 4 * DAY_MS, || false);
        stored.filter.add(b"late", &u64::MAX, Processor).unwrap();
        let mut dead = stored.take_expired().unwrap();
        assert_eq!((dead.filter.layer_count(), stored.filter.layer_count()), (1, 1));
        // As when it is freed, with the memory still there to be looked at.
        dead.pages.undo(&dead.filter);
        assert!(advice_at(block).is_some_and(|advice| !advice.contains("hg")));
        let last = stored.filter.layers()[0].cells().words();
        let block = last.as_ptr().addr().next_multiple_of(2 << 20);
        assert!(advice_at(block).is_some_and(|advice| advice.contains("hg")));
    }
}
