//! Adding items: the common part for all kinds of entries, and the rules for plain entries.

use super::lookup::{BucketAddress, BucketRun, RUN_MAX, STEP_ITEMS, matches};
use super::resize::SlotDemand;
use super::size::BUCKETS;
use super::totals::{EntrySums, ItemCounts, weight};
use super::{EntryKind, Table};
use crate::bloom::generation::Generation;
use crate::bloom::group::{ItemSet, members, take_first};
use crate::bloom::hash::ItemHash;
use crate::bloom::outcome::{AddError, Added, ReserveError};
use crate::bloom::prefetch::{Prefetch, Task};
use crate::bloom::room::Room;
use crate::bloom::words::{PortableSelect, Select, low_bits};

/// An item to add, and the rules for adding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The hash of the item.
    pub hash: ItemHash,
    /// The generation of the entry, if entries are timed. It is at most `now`, and live at `now`.
    pub generation: Generation,
    /// The current generation, if entries are timed.
    pub now: Generation,
    /// Whether a live entry of the item keeps its generation instead of getting a newer one.
    pub keeps_generation: bool,
    /// The largest value that [`Table::distinct_items`] may reach. Plain entries ignore it.
    pub most_items: u64,
}

/// The outcomes of adding the items of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupOutcomes {
    /// Items that are [`Added::New`].
    pub new: ItemSet,
    /// Items that are [`Added::Again`].
    pub again: ItemSet,
    /// The index of the first item that was refused, and the reason. The items after it were not added.
    pub refused: Option<(u32, AddError)>,
}

impl Table {
    /// Adds an item. O(1). One add in a few thousand also splits a segment.
    ///
    /// # Errors
    /// [`AddError`].
    #[inline(always)]
    pub fn add(
        &mut self,
        addition: Addition,
        room: &Room<'_>,
        prefetch: impl Prefetch,
    ) -> Result<Added, AddError> {
        self.prefetch_change(addition.hash, prefetch);
        prefetch.run(Add { table: self, addition, room })
    }

    /// Adds the `wanted` items in order, until one is refused. The hash of `addition` is ignored. O(items).
    pub fn add_each(
        &mut self,
        hashes: &[ItemHash],
        wanted: ItemSet,
        addition: Addition,
        room: &Room<'_>,
        prefetch: impl Prefetch,
    ) -> GroupOutcomes {
        let (mut rest, mut outcomes) = (wanted, GroupOutcomes::default());
        while rest != 0 && outcomes.refused.is_none() {
            let step = take_first(&mut rest, STEP_ITEMS);
            members(hashes, step).for_each(|(_, hash)| self.prefetch_change(hash, prefetch));
            let of_step = prefetch.run(AddEach { table: self, hashes, wanted: step, addition, room });
            outcomes.new |= of_step.new;
            outcomes.again |= of_step.again;
            outcomes.refused = of_step.refused;
        }
        outcomes
    }

    #[inline(always)]
    fn add_item(
        &mut self,
        addition: Addition,
        room: &Room<'_>,
        select: impl Select,
    ) -> Result<Added, AddError> {
        match self.kind() {
            EntryKind::Plain => self.add_plain(addition.hash, room, select),
            EntryKind::Counted => self.add_counted(addition, room, select),
            EntryKind::Timed => self.add_timed(addition, room, select),
        }
    }

    #[inline(always)]
    fn add_plain(&mut self, hash: ItemHash, room: &Room<'_>, select: impl Select) -> Result<Added, AddError> {
        let Some((address, segment)) = self.locate(hash) else { return Ok(Added::Present) };
        let run = segment.run(&address, select);
        let mut slots = 0usize;
        if !run.is_empty {
            let mut is_present = false;
            segment.scan(run.start, |slot| {
                is_present = matches(slot, address.key);
                slots = slots.wrapping_add(1);
                !is_present
            });
            if is_present {
                return Ok(Added::Present);
            }
        }
        if slots >= RUN_MAX {
            self.saturate_bucket(&address, 0);
        } else if !self.needs_room(segment, 1) {
            self.insert(&address, run, 0);
        } else {
            self.add_after_making_room(hash, room).map_err(AddError::CannotGrow)?;
        }
        if let ItemCounts::Plain { items, .. } = &mut self.counts {
            *items = items.saturating_add(1);
        }
        Ok(Added::New)
    }

    /// Makes room for the first entry of an item, and adds it.
    #[inline(never)]
    fn add_after_making_room(&mut self, hash: ItemHash, room: &Room<'_>) -> Result<(), ReserveError> {
        let Some((address, _)) = self.locate(hash) else { return Ok(()) };
        self.make_room(SlotDemand { segment: address.segment, slots: 1, now: 0 }, room)?;
        if let Some((address, segment)) = self.locate(hash) {
            if segment.used() >= segment.used_max() {
                self.saturate_fullest_block(&address, 0);
            }
            self.insert_unless_saturated(hash, 0);
        }
        Ok(())
    }

