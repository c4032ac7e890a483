//! Counted entries: an item can be removed as often as it was added.
//!
//! An entry that counts once is one slot. One that counts more is followed by a slot of zero and one with its count
//! less two. An add counts an entry only if that has the longest remainder of its segment, and adds another entry
//! otherwise: a shorter one stands for more items. A removal takes from the longest entry that matches, so it never
//! removes the only entry of another item (Dayan, Bercea, Reviriego, Pagh, "InfiniFilter", SIGMOD 2023).

use smallvec::SmallVec;

use super::add::{Addition, RUN_MAX};
use super::lookup::{Counts, Place, Run, matches, remainder_bits};
use super::schedule::COUNTED_BASE_MIN;
use super::segment::{BLOCKS_LOG_MAX, Segment, USED_MAX};
use super::select::Select;
use super::{Table, Tally};
use crate::bloom::hash::ItemHash;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::outcome::{AddError, Added};
use crate::bloom::room::Room;

/// Most that an entry counts: its count less two fits a slot of the shortest remainders.
pub const COUNT_MAX: u64 = (1 << (COUNTED_BASE_MIN + 1)) + 1;

/// The slots of a run.
pub(super) type Values = SmallVec<[u64; RUN_MAX as usize + 1]>;

/// An entry of a run, by the index of its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) index: usize,
    pub(super) entry: u64,
    pub(super) count: u64,
}

impl Found {
    /// Returns the entries of a run, in order.
    pub(super) fn all(values: &[u64]) -> impl Iterator<Item = Self> + '_ {
        let mut counts = Counts::default();
        values.iter().enumerate().filter_map(move |(index, entry)| {
            let is_entry = counts.is_entry(*entry);
            let count = match values.get(index.saturating_add(1)..) {
                Some([0, less_two, ..]) => less_two.saturating_add(2),
                _ => 1,
            };
            is_entry.then_some(Self { index, entry: *entry, count })
        })
    }

    /// Sets the count of the entry, which must be at least 1, in the slots of its run.
    pub(super) fn set_count(self, values: &mut Values, count: u64) {
        let index = self.index.saturating_add(1);
        match (self.count, count) {
            (1, 1) => {}
            (1, _) => values.insert_many(index, [0, count.saturating_sub(2)]),
            (_, 1) => {
                values.drain(index..index.saturating_add(2));
            }
            _ => {
                if let Some(less_two) = values.get_mut(index.saturating_add(1)) {
                    *less_two = count.saturating_sub(2);
                }
            }
        }
    }
}

impl Table {
    /// Adds an item to counted entries.
    pub(super) fn add_counted(
        &mut self,
        addition: Addition,
        room: &Room<'_>,
        select: impl Select,
    ) -> Result<Added, AddError> {
        let mut is_room_made = false;
        loop {
            let Some((place, segment)) = self.locate(addition.hash) else { return Ok(Added::Present) };
            let run = segment.run(&place, select);
            let mut values = segment.values(run);
            let longest = segment.width().wrapping_sub(1);
            let (mut matches_any, mut counting, mut counted) = (false, None, None::<Found>);
            for found in Found::all(&values).filter(|found| matches(found.entry, place.key)) {
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
                Some(Found { count: COUNT_MAX.., .. }) => return Err(AddError::TooOften),
                Some(Found { count: 1, .. }) => 2,
                Some(_) => 0,
                None => 1,
            };
            if !matches_any {
                self.check_items(&addition)?;
            }
            if more > 0 {
                if values.len().saturating_add(more) > RUN_MAX as usize || segment.is_overfull(more) {
                    // A shorter entry can count the item as well: a removal takes from any entry that matches it.
                    counting = Some(counted.ok_or(AddError::TooOften)?);
                    more = 0;
                }
                if more > 0 && !is_room_made && self.needs_room(segment, more) {
                    self.make_room(place.segment, more, 0, room).map_err(AddError::CannotGrow)?;
                    // Entries may have become shorter.
                    is_room_made = true;
                    continue;
                }
            }
            match counting {
                None => self.insert(&place, run, 0),
                Some(found) => {
                    found.set_count(&mut values, found.count.wrapping_add(1));
                    self.rewrite_run(&place, run, &values);
                }
            }
            if let Tally::Counted { items, entries, .. } = &mut self.tally {
                *items = items.saturating_add(1);
                *entries = entries.saturating_add(counting.is_none().into());
            }
            return Ok(if matches_any { Added::Again } else { Added::New });
        }
    }

    /// Removes an item once. Returns whether it was present, or a false positive was. O(1); one removal in some
    /// thousand also joins two segments.
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing changed.
    #[inline(always)]
    pub(super) fn remove_counted(
        &mut self,
        hash: ItemHash,
        select: impl Select,
    ) -> Result<bool, OutOfMemory> {
        let mut is_smaller = false;
        loop {
            let Some((place, segment)) = self.locate(hash) else { return Ok(false) };
            let run = segment.run(&place, select);
            let mut values = segment.values(run);
            let matching = Found::all(&values).filter(|found| matches(found.entry, place.key));
            let Some(found) = matching.max_by_key(|found| found.entry) else { return Ok(false) };
            if self.items(0) <= 1 {
                // What void entries have left in other segments goes with the last item.
                *self = self.try_emptied()?;
                return Ok(true);
            }
            let slots = match found.count {
                1 => 1,
                2 => 2,
                _ => 0,
            };
            if !is_smaller && slots > 0 && self.make_smaller(place.segment, slots)? {
                // Entries may have become longer.
                is_smaller = true;
                continue;
            }
            if found.count > 1 {
                found.set_count(&mut values, found.count.wrapping_sub(1));
            } else {
                values.remove(found.index);
                self.lose(place.address_bits, remainder_bits(found.entry));
                self.count_leftover(found.entry, u64::MAX);
            }
            self.rewrite_run(&place, run, &values);
            let used = self.used_slots();
            if let Tally::Counted { items, entries, .. } = &mut self.tally {
                *items = items.saturating_sub(1);
                // A crafted table may count more entries than it has.
                *entries = entries.saturating_sub((found.count == 1).into()).min(*items).min(used);
            }
            return Ok(true);
        }
    }

    /// Replaces the slots of a run. There must be room for them.
    pub(super) fn rewrite_run(&mut self, place: &Place, run: Run, values: &[u64]) {
        let Some(segment) = self.directory.get_mut(place.segment) else { return };
        let before = segment.used();
        let slots = segment.values(run).len();
        for _ in values.len()..slots {
            segment.remove_first(place.block, place.bucket, run.start);
        }
        for slots in slots..values.len() {
            segment.insert(place.block, place.bucket, run.start, 0, slots == 0);
        }
        let mut at = run.start;
        for value in values {
            segment.set_slot(at, *value);
            at = segment.next(at);
        }
        let after = segment.used();
        self.directory.count_used((after as u64).wrapping_sub(before as u64));
    }
}

impl Segment {
    /// Returns the slots of a run.
    pub(super) fn values(&self, run: Run) -> Values {
        let mut values = Values::new();
        if !run.is_empty {
            self.visit_run(run.start, |_, value| {
                values.push(value);
                true
            });
        }
        values
    }

    /// Returns whether a segment of the largest shape has too many slots in use for `more`, which happens only to items
    /// that were crafted.
    pub(super) fn is_overfull(&self, more: usize) -> bool {
        self.blocks_log() == BLOCKS_LOG_MAX && self.used().saturating_add(more) > USED_MAX
    }
}
