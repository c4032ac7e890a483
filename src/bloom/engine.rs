//! The probing engine: how the items of a command are looked up in one layer, added and removed, whatever its hash, layout
//! and cells.
//!
//! Everything here is compiled for every pair of a layout and cells; [`probe`](super::probe) chooses the pair once for a
//! layer and a group of items.

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

/// As [`View`], to be changed.
#[derive(Debug)]
pub(super) struct ViewMut<'c> {
    pub(super) words: &'c mut [u64],
    pub(super) stamps: &'c mut [u64],
}

impl ViewMut<'_> {
    /// Returns the same, to be looked at.
    #[inline(always)]
    pub(super) fn as_view(&self) -> View<'_> {
        View { words: self.words, stamps: self.stamps }
    }
}

/// What adding an item changed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inserted {
    /// Cells of the item that were not set before.
    pub(super) new_cells: u32,
    /// By how much the number of set cells has changed, wrapping.
    pub(super) set_cells: u64,
}

/// What a layer knows of the items of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FoundEach {
    /// Those that are there and have not expired.
    pub(super) live: ItemSet,
    /// Those whose add would change nothing.
    pub(super) current: ItemSet,
}

/// How the items of a group are added to the layer that takes new items.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taking {
    /// The items.
    pub(super) wanted: ItemSet,
    /// Those of them that another layer has, in an older generation.
    pub(super) live_elsewhere: ItemSet,
    /// Whether an item that is live is not added again.
    pub(super) no_refresh: bool,
    /// New items that the layer still takes.
    pub(super) room_items: u64,
    /// Cells that may still be set before the layer is full, where that fills it too.
    pub(super) room_cells: u64,
    /// When they are added.
    pub(super) at: Moment,
}

/// What adding items to a layer came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// Items that were not there before.
    pub(super) new: ItemSet,
    /// Items that were there, and were counted or refreshed.
    pub(super) again: ItemSet,
    /// The first item that the layer did not take, since it is full; the items after it were not looked at.
    pub(super) stopped_at: Option<u32>,
    /// Items that took room.
    pub(super) filled: u64,
    /// By how much the number of set cells has changed, wrapping.
    pub(super) set_cells: u64,
}

/// A layout with cells: the pair that the functions below are compiled for.
pub(super) trait Engine<D: Copy>: Probing<D> {
    /// Returns whether the item is there. Asks for the memory of all its spots, then ends at the first spot that is not set, so
    /// it waits for no more memory than it needs.
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

    /// Returns whether the first [`CHAIN_SPOTS`](Probing::CHAIN_SPOTS) of the item's spots are set. Reads them without a branch.
    #[inline(always)]
    fn may_contain<C: At<Self::Spot>>(self, view: View<'_>, item: D, at: Moment) -> bool {
        self.has_few::<C>(view, item, at, 0, Self::CHAIN_SPOTS)
    }

    /// Returns whether an item for which [`may_contain`](Self::may_contain) holds is there. Ends at the first spot that is not set.
    #[inline(always)]
    fn contains_rest<C: At<Self::Spot>>(self, view: View<'_>, item: D, at: Moment) -> bool {
        let region = self.region(item, Self::Spot::regions::<C>(view.words));
        let Some(cells) = Self::Spot::region::<C>(view.words, region) else { return false };
        let mut spots = self.spots(item, positions::<C>(view.words));
        skip::<C, _>(&mut spots, Self::CHAIN_SPOTS);
        are_set_in_turn::<C, _>(C::live(view.stamps, region, at), cells, spots)
    }

    /// Asks for the memory of the spots that [`may_contain`](Self::may_contain) reads.
    #[inline(always)]
    fn prefetch_first<C: At<Self::Spot>>(self, view: View<'_>, item: D, prefetch: impl Prefetch) {
        let region = self.region(item, Self::Spot::regions::<C>(view.words));
        let Some(cells) = Self::Spot::region::<C>(view.words, region) else { return };
        let count = Self::CHAIN_SPOTS.min(self.spot_count());
        let spots = self.first_spots(item, positions::<C>(view.words), count);
        prefetch_spots::<C, _>(cells, spots, Purpose::Look, prefetch);
    }

    /// Returns those of the `wanted` items that are there, by that part of their spots. For memory that is near or has been
    /// asked for: looks at more and branches less than [`contains`](Self::contains), unless an item has very many spots.
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

    /// As [`has_part`](Self::has_part), of those spots that the item has. The compiler knows `start` and `end`, so there is no loop
    /// where the item has them all.
    #[inline(always)]
    fn has_few<C: At<Self::Spot>>(self, view: View<'_>, item: D, at: Moment, start: u32, end: u32) -> bool {
        let spots = self.spot_count();
        if spots >= end {
            self.has_part::<C>(view, item, at, start, end)
        } else {
            self.has_part::<C>(view, item, at, start, spots)
        }
    }

