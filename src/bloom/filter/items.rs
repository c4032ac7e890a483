//! Sources of items, a few at a time: the items of a command or of a packed batch.

use super::Filter;
use crate::bloom::group::GROUP_ITEMS;
use crate::bloom::outcome::{AddError, Added, ByteLimit};
use crate::bloom::prefetch::Prefetch;

/// Returns items in order, a few at a time: a list of all items could take more memory than their batch.
pub trait ItemSource<'i> {
    /// Returns the next items, at most [`GROUP_ITEMS`]; none at the end.
    fn next_few(&mut self) -> &[&'i [u8]];
}

impl<'i> ItemSource<'i> for &[&'i [u8]] {
    #[inline]
    fn next_few(&mut self) -> &[&'i [u8]] {
        let (few, rest) = self.split_at(self.len().min(GROUP_ITEMS));
        *self = rest;
        few
    }
}

impl Filter {
    /// Does [`contains_items`](Self::contains_items) with one reply per item. Returns how many items may be in the
    /// filter. O(items * layers * probes).
    #[inline]
    pub fn contains_many(
        &self,
        mut items: &[&[u8]],
        prefetch: impl Prefetch,
        mut reply: impl FnMut(bool),
    ) -> u32 {
        let mut items_found = 0u32;
        self.contains_items(&mut items, prefetch, &mut |found, items| {
            items_found = items_found.wrapping_add(found.count_ones());
            (0..items).for_each(|index| reply(found >> index & 1 == 1));
        });
        items_found
    }

    /// Does [`add_items`](Self::add_items) with one reply per item. If an item is refused, `reply` returns whether to
    /// continue. O(items * layers * probes).
    #[inline]
    pub fn add_many(
        &mut self,
        mut items: &[&[u8]],
        limit: &dyn ByteLimit,
        prefetch: impl Prefetch,
        mut reply: impl FnMut(Result<Added, AddError>) -> bool,
    ) {
        self.add_items(&mut items, limit, prefetch, &mut |run| run.outcomes().all(&mut reply));
    }
}
