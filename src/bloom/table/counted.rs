//! Counted entries: an item can be removed as often as it was added.
//!
//! An entry with a count of 1 is one slot. A larger count takes two more slots after the entry: a slot of zero, and a
//! slot with the count minus two. An add increases the count of an entry only if the entry has the longest remainder of
//! its segment. Otherwise it adds another entry, because a shorter entry matches more items. A removal takes from the
//! longest entry that matches, so it never removes the only entry of another item (Dayan, Bercea, Reviriego, Pagh,
//! "InfiniFilter", SIGMOD 2023).

use super::add::Addition;
use super::lookup::{CountReader, RUN_MAX, RunSlots, STEP_ITEMS, matches, remainder_bits};
use super::resize::SlotDemand;
use super::schedule::COUNTED_BASE_MIN;
use super::segment::Segment;
use super::size::{BLOCKS_LOG_MAX, USED_MAX};
use super::totals::{EntrySums, ItemCounts};
use super::{EntryKind, Table};
use crate::bloom::hash::ItemHash;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::outcome::{AddError, Added};
use crate::bloom::prefetch::{Prefetch, Task};
use crate::bloom::room::Room;
use crate::bloom::words::Select;

/// The largest count of an entry. The count minus two fits a slot of the shortest width.
pub const COUNT_MAX: u64 = (1 << (COUNTED_BASE_MIN + 1)) + 1;

/// A counted entry, with the index of its slot in its run.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedEntry {
    pub(super) index: usize,
    pub(super) entry: u64,
    pub(super) count: u64,
}

impl CountedEntry {
    /// Returns the entries of a run, in order.
    pub(super) fn all(slots: &[u64]) -> impl Iterator<Item = Self> + '_ {
        let mut counts = CountReader::default();
        slots.iter().enumerate().filter_map(move |(index, entry)| {
            let is_entry = counts.is_entry(EntryKind::Counted, *entry);
            let count = match slots.get(index.saturating_add(1)..) {
                Some([0, less_two, ..]) => less_two.saturating_add(2),
                _ => 1,
            };
            is_entry.then_some(Self { index, entry: *entry, count })
        })
    }

    /// Sets the count of the entry in the slots of its run. The count must be at least 1.
    pub(super) fn set_count(self, slots: &mut RunSlots, count: u64) {
        let index = self.index.saturating_add(1);
        match (self.count, count) {
            (1, 1) => {}
            (1, _) => slots.insert_many(index, [0, count.saturating_sub(2)]),
            (_, 1) => {
                slots.drain(index..index.saturating_add(2));
            }
            _ => {
                if let Some(less_two) = slots.get_mut(index.saturating_add(1)) {
                    *less_two = count.saturating_sub(2);
                }
            }
        }
    }
}

impl Table {
    /// Removes each item once, in order, from a table of counted entries. Calls `reply` for each item with whether the
    /// item was, or seemed to be, present. Stops when `reply` returns false. O(items). One removal in a few thousand
    /// also joins two segments.
    pub fn remove_each(
        &mut self,
        hashes: &[ItemHash],
        prefetch: impl Prefetch,
        mut reply: impl FnMut(Result<bool, OutOfMemory>) -> bool,
    ) {
        for step in hashes.chunks(STEP_ITEMS) {
            step.iter().for_each(|hash| self.prefetch_change(*hash, prefetch));
            for hash in step {
                if !reply(prefetch.run(Remove { table: self, hash: *hash })) {
                    return;
                }
            }
        }
    }