    /// Returns whether the item's spots from `start` to before `end` are set. Looks at all of them.
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

    /// Returns what the layer knows of an item that may be added. Asks for the memory of all its spots, and looks at all of them.
    #[inline(always)]
    fn find<C: At<Self::Spot>>(self, view: View<'_>, item: D, at: Moment, prefetch: impl Prefetch) -> Found {
        let region = self.region(item, Self::Spot::regions::<C>(view.words));
        let Some(cells) = Self::Spot::region::<C>(view.words, region) else { return Found::default() };
        self.prefetch_item::<C>(view, region, cells, item, Purpose::Add, prefetch);
        let mask = common::<C, _>(cells, self.spots(item, positions::<C>(view.words)));
        C::found(mask, view.stamps, region, at)
    }

    /// [`find`](Self::find) of each of the `wanted` items.
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
    /// A store makes a line dirty (write-back, copy-on-write while a child saves), so where it would change nothing, some spots
    /// are looked at before the first branch, which is mispredicted seldom then, and nothing is stored for an item that is there.
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

    /// [`insert`](Self::insert) in a region, of cells that have so many positions in all.
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

    /// [`insert`](Self::insert) of one item after another, as long as the layer takes them.
    #[inline(always)]
    fn take_each<C: At<Self::Spot>>(self, view: &mut ViewMut<'_>, items: &[D], taking: Taking) -> Taken {
        let Taking { wanted, live_elsewhere, no_refresh, room_items, room_cells, at } = taking;
        let mut taken = Taken::default();
        let most_items = u64::from(wanted.count_ones());
        let most_cells = if C::FILLS_BY_CELLS { most_items.saturating_mul(MOST_CELLS) } else { 0 };
        if !C::IS_TIMED && most_items <= room_items && most_cells <= room_cells {
            // None of them finds the layer full.
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
            // What is there already is counted once more by cells that can tell.
            let is_again = !is_new && !C::SETS_ONCE;
            taken.new |= ItemSet::from(is_new).wrapping_shl(index);
            taken.again |= ItemSet::from(is_again).wrapping_shl(index);
            taken.set_cells = taken.set_cells.wrapping_add(set_cells);
            taken.filled = taken.filled.wrapping_add(u64::from(new_cells != 0));
        }
        taken
    }

    /// Counts the item's spots down. Returns how many cells are not set any more; nothing, having changed nothing, where one of
    /// them is lower than the item alone would have made it: then the item is not there.
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

    /// Asks for the memory that a part of the spots of each of the `wanted` items lies in.
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
            // By hand: `skip` would ask for every element whether it is still to be skipped.
            for _ in 0..start {
                let _ = spots.next();
            }
            prefetch_spots::<C, _>(cells, spots, purpose, prefetch);
        }
    }

    /// Asks for the memory of an item in its region.
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
        // Counted, which takes fewer instructions than finding the end of the spots.
        let spots = self.spots(item, positions::<C>(view.words)).take(self.spot_count() as usize);
        prefetch_spots::<C, _>(cells, spots, purpose, prefetch);
    }
}

impl<D: Copy, L: Probing<D>> Engine<D> for L {}

/// Cells that an item of a layer of our own sets at most.
const MOST_CELLS: u64 = PROBES_MAX as u64;

/// Most spots of an item that are all looked at. Of more, absent items take a quarter less time when the first that is
/// clear ends it, and an item in a layer of a thousand probes a small part of it.
const AT_HAND_SPOTS: u32 = 16;

/// Returns the number of positions in so many words.
#[inline(always)]
fn positions<C: Cell>(words: &[u64]) -> u64 {
    (words.len() as u64).wrapping_mul(C::MEASURES.word_positions)
}

/// Skips the first spots, which are known to be set. By time, all spots have to be set in one generation, so none is skipped.
#[inline(always)]
fn skip<C: Cell, S: Spot>(spots: &mut impl Iterator<Item = S>, count: u32) {
    for _ in 0..if C::IS_TIMED { 0 } else { count } {
        let _ = spots.next();
    }
}

/// Returns whether a mask says that an item is there once all its spots have been looked at. Ends at the first that is not set.
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
            // All spots before were set.
            mask = seen;
        }
        if !C::is_set(mask) {
            return false;
        }
    }
    true
}

/// Returns what spots have in common. Looks at all of them.
#[inline(always)]
fn common<C: At<S>, S: Spot>(cells: &S::Region<C>, spots: impl Iterator<Item = S>) -> C::Mask {
    let mut mask = C::WHOLE;
    for spot in spots {
        mask &= C::look(cells, spot);
    }
    mask
}

/// Asks for the memory of spots in a region.
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
