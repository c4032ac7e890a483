//! Adding an item: the change of its run, and the room for it.

use super::run::{Addition, Edit, PlannedEdit, counted_edit, plain_edit, refreshed, timed_edit};
use crate::generation::Generation;
use crate::growth_budget::GrowthBudget;
use crate::memory::OutOfMemory;
use crate::outcome::{AddError, Added, ReserveError};
use crate::table::changes::Undo;
use crate::table::entry::{Entry, EntryKind, RUN_MAX, matches};
use crate::table::reshape::SlotDemand;
use crate::table::segment::Segment;
use crate::table::size::{BLOCKS_LOG_MAX, TooFull, USED_MAX};
use crate::table::state::Table;
use crate::table::totals::{History, ItemCounts};
use crate::words::{PortableSelect, Select, low_bits};

/// Returns the error of an add for which a segment has no slot. Only the items of crafted tables have it.
#[cold]
fn no_slot(kind: EntryKind, _: TooFull) -> AddError {
    match kind {
        EntryKind::Counted => AddError::TooOften,
        EntryKind::Plain | EntryKind::Timed(_) => AddError::CannotGrow(ReserveError::TooLong),
    }
}

impl Table {
    /// Adds an item. `kind` is that of the table.
    #[inline(always)]
    pub(super) fn add_kind(
        &mut self,
        kind: EntryKind,
        addition: Addition,
        room: &GrowthBudget<'_>,
        select: impl Select,
    ) -> Result<Added, AddError> {
        match self.add_shortly(kind, &addition, select)? {
            Some(added) => Ok(added),
            None => self.edit(kind, &addition, room, select),
        }
    }

    /// Does [`edit`](Self::edit) in less time, if no room must be made, for what most adds do: insert an entry of an item that
    /// no entry matches, or give a timed entry a new generation. Returns `None` for other adds.
    #[inline(always)]
    fn add_shortly(
        &mut self,
        kind: EntryKind,
        addition: &Addition,
        select: impl Select,
    ) -> Result<Option<Added>, AddError> {
        let (address, segment) = self.locate(addition.hash);
        let run = segment.run(address.block, address.bucket, select);
        let entry_mask = if kind.is_timed() { low_bits(kind.entry_bits(segment)) } else { u64::MAX };
        let (mut slots, mut found) = (0u32, None);
        if !run.is_empty {
            // A slot of a count may seem to match, which only leads to the longer path.
            segment.scan(run.start, |slot| {
                found = matches(slot & entry_mask, address.key).then_some(slot);
                slots += 1;
                found.is_none()
            });
        }
        if found.is_some() && kind == EntryKind::Plain {
            return Ok(Some(Added::Present));
        }
        let more = usize::from(found.is_none());
        if slots as usize + more >= RUN_MAX
            || kind.is_timed() && self.is_sweep_next()
            || self.needs_room_for(kind, segment, addition, more, false)
        {
            return Ok(None);
        }
        let edit = match found {
            None => {
                self.check_items(kind, addition)?;
                let inserted = self.insert(&address, run, kind.code_of(addition.generation));
                inserted.map_err(|error| no_slot(kind, error))?;
                Edit::Insert
            }
            Some(slot) if kind.is_timed() => {
                let Some((newer, before)) = refreshed(kind, slot, segment, addition) else { return Ok(None) };
                let at = segment.slot_behind(run.start, slots - 1);
                self.directory.edit(address.segment, |segment| segment.set_slot(at, newer));
                Edit::Replace(before)
            }
            Some(_) => return Ok(None),
        };
        self.count(addition, &edit);
        Ok(Some(if found.is_some() { Added::Again } else { Added::New }))
    }

    /// Returns whether room must be made before an add that brings `more` slots of a segment into use.
    #[inline(always)]
    fn needs_room_for(
        &self,
        kind: EntryKind,
        segment: &Segment,
        addition: &Addition,
        more: usize,
        fills_bucket: bool,
    ) -> bool {
        Self::is_stale(kind, segment, addition.now)
            || more > 0 && (self.needs_room(segment, more) || self.must_spread(segment, more, fills_bucket))
    }

    /// Adds an item. `kind` is that of the table.
    #[inline(always)]
    fn edit(
        &mut self,
        kind: EntryKind,
        addition: &Addition,
        room: &GrowthBudget<'_>,
        select: impl Select,
    ) -> Result<Added, AddError> {
        let planned = self.plan_edit(kind, addition, None, select)?;
        if let Edit::Nothing = planned.edit {
            return Ok(Added::Present);
        }
        if planned.needs_room || kind.is_timed() && self.is_sweep_next() {
            return self.edit_with_room(kind, addition, planned, room);
        }
        self.write_edit(kind, addition, &planned).map_err(|error| no_slot(kind, error))?;
        self.count(addition, &planned.edit);
        Ok(planned.added())
    }

