//! The probing engine: looks up, adds and removes the items of a command in one layer, for every hash, layout and
//! cell type.
//!
//! Everything here is compiled for every pair of a layout and a cell type; [`probe`](super::probe) chooses the pair
//! once per layer and group.

use std::ops::Range;

use super::cells::{At, Cell, Found, Purpose};
use super::group::{ItemSet, dense_subset, members, subset};
use super::layout::{Probing, Spot};
use super::limits::PROBES_MAX;
use super::prefetch::{NoPrefetch, Part, Prefetch};
use super::window::Moment;

/// The cells of a layer and the stamps of its regions.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'c> {
    pub(super) words: &'c [u64],
    pub(super) stamps: &'c [u64],
}

/// As [`View`], mutable.
#[derive(Debug)]
pub(super) struct ViewMut<'c> {
    pub(super) words: &'c mut [u64],
    pub(super) stamps: &'c mut [u64],
}

impl ViewMut<'_> {
    /// Returns the same cells, immutable.
    #[inline(always)]
    pub(super) fn as_view(&self) -> View<'_> {
        View { words: self.words, stamps: self.stamps }
    }
}

/// The result of adding an item.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inserted {
    /// Cells of the item that were clear before.
    pub(super) new_cells: u32,
    /// The change of the number of set cells, wrapping.
    pub(super) set_cells: u64,
}

/// Which items of a group a layer has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FoundEach {
    /// Items that are present and have not expired.
    pub(super) live: ItemSet,
    /// Items whose add would change nothing.
    pub(super) current: ItemSet,
}

/// How the items of a group are added to a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taking {
    /// The items.
    pub(super) wanted: ItemSet,
    /// Items that another layer has in an older generation.
    pub(super) live_elsewhere: ItemSet,
    /// Whether a live item is not added again.
    pub(super) no_refresh: bool,
    /// New items that the layer still takes.
    pub(super) room_items: u64,
    /// Cells that may still be set before the layer is full, if set cells can fill it.
    pub(super) room_cells: u64,
    /// The time of the add.
    pub(super) at: Moment,
}

/// The result of adding items to a layer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// Items that were not there before.
    pub(super) new: ItemSet,
    /// Items that were there, and were counted or refreshed.
    pub(super) again: ItemSet,
    /// The first item that the layer did not take because it is full. The items after it were not tested.
    pub(super) stopped_at: Option<u32>,
    /// Items that count towards the capacity.
    pub(super) filled: u64,
    /// The change of the number of set cells, wrapping.
    pub(super) set_cells: u64,
}

/// A layout with a cell type: the functions below are compiled for each pair.
pub(super) trait Engine<D: Copy>: Probing<D> {
    /// Returns whether the item is present. Prefetches the memory of all its spots, then stops at the first spot that
    /// is not set, so it waits for no more memory than necessary.
    #[inline(always)]
    fn contains<C: At<Self::Spot>>(
        self,
        view: View<'_>,
        item: D,
        at: Moment,
        prefetch: impl Prefetch,
    ) -> bool {
        let region = self.region(item, Self::Spot::regions::<C>(view.words));
        let Some(cells) = Self::Spot::region::<C>(view.words, region) else { return false };
        self.prefetch_item::<C>(view, region, cells, item, Purpose::Look, prefetch);
        are_set_in_turn::<C, _>(
            C::live(view.stamps, region, at),
            cells,
            self.spots(item, positions::<C>(view.words)),
        )
    }

    /// Returns whether the first [`CHAIN_SPOTS`](Probing::CHAIN_SPOTS) of the item's spots are set. Reads them
    /// without a branch.
    #[inline(always)]
    fn may_contain<C: At<Self::Spot>>(self, view: View<'_>, item: D, at: Moment) -> bool {
        self.has_few::<C>(view, item, at, 0, Self::CHAIN_SPOTS)
    }

    /// Returns whether an item for which [`may_contain`](Self::may_contain) holds is present. Stops at the first spot
    /// that is not set.
    #[inline(always)]
    fn contains_rest<C: At<Self::Spot>>(self, view: View<'_>, item: D, at: Moment) -> bool {
        let region = self.region(item, Self::Spot::regions::<C>(view.words));
        let Some(cells) = Self::Spot::region::<C>(view.words, region) else { return false };
        let mut spots = self.spots(item, positions::<C>(view.words));
        skip::<C, _>(&mut spots, Self::CHAIN_SPOTS);
        are_set_in_turn::<C, _>(C::live(view.stamps, region, at), cells, spots)
    }

