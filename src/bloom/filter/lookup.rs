//! Looks up items: one, or many in groups.
//!
//! On a large filter, nearly all of an item's cost is waiting for memory, and waits overlap only if they start
//! together. So the memory of a group of items is prefetched before the first item is tested. But a processor tracks
//! only a few dozen outstanding lines; it delays or drops further prefetches. So a group is prefetched in steps, each
//! while the step before is tested (docs/decisions/0006).

use super::Filter;
use super::hashed::{GroupHashes, HashedGroup, HashedItems};
use super::parts::Parts;
use crate::bloom::bits::Layer;
use crate::bloom::generation::Generation;
use crate::bloom::group::{GROUP_ITEMS, ItemSet};
use crate::bloom::hash::{Digest, ItemHash, murmur3};
use crate::bloom::limits::{CACHED_MAX_WORDS, NEAR_MAX_WORDS};
use crate::bloom::prefetch::{NoPrefetch, Part, Prefetch};

/// Largest group for which the memory of all layers is prefetched at once, because one layer alone would not keep
/// memory busy.
pub(super) const SMALL_GROUP_ITEMS: usize = 3;
/// Lines that are prefetched in one step. Together with the step before, up to twice as many are outstanding.
const STEP_LINES: usize = 16;
/// Least number of lines per item with which an item is tested in parts: the first two lines rule out most absent
/// items, so their other lines need not be fetched.
const IN_PARTS_LINES: u32 = 4;
/// The parts of a lookup in the only part, if most of the items before were found.
const PARTS_OF_PRESENT: &[Part] = &[Part::All];
/// The parts of a lookup in the only part, if most of the items before were absent.
const PARTS_IN_ONE: &[Part] = &[Part::First, Part::Rest];
/// The parts of a lookup in one of several layers, where most items are in another one.
pub(super) const PARTS_IN_CHAIN: &[Part] = &[Part::First, Part::Next, Part::Rest];

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
        let now = self.window().map_or(0, |window| {
            let mut window = *window;
            window.set_now(now_ms, self.newest_generation());
            window.moment().now
        });
        self.contains_in(item, now, prefetch)
    }

    #[inline(always)]
    fn contains_in(&self, item: &[u8], now: Generation, prefetch: impl Prefetch) -> bool {
        // Shorter paths for most filters.
        if let Parts::Layer(only) = &self.parts
            && let Some(hash) = ItemHash::of(only.hash(), item)
        {
            return if is_cached(only) {
                only.contains(hash, NoPrefetch)
            } else {
                only.contains(hash, prefetch)
            };
        }
        match &self.parts {
            Parts::Table(table) => table.contains(murmur3::hash128(item), now, prefetch),
            _ => self.parts_contain(item, now, prefetch),
        }
    }

    /// Not inlined: its registers would cost instructions in filters of one part.
    #[inline(never)]
    fn parts_contain(&self, item: &[u8], now: Generation, prefetch: impl Prefetch) -> bool {
        if !self.policy.has_several_hashes()
            && let Some(mut hash) = ItemHash::of(&self.hash(), item)
        {
            return self.contains_hashed(&mut hash, now, prefetch) != 0;
        }
        let (items, mut digests) = ([item], GroupHashes::default());
        let mut group = HashedGroup::new(&items, &mut digests, false, PARTS_IN_CHAIN);
        self.contains_hashed(&mut group, now, prefetch) != 0
    }

    /// Looks up every item. For each group, in order, passes to `reply` the items that were found and the number of
    /// items that were looked up. O(items * layers * probes).
    pub fn contains_items(
        &self,
        items: &mut dyn ItemSource<'_>,
        prefetch: impl Prefetch,
        reply: &mut dyn FnMut(ItemSet, usize),
    ) {
        let (mut hits_expected, mut digests) = (false, GroupHashes::default());
        let has_one_hash = !self.policy.has_several_hashes();
        loop {
            let parts = match (self.layers(), self.table()) {
                ([_], None) if hits_expected => PARTS_OF_PRESENT,
                ([_], None) => PARTS_IN_ONE,
                _ => PARTS_IN_CHAIN,
            };
            let mut group = HashedGroup::new(items.next_few(), &mut digests, has_one_hash, parts);
            if group.len() == 0 {
                return;
            }
            let found = self.contains_hashed(&mut group, self.now(), prefetch);
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

    /// Returns the items that may be in the filter. Searches the newest part first, and each part only for the items
    /// that are not found yet.
    #[inline(always)]
    fn contains_hashed(
        &self,
        items: &mut impl HashedItems,
        now: Generation,
        prefetch: impl Prefetch,
    ) -> ItemSet {
        let (wanted, mut found) = (self.possible(items), 0);
        items.prefetch(self.layers(), prefetch);
        if let Some((table, hash)) = self.parts.table() {
            found = items.found_in_table(table, hash, wanted, now, prefetch);
        }
        found | items.found_in_layers(self.layers(), wanted & !found, prefetch)
    }
}

/// Returns the `wanted` items that a layer contains. Tests the parts of their probes in turn.
pub(super) fn contained_in(
    layer: &Layer,
    group: &mut HashedGroup<'_, '_>,
    wanted: ItemSet,
    parts: &[Part],
    prefetch: impl Prefetch,
) -> ItemSet {
    let is_near = is_cached(layer) || group.len() <= SMALL_GROUP_ITEMS;
    let mut look = |wanted, part| {
        if is_near {
            return group.contains_each(layer, wanted, part);
        }
        group.contains_in_steps(layer, wanted, part, items_per_step(layer, part), prefetch)
    };
    let parts = if layer.layout().lines() < IN_PARTS_LINES { PARTS_OF_PRESENT } else { parts };
    parts.iter().fold(wanted, |left, part| if left == 0 { 0 } else { look(left, *part) })
}

/// Returns how many items are prefetched in one step.
pub(super) fn items_per_step(layer: &Layer, part: Part) -> usize {
    let lines = part.of(layer.layout().lines()).len();
    (STEP_LINES / lines.max(1)).max(1)
}

/// Returns whether the layer is small enough for the processor's caches, so that a prefetch would take as long as a
/// read.
#[inline(always)]
pub(super) fn is_cached(layer: &Layer) -> bool {
    layer.bits().allocation().len() <= CACHED_MAX_WORDS
}

/// Prefetches the memory of the first probes of an item in every larger layer.
#[inline(always)]
pub(super) fn prefetch_first(layers: &[Layer], item: ItemHash, prefetch: impl Prefetch) {
    for layer in layers.iter().rev().take(STEP_LAYERS) {
        if layer.bits().allocation().len() > NEAR_MAX_WORDS {
            layer.prefetch_first(item, prefetch);
        }
    }
}

/// Returns whether one of the layers may contain the item. O(layers * probes).
///
/// The newest two layers have most of the items, so they are searched first, one after the other. Of the older layers
/// the first probes are read without a branch, so that the processor overlaps the reads, and the other probes only in
/// the layers in which the first ones are set.
#[inline(always)]
pub(super) fn any_contains(layers: &[Layer], item: ItemHash) -> bool {
    let (older, newest) = layers.split_at(layers.len().saturating_sub(NEWEST_LAYERS));
    if newest.iter().rev().any(|layer| layer.contains(item, NoPrefetch)) {
        return true;
    }
    for step in older.rchunks(STEP_LAYERS) {
        let mut left = 0u32;
        for layer in step {
            left = left << 1 | u32::from(layer.may_contain(item));
        }
        for layer in step.iter().rev() {
            if left & 1 == 1 && layer.contains_rest(item) {
                return true;
            }
            left >>= 1;
        }
    }
    false
}

/// Layers that are searched one after the other. If each layer is twice as large as the one before, the newest two
/// have half to three quarters of the items.
const NEWEST_LAYERS: usize = 2;

/// Layers whose first probes are read in one step: a word has one bit per layer. Filters whose layers double have
/// fewer layers.
const STEP_LAYERS: usize = 32;