    /// Adds an entry of an item unless its bucket has become saturated. The segment must have a free slot.
    pub(super) fn insert_unless_saturated(&mut self, hash: ItemHash, code: u64) {
        let Some((address, segment)) = self.locate(hash) else { return };
        let run = segment.run(&address, PortableSelect);
        let entry_mask = low_bits(self.entry_bits(segment));
        if run.is_empty || !segment.run_has(run.start, |value| value & entry_mask == 0) {
            self.insert(&address, run, code);
        }
    }

    /// Adds an entry with the longest remainder. The segment must have a free slot. `code` is the generation of the
    /// entry modulo 16; 0 if entries are not timed.
    #[inline(always)]
    pub(super) fn insert(&mut self, address: &BucketAddress, run: BucketRun, code: u64) {
        let generation_bits = self.kind().generation_bits();
        let Some(segment) = self.directory.get_mut(address.segment) else { return };
        let bits = segment.width().wrapping_sub(generation_bits).wrapping_sub(1);
        let slot = (code << 1 | 1) << (bits & 63) | address.key & low_bits(bits);
        segment.insert(address.block, address.bucket, run.start, slot, run.is_empty);
        self.directory.count_used(1);
        self.set_weight(self.weight().wrapping_add(weight(address.address_bits, bits)));
    }

    /// Replaces all slots of a run by `slots`. `before` is the present number of slots of the run. The segment must
    /// have free slots for the further ones.
    pub(super) fn replace_run(
        &mut self,
        address: &BucketAddress,
        run: BucketRun,
        before: usize,
        slots: &[u64],
    ) {
        let Some(segment) = self.directory.get_mut(address.segment) else { return };
        for _ in slots.len()..before {
            segment.remove_first(address.block, address.bucket, run.start);
        }
        for slot in before..slots.len() {
            segment.insert(address.block, address.bucket, run.start, 0, slot == 0);
        }
        let mut at = run.start;
        for value in slots {
            segment.set_slot(at, *value);
            at = segment.next(at);
        }
        self.directory.count_used((slots.len() as u64).wrapping_sub(before as u64));
    }

    /// Makes a bucket saturated: one slot that matches every item replaces its entries. `code` is the generation of
    /// that slot modulo 16; 0 if entries are not timed.
    pub(super) fn saturate_bucket(&mut self, address: &BucketAddress, code: u64) {
        let Some(segment) = self.directory.get(address.segment) else { return };
        let (run, entry_bits) = (segment.run(address, PortableSelect), self.entry_bits(segment));
        let (slots, mut change) = (segment.slots_of(run), EntrySums::default());
        for slot in &slots {
            change.remove(address.address_bits, slot & low_bits(entry_bits));
        }
        change.add(address.address_bits, 0);
        self.replace_run(address, run, slots.len(), &[code.wrapping_shl(entry_bits)]);
        self.apply(change);
    }

    /// Makes every occupied bucket of the fullest block of a segment saturated. This frees slots in a segment of the
    /// largest size that is full, which happens only if items are crafted.
    #[cold]
    pub(super) fn saturate_fullest_block(&mut self, address: &BucketAddress, code: u64) {
        let Some(segment) = self.directory.get(address.segment) else { return };
        let Some(block) = (0..segment.blocks()).max_by_key(|block| segment.length(*block)) else { return };
        let header = segment.header(block);
        for bucket in (0..BUCKETS).filter(|bucket| header.is_occupied(*bucket)) {
            self.saturate_bucket(&BucketAddress { block, bucket, ..*address }, code);
        }
    }

    /// Checks that a table of counted or timed entries may get one more item.
    ///
    /// # Errors
    /// [`AddError::Full`].
    #[inline(always)]
    pub(super) fn check_items(&self, addition: &Addition) -> Result<(), AddError> {
        let is_full =
            addition.most_items != u64::MAX && self.distinct_items(addition.now) >= addition.most_items;
        if is_full { Err(AddError::Full) } else { Ok(()) }
    }
}

struct Add<'t, 'l> {
    table: &'t mut Table,
    addition: Addition,
    room: &'t Room<'l>,
}

impl Task for Add<'_, '_> {
    type Output = Result<Added, AddError>;

    #[inline(always)]
    fn run(self, select: impl Select) -> Self::Output {
        self.table.add_item(self.addition, self.room, select)
    }
}

struct AddEach<'t, 'l> {
    table: &'t mut Table,
    hashes: &'t [ItemHash],
    wanted: ItemSet,
    addition: Addition,
    room: &'t Room<'l>,
}

impl Task for AddEach<'_, '_> {
    type Output = GroupOutcomes;

    #[inline(always)]
    fn run(self, select: impl Select) -> GroupOutcomes {
        let mut outcomes = GroupOutcomes::default();
        for (index, hash) in members(self.hashes, self.wanted) {
            match self.table.add_item(Addition { hash, ..self.addition }, self.room, select) {
                Ok(outcome) => {
                    outcomes.new |= ItemSet::from(outcome == Added::New).wrapping_shl(index);
                    outcomes.again |= ItemSet::from(outcome == Added::Again).wrapping_shl(index);
                }
                Err(error) => {
                    outcomes.refused = Some((index, error));
                    break;
                }
            }
        }
        outcomes
    }
}