    /// Prefetches the memory of the spots that [`may_contain`](Self::may_contain) reads.
    #[inline(always)]
    fn prefetch_first<C: At<Self::Spot>>(self, view: View<'_>, item: D, prefetch: impl Prefetch) {
        let region = self.region(item, Self::Spot::regions::<C>(view.words));
        let Some(cells) = Self::Spot::region::<C>(view.words, region) else { return };
        let count = Self::CHAIN_SPOTS.min(self.spot_count());
        let spots = self.first_spots(item, positions::<C>(view.words), count);
        prefetch_spots::<C, _>(cells, spots, Purpose::Look, prefetch);
    }

    /// Returns the `wanted` items of which the given part of the spots is set. This is for memory that is cached or
    /// prefetched: it reads more and branches less than [`contains`](Self::contains), unless an item has very many
    /// spots.
    #[inline(always)]
    fn contains_each<C: At<Self::Spot>>(
        self,
        view: View<'_>,
        items: &[D],
        wanted: ItemSet,
        part: Part,
        at: Moment,
    ) -> ItemSet {
        match part {
            Part::First => {
                dense_subset(items, wanted, |item| self.has_few::<C>(view, item, at, 0, Part::FIRST))
            }
            Part::Next => {
                subset(items, wanted, |item| self.has_few::<C>(view, item, at, Part::FIRST, Part::NEXT))
            }
            Part::Rest | Part::All if self.spot_count() > AT_HAND_SPOTS => {
                subset(items, wanted, |item| self.contains::<C>(view, item, at, NoPrefetch))
            }
            Part::Rest => subset(items, wanted, |item| {
                self.has_part::<C>(view, item, at, Part::FIRST, self.spot_count())
            }),
            Part::All => {
                subset(items, wanted, |item| self.has_part::<C>(view, item, at, 0, self.spot_count()))
            }
        }
    }

    /// As [`has_part`](Self::has_part), limited to the spots that the item has. The compiler knows `start` and `end`,
    /// so it needs no loop if the item has all of them.
    #[inline(always)]
    fn has_few<C: At<Self::Spot>>(self, view: View<'_>, item: D, at: Moment, start: u32, end: u32) -> bool {
        let spots = self.spot_count();
        if spots >= end {
            self.has_part::<C>(view, item, at, start, end)
        } else {
            self.has_part::<C>(view, item, at, start, spots)
        }
    }

    /// Returns whether the item's spots from `start` to before `end` are set. Reads all of them.
    #[inline(always)]
    fn has_part<C: At<Self::Spot>>(self, view: View<'_>, item: D, at: Moment, start: u32, end: u32) -> bool {
        let region = self.region(item, Self::Spot::regions::<C>(view.words));
        let Some(cells) = Self::Spot::region::<C>(view.words, region) else { return false };
        let mut spots = self.first_spots(item, positions::<C>(view.words), end);
        skip::<C, _>(&mut spots, start);
        let mut mask = C::live(view.stamps, region, at);
        mask &= common::<C, _>(cells, spots);
        C::is_set(mask)
    }

    /// Returns what the layer has of an item that may be added. Prefetches the memory of all its spots, and reads all
    /// of them.
    #[inline(always)]
    fn find<C: At<Self::Spot>>(self, view: View<'_>, item: D, at: Moment, prefetch: impl Prefetch) -> Found {
        let region = self.region(item, Self::Spot::regions::<C>(view.words));
        let Some(cells) = Self::Spot::region::<C>(view.words, region) else { return Found::default() };
        self.prefetch_item::<C>(view, region, cells, item, Purpose::Add, prefetch);
        let mask = common::<C, _>(cells, self.spots(item, positions::<C>(view.words)));
        C::found(mask, view.stamps, region, at)
    }

    /// Does [`find`](Self::find) for each of the `wanted` items.
    #[inline(always)]
    fn find_each<C: At<Self::Spot>>(
        self,
        view: View<'_>,
        items: &[D],
        wanted: ItemSet,
        at: Moment,
    ) -> FoundEach {
        let mut all = FoundEach::default();
        for (index, item) in members(items, wanted) {
            let found = self.find::<C>(view, item, at, NoPrefetch);
            all.live |= ItemSet::from(found.is_live).wrapping_shl(index);
            all.current |= ItemSet::from(found.is_current).wrapping_shl(index);
        }
        all
    }

    /// Sets the item's spots.
    ///
    /// A store makes a line dirty (write-back, copy-on-write while a child saves). So if a store could be
    /// unnecessary, some spots are read before the first branch, which is then seldom mispredicted, and nothing is
    /// stored for an item that is present.
    #[inline(always)]
    fn insert<C: At<Self::Spot>>(
        self,
        view: &mut ViewMut<'_>,
        item: D,
        at: Moment,
        prefetch: impl Prefetch,
    ) -> Inserted {
        let region = self.region(item, Self::Spot::regions::<C>(view.words));
        if let Some(cells) = Self::Spot::region::<C>(view.words, region) {
            self.prefetch_item::<C>(view.as_view(), region, cells, item, Purpose::Add, prefetch);
        }
        self.insert_in::<C>(view, region, positions::<C>(view.words), item, at)
    }