    /// Returns the change that the add of an item makes. Room was made for `made_slots` more slots, if for any.
    #[inline(always)]
    fn plan_edit(
        &self,
        kind: EntryKind,
        addition: &Addition,
        made_slots: Option<usize>,
        select: impl Select,
    ) -> Result<PlannedEdit, AddError> {
        let (address, segment) = self.locate(addition.hash);
        let run = segment.run(address.block, address.bucket, select);
        let mut slots = segment.slots_of(run);
        let before = slots.len();
        let (edit, is_found) = match kind {
            EntryKind::Plain => plain_edit(&slots, &address),
            EntryKind::Counted => {
                counted_edit(&mut slots, &address, kind.entry_bits(segment), addition.only_absent)?
            }
            EntryKind::Timed(_) => timed_edit(kind, &mut slots, &address, segment, addition),
        };
        let after = if let Edit::Insert = edit { before + 1 } else { slots.len() };
        let more = after - before;
        let mut planned =
            PlannedEdit { address, run, slots, before, edit, is_found, more, needs_room: false };
        if let Edit::Nothing = planned.edit {
            return Ok(planned);
        }
        if !is_found {
            self.check_items(kind, addition)?;
        }
        if kind == EntryKind::Counted && more > 0 && (after > RUN_MAX || segment.is_overfull(more)) {
            return Err(AddError::TooOften);
        }
        planned.needs_room = made_slots.is_none_or(|made| made < more)
            && self.needs_room_for(kind, segment, addition, more, planned.fills_bucket());
        Ok(planned)
    }

    /// Adds an item if room must be made first, or if the add sweeps.
    #[inline(never)]
    fn edit_with_room(
        &mut self,
        kind: EntryKind,
        addition: &Addition,
        planned: PlannedEdit,
        room: &GrowthBudget<'_>,
    ) -> Result<Added, AddError> {
        self.do_whole(|table, undo| table.try_edit_with_room(kind, addition, planned, room, undo))
    }

    fn try_edit_with_room(
        &mut self,
        kind: EntryKind,
        addition: &Addition,
        mut planned: PlannedEdit,
        room: &GrowthBudget<'_>,
        undo: &mut Undo,
    ) -> Result<Added, AddError> {
        let Addition { hash, now, .. } = *addition;
        while planned.needs_room {
            let fills_bucket = planned.fills_bucket();
            let demand = SlotDemand { hash, slots: planned.more, fills_bucket, now };
            self.make_room(demand, room, undo).map_err(|error| match error {
                ReserveError::TooLong if kind == EntryKind::Counted => AddError::TooOften,
                error => AddError::CannotGrow(error),
            })?;
            // Entries may be shorter now. So the run is read again, and more slots may be needed than before.
            // The item was absent, or is added again. So the plan does not depend on `only_absent`, which is not replicated.
            let addition = Addition { only_absent: false, ..*addition };
            planned = self.plan_edit(kind, &addition, Some(planned.more), PortableSelect)?;
            if let Edit::Nothing = planned.edit {
                // The table has changed, so replicas must change theirs.
                self.counts.advance(now);
                return Ok(Added::Again);
            }
        }
        let sweeps = kind.is_timed() && self.is_sweep_next();
        let refuse = |error: OutOfMemory| {
            room.refuse(error.into());
            AddError::CannotGrow(error.into())
        };
        if sweeps {
            // After too many sweeps that were refused, no more are tried in this command.
            if room.refused() == Some(ReserveError::OutOfMemory) && !room.may_free() {
                return Err(refuse(OutOfMemory));
            }
            self.keep(planned.address, undo).map_err(refuse)?;
        }
        self.write_edit(kind, addition, &planned).map_err(|error| no_slot(kind, error))?;
        self.count(addition, &planned.edit);
        if sweeps {
            self.sweep(now, undo).map_err(refuse)?;
        }
        Ok(planned.added())
    }

    /// Writes the run of an item, as planned.
    #[inline(always)]
    fn write_edit(
        &mut self,
        kind: EntryKind,
        addition: &Addition,
        planned: &PlannedEdit,
    ) -> Result<(), TooFull> {
        let PlannedEdit { address, run, slots, before, edit, .. } = planned;
        let segment = self.directory.get(address.segment);
        let code = kind.code_of(addition.generation);
        if let Edit::Replace(_) = edit {
            return self.directory.edit(address.segment, |segment| segment.replace_run(*run, *before, slots));
        }
        // Counted entries never become a saturated bucket.
        if *before >= RUN_MAX && kind != EntryKind::Counted {
            let bits = kind.entry_bits(segment);
            let generations =
                slots.iter().map(|slot| Entry::of_slot(kind, bits, segment.stamp, *slot).number);
            let newest = generations.fold(addition.generation, Generation::max);
            self.saturate_bucket(address, newest)
        } else if segment.used() >= segment.used_max() && kind != EntryKind::Counted {
            self.saturate_fullest_block(address, addition.now)?;
            self.insert_unless_saturated(addition.hash, code)
        } else {
            self.insert(address, *run, code)
        }
    }