    /// Adds an item to a table of counted entries.
    pub(super) fn add_counted(
        &mut self,
        addition: Addition,
        room: &Room<'_>,
        select: impl Select,
    ) -> Result<Added, AddError> {
        let mut is_room_made = false;
        loop {
            let Some((address, segment)) = self.locate(addition.hash) else { return Ok(Added::Present) };
            let run = segment.run(&address, select);
            let mut slots = segment.slots_of(run);
            let before = slots.len();
            let longest = segment.width().wrapping_sub(1);
            let (mut matches_any, mut counting, mut counted) = (false, None, None::<CountedEntry>);
            for found in CountedEntry::all(&slots).filter(|found| matches(found.entry, address.key)) {
                matches_any = true;
                if remainder_bits(found.entry) == longest {
                    counting = Some(found);
                }
                if (2..COUNT_MAX).contains(&found.count)
                    && counted.is_none_or(|longest| longest.entry < found.entry)
                {
                    counted = Some(found);
                }
            }
            let mut more = match counting {
                Some(CountedEntry { count: COUNT_MAX.., .. }) => return Err(AddError::TooOften),
                Some(CountedEntry { count: 1, .. }) => 2,
                Some(_) => 0,
                None => 1,
            };
            if !matches_any {
                self.check_items(&addition)?;
            }
            if more > 0 {
                if before.saturating_add(more) > RUN_MAX || segment.is_overfull(more) {
                    // A shorter entry may count the item too, because a removal takes from any matching entry.
                    counting = Some(counted.ok_or(AddError::TooOften)?);
                    more = 0;
                }
                if more > 0 && !is_room_made && self.needs_room(segment, more) {
                    self.make_room(SlotDemand { segment: address.segment, slots: more, now: 0 }, room)
                        .map_err(AddError::CannotGrow)?;
                    // A split may have shortened the entries, so they are read again.
                    is_room_made = true;
                    continue;
                }
            }
            match counting {
                None => self.insert(&address, run, 0),
                Some(found) => {
                    found.set_count(&mut slots, found.count.wrapping_add(1));
                    self.replace_run(&address, run, before, &slots);
                }
            }
            if let ItemCounts::Counted { items, entries, .. } = &mut self.counts {
                *items = items.saturating_add(1);
                *entries = entries.saturating_add(counting.is_none().into());
            }
            return Ok(if matches_any { Added::Again } else { Added::New });
        }
    }

    /// Removes an item once. Returns whether it was, or seemed to be, present. O(1). One removal in a few thousand also
    /// joins two segments.
    ///
    /// # Errors
    /// [`OutOfMemory`]. Nothing has changed.
    #[inline(always)]
    pub(super) fn remove_counted(
        &mut self,
        hash: ItemHash,
        select: impl Select,
    ) -> Result<bool, OutOfMemory> {
        let mut is_smaller = false;
        loop {
            let Some((address, segment)) = self.locate(hash) else { return Ok(false) };
            let run = segment.run(&address, select);
            let mut slots = segment.slots_of(run);
            let before = slots.len();
            let matching = CountedEntry::all(&slots).filter(|found| matches(found.entry, address.key));
            let Some(found) = matching.max_by_key(|found| found.entry) else { return Ok(false) };
            if self.items(0) <= 1 {
                // Copies of void entries may be left in other buckets. They are removed with the last item.
                *self = self.try_emptied()?;
                return Ok(true);
            }
            let freed = if found.count <= 2 { found.count as usize } else { 0 };
            if !is_smaller && freed > 0 && self.make_smaller(address.segment, freed)? {
                // The entries may have moved or changed, so they are read again.
                is_smaller = true;
                continue;
            }
            if found.count > 1 {
                found.set_count(&mut slots, found.count.wrapping_sub(1));
            } else {
                slots.remove(found.index);
                let mut change = EntrySums::default();
                change.remove(address.address_bits, found.entry);
                self.apply(change);
            }
            self.replace_run(&address, run, before, &slots);
            let used = self.used_slots();
            if let ItemCounts::Counted { items, entries, .. } = &mut self.counts {
                *items = items.saturating_sub(1);
                // The counts of a crafted table may exceed its entries.
                *entries = entries.saturating_sub((found.count == 1).into()).min(*items).min(used);
            }
            return Ok(true);
        }
    }
}

impl Segment {
    /// Returns whether a segment of the largest shape cannot take `more` slots. This happens only if items are crafted.
    pub(super) fn is_overfull(&self, more: usize) -> bool {
        self.blocks_log() == BLOCKS_LOG_MAX && self.used().saturating_add(more) > USED_MAX
    }
}

struct Remove<'t> {
    table: &'t mut Table,
    hash: ItemHash,
}

impl Task for Remove<'_> {
    type Output = Result<bool, OutOfMemory>;

    #[inline(always)]
    fn run(self, select: impl Select) -> Self::Output {
        self.table.remove_counted(self.hash, select)
    }
}