    /// Does [`insert`](Self::insert) in a region; the cells have this number of positions.
    #[inline(always)]
    fn insert_in<C: At<Self::Spot>>(
        self,
        view: &mut ViewMut<'_>,
        region: usize,
        positions: u64,
        item: D,
        at: Moment,
    ) -> Inserted {
        let spots = self.spots(item, positions);
        let Some(opened) = C::open::<Self::Spot>(view.words, view.stamps, region, at) else {
            return Inserted::default();
        };
        let Some(cells) = Self::Spot::region_mut::<C>(view.words, region) else { return Inserted::default() };
        if C::SETS_ONCE {
            let (mut seen, mut mask) = (spots.clone(), C::WHOLE);
            for _ in 0..Self::TELLING_SPOTS {
                let Some(spot) = seen.next() else { break };
                mask &= C::look(cells, spot);
            }
            if C::is_set(mask) && C::is_set(common::<C, _>(cells, seen)) {
                return Inserted { new_cells: 0, set_cells: opened };
            }
        }
        let (mark, mut new_cells) = (C::mark(at), 0u32);
        for spot in spots {
            new_cells = new_cells.wrapping_add(C::set(cells, spot, mark));
        }
        Inserted { new_cells, set_cells: opened.wrapping_add(new_cells.into()) }
    }

    /// Does [`insert`](Self::insert) for one item after another, as long as the layer takes them.
    #[inline(always)]
    fn take_each<C: At<Self::Spot>>(self, view: &mut ViewMut<'_>, items: &[D], taking: Taking) -> Taken {
        let Taking { wanted, live_elsewhere, no_refresh, room_items, room_cells, at } = taking;
        let mut taken = Taken::default();
        let most_items = u64::from(wanted.count_ones());
        let most_cells = if C::FILLS_BY_CELLS { most_items.saturating_mul(MOST_CELLS) } else { 0 };
        if !C::IS_TIMED && most_items <= room_items && most_cells <= room_cells {
            // There is room for all of them.
            for (index, item) in members(items, wanted) {
                let Inserted { new_cells, set_cells } = self.insert::<C>(view, item, at, NoPrefetch);
                taken.new |= ItemSet::from(new_cells != 0).wrapping_shl(index);
                taken.set_cells = taken.set_cells.wrapping_add(set_cells);
            }
            taken.again = if C::SETS_ONCE { 0 } else { wanted & !taken.new };
            taken.filled = u64::from(taken.new.count_ones());
            return taken;
        }
        for (index, item) in members(items, wanted) {
            let mut is_live = live_elsewhere >> index & 1 == 1;
            let is_full = taken.filled >= room_items || (C::FILLS_BY_CELLS && taken.set_cells >= room_cells);
            if C::IS_TIMED || is_full {
                let found = self.find::<C>(view.as_view(), item, at, NoPrefetch);
                is_live |= found.is_live;
                if found.is_current || (is_live && no_refresh) {
                    continue;
                }
                if is_full && (C::IS_TIMED || !found.is_live) {
                    taken.stopped_at = Some(index);
                    break;
                }
            }
            let Inserted { new_cells, set_cells } = self.insert::<C>(view, item, at, NoPrefetch);
            let is_new = if C::IS_TIMED { !is_live } else { new_cells != 0 };
            // Cells that can count or refresh an item do so for one that is present.
            let is_again = !is_new && !C::SETS_ONCE;
            taken.new |= ItemSet::from(is_new).wrapping_shl(index);
            taken.again |= ItemSet::from(is_again).wrapping_shl(index);
            taken.set_cells = taken.set_cells.wrapping_add(set_cells);
            taken.filled = taken.filled.wrapping_add(u64::from(new_cells != 0));
        }
        taken
    }

    /// Counts the item's spots down. Returns how many cells became clear. If a cell is lower than the item alone
    /// would have made it, the item is not present: then it returns `None` and changes nothing.
    #[inline(always)]
    fn remove<C: At<Self::Spot>>(self, view: &mut ViewMut<'_>, item: D) -> Option<u32> {
        let region = self.region(item, Self::Spot::regions::<C>(view.words));
        let spots = self.spots(item, positions::<C>(view.words));
        let cells = Self::Spot::region_mut::<C>(view.words, region)?;
        if !spots.clone().all(|spot| C::is_set(C::look(cells, spot))) {
            return None;
        }
        let mut cleared = 0;
        for (done, spot) in spots.clone().enumerate() {
            match C::unset(cells, spot) {
                Some(count) => cleared += count,
                None => {
                    let mark = C::mark(Moment::default());
                    spots.take(done).for_each(|spot| {
                        C::set(cells, spot, mark);
                    });
                    return None;
                }
            }
        }
        Some(cleared)
    }

