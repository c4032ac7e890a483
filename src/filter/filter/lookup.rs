//! Looks up items: one, or many in groups.
//!
//! On a large filter, nearly all of an item's cost is waiting for memory, and waits overlap only if they start
//! together. So the memory of a group of items is prefetched before the first item is tested. But a processor tracks
//! only a few dozen outstanding lines; it delays or drops further prefetches. So a group is prefetched in steps, each
//! while the step before is tested (docs/decisions/0006).

use super::Filter;
use super::hashed::{
    GroupHashes, HashedGroup, HashedItems, RANGES_IN_CHAIN, RANGES_IN_ONE, RANGES_OF_PRESENT, is_cached,
};
use super::parts::Parts;
use crate::generation::Generation;
use crate::group::{self, GROUP_ITEMS, ItemSet};
use crate::hash::{Digest, murmur3};
use crate::prefetch::{NoPrefetch, Prefetch};
use crate::table::EntryKind;
#[cfg(doc)]
use crate::table::Table;

/// A source of items in order, a few at a time. A list of all items could take more memory than their packed batch.
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
    /// Returns whether the item may be in the filter: never false for an item that was added. O(layers * probes).
    #[must_use]
    #[inline(always)]
    pub fn contains(&self, item: &[u8], prefetch: impl Prefetch) -> bool {
        self.contains_in(item, self.now(), prefetch)
    }

    /// Returns whether the item may be in the filter at the time `now_ms`, in milliseconds of UNIX time, instead of the
    /// filter's own time. Only sliding windows use it. O(layers * probes).
    #[must_use]
    pub fn contains_at(&self, item: &[u8], now_ms: u64, prefetch: impl Prefetch) -> bool {
        self.contains_in(item, self.generation_at(|| now_ms), prefetch)
    }

    /// Returns whether the item may be in the filter at the generation `now` instead of the filter's own. Only sliding
    /// windows use it. O(layers * probes).
    #[inline(always)]
    pub fn contains_in(&self, item: &[u8], now: Generation, prefetch: impl Prefetch) -> bool {
        // Shorter paths for most filters.
        if let Parts::Layer(only) = &self.parts
            && let Some(hash) = only.hash().pair(item)
        {
            return if is_cached(only) {
                only.contains(Digest::Pair(hash), NoPrefetch)
            } else {
                only.contains(Digest::Pair(hash), prefetch)
            };
        }
        match &self.parts {
            Parts::Table(table) => table.contains(murmur3::hash128(item), now, prefetch),
            _ => self.parts_contain(item, now, prefetch),
        }
    }

    /// Does [`contains`](Self::contains) for a filter of any parts. Not inlined: it needs registers, which would cost
    /// instructions in the shorter paths.
    #[inline(never)]
    fn parts_contain(&self, item: &[u8], now: Generation, prefetch: impl Prefetch) -> bool {
        if !self.policy.has_several_hashes()
            && let Some(mut hash) = self.hash().pair(item)
        {
            return self.contains_hashed(&mut hash, now, prefetch) != 0;
        }
        let (items, mut digests) = ([item], GroupHashes::default());
        let mut group = HashedGroup::new(&items, &mut digests, false, RANGES_IN_CHAIN);
        self.contains_hashed(&mut group, now, prefetch) != 0
    }

    /// Looks up every item at the generation `now`, which only sliding windows use. For each group, in order, passes to `reply` the items that were found and the number of
    /// items that were looked up. O(items * layers * probes).
    pub fn contains_items(
        &self,
        items: &mut dyn ItemSource<'_>,
        now: Generation,
        prefetch: impl Prefetch,
        reply: &mut dyn FnMut(ItemSet, usize),
    ) {
        let (mut hits_expected, mut digests) = (false, GroupHashes::default());
        let has_one_hash = !self.policy.has_several_hashes();
        loop {
            let parts = match (self.layers(), self.table()) {
                ([_], None) if hits_expected => RANGES_OF_PRESENT,
                ([_], None) => RANGES_IN_ONE,
                _ => RANGES_IN_CHAIN,
            };
            let mut group = HashedGroup::new(items.next_few(), &mut digests, has_one_hash, parts);
            if group.len() == 0 {
                return;
            }
            let found = self.contains_hashed(&mut group, now, prefetch);
            hits_expected = found.count_ones() as usize * 2 >= group.len();
            reply(found, group.len());
        }
    }

    /// Does [`contains_items`](Self::contains_items) with one reply per item. Returns how many items may be in the
    /// filter. O(items * layers * probes).
    #[inline]
    pub fn contains_many(
        &self,
        mut items: &[&[u8]],
        now: Generation,
        prefetch: impl Prefetch,
        mut reply: impl FnMut(bool),
    ) -> u32 {
        let mut items_found = 0u32;
        self.contains_items(&mut items, now, prefetch, &mut |found, items| {
            items_found = items_found.wrapping_add(found.count_ones());
            (0..items).for_each(|index| reply(found >> index & 1 == 1));
        });
        items_found
    }

    /// Returns how often an item was added to a counting filter and not deleted since, or more with the probability of the
    /// error rate: see [`Table::occurrences`]. Returns 0 for other filters. O(1).
    #[must_use]
    pub fn occurrences(&self, item: &[u8]) -> u64 {
        match self.parts.table() {
            Some((table, hash)) if table.kind() == EntryKind::Counted => {
                hash.pair(item).map_or(0, |hash| table.occurrences(hash))
            }
            _ => 0,
        }
    }

    /// Returns when an item expires that may be in the filter at the generation `now`: the first millisecond of UNIX time
    /// at which it is no longer found, `u64::MAX` if it never expires. Returns `None` if the item is not in the filter.
    /// O(layers * probes).
    #[must_use]
    pub fn item_end(&self, item: &[u8], now: Generation, prefetch: impl Prefetch) -> Option<u64> {
        if !self.contains_in(item, now, prefetch) {
            return None;
        }
        let newest = match (self.window(), self.parts.table()) {
            (Some(window), Some((table, hash))) => hash
                .pair(item)
                .and_then(|hash| table.newest_of(hash))
                .map(|newest| window.span.end_of(newest)),
            _ => None,
        };
        Some(newest.unwrap_or(u64::MAX))
    }

    /// Returns the items that may be in the filter. Searches the newest part first, and each part only for the items
    /// that are not found yet.
    #[inline(always)]
    fn contains_hashed(
        &self,
        items: &mut impl HashedItems,
        now: Generation,
        prefetch: impl Prefetch,
    ) -> ItemSet {
        // Items that the encoding of an imported filter cannot express are looked up too: a merge may have added them
        // to the table.
        let (wanted, mut found) = (group::all(items.len()), 0);
        items.prefetch(self.layers(), prefetch);
        if let Some((table, hash)) = self.parts.table() {
            found = items.found_in_table(table, hash, wanted, now, prefetch);
        }
        found | items.found_in_layers(self.layers(), wanted & !found, prefetch)
    }
}
