//! The probing engine: looks up and adds the items of a command in one layer, for every hash and layout.
//!
//! Everything here is compiled for every layout; [`probe`](super::probe) chooses it once per layer and group.

use std::ops::Range;

use super::layout::{Probing, Spot};
use crate::bloom::group::{ItemSet, dense_subset, members, subset};
use crate::bloom::prefetch::{NoPrefetch, Part, Prefetch};

/// Items to add to a layer.
#[derive(Clone, Copy, Debug)]
pub(in crate::bloom) struct AddRequest {
    /// The items.
    pub(in crate::bloom) wanted: ItemSet,
    /// New items that the layer still takes.
    pub(in crate::bloom) room_items: u64,
}

/// The result of adding items to a layer.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::bloom) struct AddOutcome {
    /// Items that were not there before.
    pub(in crate::bloom) new: ItemSet,
    /// The first item that the layer did not take because it is full. The items after it were not tested.
    pub(in crate::bloom) stopped_at: Option<u32>,
    /// Bits that were clear before.
    pub(in crate::bloom) new_bits: u64,
}

/// A layout: the functions below are compiled for each.
pub(in crate::bloom) trait Engine<D: Copy>: Probing<D> {
    /// Returns whether the item is present. Prefetches the memory of all its spots, then stops at the first spot that
    /// is not set, so it waits for no more memory than necessary.
    #[inline(always)]
    fn contains(self, words: &[u64], item: D, prefetch: impl Prefetch) -> bool {
        let Some(region) = self.region_of(words, item) else { return false };
        self.prefetch_item(words, region, item, prefetch);
        are_set_in_turn(region, self.spots(item, positions(words)))
    }

    /// Returns whether the first [`CHAIN_SPOTS`](Probing::CHAIN_SPOTS) of the item's spots are set. Reads them
    /// without a branch.
    #[inline(always)]
    fn may_contain(self, words: &[u64], item: D) -> bool {
        self.has_few(words, item, 0, Self::CHAIN_SPOTS)
    }

    /// Returns whether an item for which [`may_contain`](Self::may_contain) holds is present. Stops at the first spot
    /// that is not set.
    #[inline(always)]
    fn contains_rest(self, words: &[u64], item: D) -> bool {
        let Some(region) = self.region_of(words, item) else { return false };
        let mut spots = self.spots(item, positions(words));
        skip(&mut spots, Self::CHAIN_SPOTS);
        are_set_in_turn(region, spots)
    }

    /// Prefetches the memory of the spots that [`may_contain`](Self::may_contain) reads.
    #[inline(always)]
    fn prefetch_first(self, words: &[u64], item: D, prefetch: impl Prefetch) {
        let Some(region) = self.region_of(words, item) else { return };
        let count = Self::CHAIN_SPOTS.min(self.spot_count());
        prefetch_spots(region, self.first_spots(item, positions(words), count), prefetch);
    }

    /// Returns the `wanted` items of which the given part of the spots is set. This is for memory that is cached or
    /// prefetched: it reads more and branches less than [`contains`](Self::contains), unless an item has very many
    /// spots.
    #[inline(always)]
    fn contains_each(self, words: &[u64], items: &[D], wanted: ItemSet, part: Part) -> ItemSet {
        match part {
            Part::First => dense_subset(items, wanted, |item| self.has_few(words, item, 0, Part::FIRST)),
            Part::Next => subset(items, wanted, |item| self.has_few(words, item, Part::FIRST, Part::NEXT)),
            Part::Rest | Part::All if self.spot_count() > BRANCHLESS_SPOTS_MAX => {
                subset(items, wanted, |item| self.contains(words, item, NoPrefetch))
            }
            Part::Rest => {
                subset(items, wanted, |item| self.has_part(words, item, Part::FIRST, self.spot_count()))
            }
            Part::All => subset(items, wanted, |item| self.has_part(words, item, 0, self.spot_count())),
        }
    }

    /// As [`has_part`](Self::has_part), limited to the spots that the item has. The compiler knows `start` and `end`,
    /// so it needs no loop if the item has all of them.
    #[inline(always)]
    fn has_few(self, words: &[u64], item: D, start: u32, end: u32) -> bool {
        let spots = self.spot_count();
        if spots >= end {
            self.has_part(words, item, start, end)
        } else {
            self.has_part(words, item, start, spots)
        }
    }

    /// Returns whether the item's spots from `start` to before `end` are set. Reads all of them.
    #[inline(always)]
    fn has_part(self, words: &[u64], item: D, start: u32, end: u32) -> bool {
        let Some(region) = self.region_of(words, item) else { return false };
        let mut spots = self.first_spots(item, positions(words), end);
        skip(&mut spots, start);
        are_set(region, spots)
    }

    /// Sets the item's spots. Returns how many bits were clear before.
    ///
    /// A store makes a line dirty (write-back, copy-on-write while a child saves). So some spots are read before the
    /// first branch, which is then seldom mispredicted, and nothing is stored for an item that is present.
    #[inline(always)]
    fn insert(self, words: &mut [u64], item: D, prefetch: impl Prefetch) -> u32 {
        let index = self.region(item, Self::Spot::regions(words));
        if let Some(region) = Self::Spot::region(words, index) {
            self.prefetch_item(words, region, item, prefetch);
        }
        let positions = positions(words);
        let Some(region) = Self::Spot::region_mut(words, index) else { return 0 };
        self.insert_in(region, positions, item)
    }