    /// Prefetches the memory of a part of the spots of each of the `wanted` items.
    #[inline(always)]
    fn prefetch_each<C: At<Self::Spot>>(
        self,
        view: View<'_>,
        items: &[D],
        wanted: ItemSet,
        part: Part,
        purpose: Purpose,
        prefetch: impl Prefetch,
    ) {
        let (regions, positions) = (Self::Spot::regions::<C>(view.words), positions::<C>(view.words));
        for (_, item) in members(items, wanted) {
            let region = self.region(item, regions);
            let Some(cells) = Self::Spot::region::<C>(view.words, region) else { return };
            if matches!(part, Part::First | Part::All)
                && let Some(stamp) = view.stamps.get(region)
            {
                prefetch.prefetch(stamp);
            }
            let Range { start, end } = part.of(self.spot_count());
            let mut spots = self.first_spots(item, positions, end);
            // This is a manual loop because `skip` would test for every element whether it is still to be skipped.
            for _ in 0..start {
                let _ = spots.next();
            }
            prefetch_spots::<C, _>(cells, spots, purpose, prefetch);
        }
    }

    /// Prefetches the memory of an item in its region.
    #[inline(always)]
    fn prefetch_item<C: At<Self::Spot>>(
        self,
        view: View<'_>,
        region: usize,
        cells: &<Self::Spot as Spot>::Region<C>,
        item: D,
        purpose: Purpose,
        prefetch: impl Prefetch,
    ) {
        if !prefetch.is_needed() {
            return;
        }
        if let Some(stamp) = view.stamps.get(region) {
            prefetch.prefetch(stamp);
        }
        // Counting takes fewer instructions than testing for the end of the spots.
        let spots = self.spots(item, positions::<C>(view.words)).take(self.spot_count() as usize);
        prefetch_spots::<C, _>(cells, spots, purpose, prefetch);
    }
}

impl<D: Copy, L: Probing<D>> Engine<D> for L {}

/// Most cells that an item sets in a layer of everbloom's own.
const MOST_CELLS: u64 = PROBES_MAX as u64;

/// Most spots of an item that are all read. With more spots, absent items take a quarter less time if the test stops
/// at the first clear one; in a layer of a thousand probes they take a small fraction.
const AT_HAND_SPOTS: u32 = 16;

/// Returns the number of positions in these words.
#[inline(always)]
fn positions<C: Cell>(words: &[u64]) -> u64 {
    (words.len() as u64).wrapping_mul(C::MEASURES.word_positions)
}

/// Skips the first spots, which are known to be set. With generations, all spots must be set in the same one, so none
/// is skipped.
#[inline(always)]
fn skip<C: Cell, S: Spot>(spots: &mut impl Iterator<Item = S>, count: u32) {
    for _ in 0..if C::IS_TIMED { 0 } else { count } {
        let _ = spots.next();
    }
}

/// Returns whether an item is present, from the mask of all its spots. Stops at the first spot that is not set.
#[inline(always)]
fn are_set_in_turn<C: At<S>, S: Spot>(
    mut mask: C::Mask,
    cells: &S::Region<C>,
    spots: impl Iterator<Item = S>,
) -> bool {
    for spot in spots {
        let seen = C::look(cells, spot);
        if C::IS_TIMED {
            mask &= seen;
        } else {
            // All spots before this one were set.
            mask = seen;
        }
        if !C::is_set(mask) {
            return false;
        }
    }
    true
}

/// Returns what spots have in common. Reads all of them.
#[inline(always)]
fn common<C: At<S>, S: Spot>(cells: &S::Region<C>, spots: impl Iterator<Item = S>) -> C::Mask {
    let mut mask = C::WHOLE;
    for spot in spots {
        mask &= C::look(cells, spot);
    }
    mask
}

/// Prefetches the memory of spots in a region.
#[inline(always)]
pub(super) fn prefetch_spots<C: At<S>, S: Spot>(
    cells: &S::Region<C>,
    spots: impl Iterator<Item = S>,
    purpose: Purpose,
    prefetch: impl Prefetch,
) {
    for spot in spots {
        for plane in 0..C::planes(purpose) {
            if let Some(word) = C::word(cells, spot, plane as usize) {
                prefetch.prefetch(word);
            }
        }
    }
}