    /// Counts an item that was added. Counts of a header may be the largest already.
    #[inline(always)]
    fn count(&mut self, addition: &Addition, edit: &Edit) {
        match &mut self.counts {
            ItemCounts::Plain { items, .. } => *items = items.saturating_add(1),
            ItemCounts::Counted { items, entries, .. } => {
                *items = items.saturating_add(1);
                // As above: the largest number stays.
                *entries = entries.saturating_add(matches!(edit, Edit::Insert).into());
            }
            ItemCounts::Timed { history, adds } => count_timed(history, adds, addition, edit),
            ItemCounts::Fine { history, adds } => count_timed(history, adds, addition, edit),
        }
    }

    /// Checks that a table may get one more item.
    #[inline(always)]
    fn check_items(&self, kind: EntryKind, addition: &Addition) -> Result<(), AddError> {
        let is_full = kind != EntryKind::Plain
            && addition.most_items != u64::MAX
            && self.distinct_items(addition.now) >= addition.most_items;
        if is_full { Err(AddError::Full) } else { Ok(()) }
    }
}

/// Counts an item with a timed entry.
#[inline(always)]
fn count_timed<const N: usize>(history: &mut History<N>, adds: &mut u64, addition: &Addition, edit: &Edit) {
    history.advance(addition.now);
    if let Edit::Replace(moved_from) = edit {
        history.remove_one(*moved_from);
    }
    history.add(addition.generation, 1);
    // The number only chooses the segment that is swept next, and a header may say any number.
    *adds = adds.wrapping_add(1);
}

impl Segment {
    /// Returns whether a segment of the largest shape cannot take `more` slots. This happens only if items are crafted.
    fn is_overfull(&self, more: usize) -> bool {
        self.blocks_log() == BLOCKS_LOG_MAX && self.used() + more > USED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::Steps;
    use crate::hash::ItemHash;
    use crate::table::state::TableSpec;

    /// The paths of an add change a table and reply alike, for honest items and for items that are crafted to fill a
    /// bucket, a block or a segment.
    #[test]
    fn the_paths_of_an_add_do_the_same() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 16).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        };
        // The first bits of `h1` that are equal, the buckets of a block, the different items, and the adds.
        let cases = [
            (0, 64, u64::MAX, 20_000),
            (0, 64, 500, 5_000),
            (12, 2, u64::MAX, 2_000),
            (12, 64, u64::MAX, 8_000),
            (6, 64, u64::MAX, 20_000),
            (5, 64, 9_000, 20_000),
        ];
        for (kind, (equal_bits, buckets, items, adds)) in [
            EntryKind::Plain,
            EntryKind::Counted,
            EntryKind::Timed(Steps::Fourteen),
            EntryKind::Timed(Steps::Fine),
        ]
        .into_iter()
        .flat_map(|kind| cases.map(|case| (kind, case)))
        {
            let spec = TableSpec { error_rate: 0.001, kind, items: 3_000 };
            let (mut table, mut apart) = (Table::new(spec), Table::new(spec));
            let room = GrowthBudget::new(&u64::MAX);
            for step in 0..adds {
                let item = random() % items;
                let (h1, h2) =
                    (item.wrapping_mul(0xD6E8_FEB8_6659_FD93), item.wrapping_mul(0xA076_1D64_78BD_642F));
                let hash = ItemHash { h1: h1 << equal_bits, h2: ((h2 >> 32) % buckets) << 58 | h2 >> 6 };
                let now = 20 + step / 900;
                let addition = Addition {
                    hash,
                    generation: now - random() % 3 / 2,
                    now,
                    only_absent: random() % 4 == 0,
                    most_items: 19_900,
                };
                let added = table.add_item(addition, &room, PortableSelect);
                assert_eq!(
                    added,
                    apart.edit(kind, &addition, &room, PortableSelect),
                    "{kind:?}, {equal_bits}, {step}"
                );
                if step % 512 == 0 || step == adds - 1 {
                    assert!(format!("{table:?}") == format!("{apart:?}"), "{kind:?}, {equal_bits}, {step}");
                }
            }
        }
    }

    /// An add that only renews a timed entry finds its bucket once.
    #[test]
    fn a_timed_entry_is_renewed_in_place() {
        #[derive(Clone, Copy)]
        struct Counting<'c>(&'c std::cell::Cell<u32>);
        impl Select for Counting<'_> {
            fn select(self, word: u64, rank: u32) -> u32 {
                self.0.set(self.0.get() + 1);
                PortableSelect.select(word, rank)
            }
        }
        let mut table = Table::new(TableSpec {
            error_rate: 0.001,
            kind: EntryKind::Timed(Steps::Fourteen),
            items: 3_000,
        });
        let (room, finds) = (GrowthBudget::new(&u64::MAX), std::cell::Cell::new(0));
        let mut add = |bucket: u64, now| {
            let hash = ItemHash { h1: 0, h2: bucket << 58 };
            finds.set(0);
            let added = table.add_item(Addition::of_item(hash, now), &room, Counting(&finds)).unwrap();
            (added, finds.get())
        };
        add(0, 20);
        add(1, 20);
        assert_eq!(add(1, 21), (Added::Again, 1));
    }
}