    /// Does [`insert`](Self::insert) in a region of words with this number of positions.
    #[inline(always)]
    fn insert_in(self, region: &mut <Self::Spot as Spot>::Region, positions: u64, item: D) -> u32 {
        let spots = self.spots(item, positions);
        let (mut seen, mut mask) = (spots.clone(), 1);
        for _ in 0..Self::SPOTS_BEFORE_BRANCH {
            let Some(spot) = seen.next() else { break };
            mask &= spot.look(region);
        }
        if mask & 1 == 1 && are_set(region, seen) {
            return 0;
        }
        let mut new_bits = 0u32;
        for spot in spots {
            new_bits = new_bits.wrapping_add(spot.set(region));
        }
        new_bits
    }

    /// Does [`insert`](Self::insert) for one item after another, as long as the layer takes them.
    #[inline(always)]
    fn insert_each(self, words: &mut [u64], items: &[D], request: AddRequest) -> AddOutcome {
        let AddRequest { wanted, room_items } = request;
        let (mut outcome, mut room_items) = (AddOutcome::default(), room_items);
        let all_fit = u64::from(wanted.count_ones()) <= room_items;
        for (index, item) in members(items, wanted) {
            if !all_fit && room_items == 0 {
                if self.has_part(words, item, 0, self.spot_count()) {
                    continue;
                }
                outcome.stopped_at = Some(index);
                break;
            }
            let new_bits = self.insert(words, item, NoPrefetch);
            outcome.new |= ItemSet::from(new_bits != 0).wrapping_shl(index);
            outcome.new_bits = outcome.new_bits.wrapping_add(new_bits.into());
            room_items = room_items.wrapping_sub((new_bits != 0).into());
        }
        outcome
    }

    /// Prefetches the memory of a part of the spots of each of the `wanted` items.
    #[inline(always)]
    fn prefetch_each(self, words: &[u64], items: &[D], wanted: ItemSet, part: Part, prefetch: impl Prefetch) {
        for (_, item) in members(items, wanted) {
            let Some(region) = self.region_of(words, item) else { return };
            let Range { start, end } = part.of(self.spot_count());
            let mut spots = self.first_spots(item, positions(words), end);
            skip(&mut spots, start);
            prefetch_spots(region, spots, prefetch);
        }
    }

    /// Prefetches the memory of an item in its region.
    #[inline(always)]
    fn prefetch_item(
        self,
        words: &[u64],
        region: &<Self::Spot as Spot>::Region,
        item: D,
        prefetch: impl Prefetch,
    ) {
        if !prefetch.is_needed() {
            return;
        }
        // Counting takes fewer instructions than testing for the end of the spots.
        let spots = self.spots(item, positions(words)).take(self.spot_count() as usize);
        prefetch_spots(region, spots, prefetch);
    }

    /// Returns the region of the item.
    #[inline(always)]
    fn region_of(self, words: &[u64], item: D) -> Option<&<Self::Spot as Spot>::Region> {
        Self::Spot::region(words, self.region(item, Self::Spot::regions(words)))
    }
}

impl<D: Copy, L: Probing<D>> Engine<D> for L {}

/// Most spots of an item that are all read. With more spots, absent items take a quarter less time if the test stops
/// at the first clear one; in a layer of a thousand probes they take a small fraction.
const BRANCHLESS_SPOTS_MAX: u32 = 16;

/// Returns the number of positions in these words.
#[inline(always)]
fn positions(words: &[u64]) -> u64 {
    (words.len() as u64).wrapping_mul(64)
}

/// Skips the first spots. This is a manual loop because `skip` would test for every element whether it is still to be
/// skipped.
#[inline(always)]
fn skip<S: Spot>(spots: &mut impl Iterator<Item = S>, count: u32) {
    for _ in 0..count {
        let _ = spots.next();
    }
}

/// Returns whether all spots are set. Stops at the first that is not.
#[inline(always)]
fn are_set_in_turn<S: Spot>(region: &S::Region, spots: impl Iterator<Item = S>) -> bool {
    for spot in spots {
        if spot.look(region) & 1 == 0 {
            return false;
        }
    }
    true
}

/// Returns whether all spots are set. Reads all of them.
#[inline(always)]
fn are_set<S: Spot>(region: &S::Region, spots: impl Iterator<Item = S>) -> bool {
    let mut mask = 1;
    for spot in spots {
        mask &= spot.look(region);
    }
    mask & 1 == 1
}

/// Prefetches the memory of spots in a region.
#[inline(always)]
pub(in crate::bloom) fn prefetch_spots<S: Spot>(
    region: &S::Region,
    spots: impl Iterator<Item = S>,
    prefetch: impl Prefetch,
) {
    for spot in spots {
        if let Some(word) = spot.word(region) {
            prefetch.prefetch(word);
        }
    }
}
