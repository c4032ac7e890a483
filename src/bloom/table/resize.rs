//! Growing and shrinking: a segment is enlarged, doubled, split or joined. Each change is planned first, and then made
//! as a whole.
//!
//! A table of fewer than 64 blocks is one segment, and grows by doubling the number of blocks. In a larger table all
//! segments have 64 blocks, and one segment after another is split, in the order of their numbers: segment `i` of 2^`d`
//! becomes the segments `i` and `i + 2^d`. A round of splits splits each of the 2^`d` segments once. A round begins
//! when 1.4 slots per bucket are in use. It ends when 1.6 slots are in use per bucket that the table had at the
//! beginning of the round. Rounds are this short because segments that are split have half the load of the others, and
//! uneven loads take more memory.
//!
//! A table shrinks in the reverse order. It shrinks when the slots in use are fewer than 0.7 of the number at which it
//! grew to its size. So adds and removals at the boundary do not make it grow and shrink in turn.

use smallvec::SmallVec;

use super::directory::SegmentChanges;
use super::lookup::{live_codes, remainder_bits};
use super::segment::{Segment, SlotList};
use super::size::{BLOCKS_LOG_MAX, SegmentShape, TableSize, USED_MAX};
use super::totals::EntrySums;
use super::{EntryKind, Table};
use crate::bloom::generation::Generation;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::outcome::ReserveError;
use crate::bloom::room::Room;
use crate::bloom::words::low_bits;

/// A demand for free slots in a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotDemand {
    /// The number of the segment.
    pub(super) segment: usize,
    /// How many more slots will come into use.
    pub(super) slots: usize,
    /// The current generation, if entries are timed.
    pub(super) now: Generation,
}

impl Table {
    /// Returns whether room must be made before `slots` more slots of a segment can be used: the segment is full, or
    /// the table has to grow.
    #[inline(always)]
    pub(super) fn needs_room(&self, segment: &Segment, slots: usize) -> bool {
        let used = self.directory.used().wrapping_add(slots as u64);
        let size = TableSize { segments: self.directory.len(), blocks_log: segment.blocks_log() };
        segment.used().wrapping_add(slots) > segment.used_max() || used > size.slots_before_growth()
    }

    /// Makes room for the demanded slots. This may split the segment, and an item of it may then belong to another
    /// segment. A segment of the largest size can still be full afterwards. O(slots of a segment).
    ///
    /// # Errors
    /// [`ReserveError`]. Nothing has changed.
    #[inline(never)]
    pub(super) fn make_room(&mut self, demand: SlotDemand, room: &Room<'_>) -> Result<(), ReserveError> {
        // After a refusal nothing grows in this command. But removing expired entries makes room without growth.
        if let Some(error) = room.refused()
            && let Some(segment) = self.directory.get(demand.segment)
            && self.needs_room(segment, demand.slots)
            && !(segment.stamp < demand.now && room.may_free())
        {
            return Err(error);
        }
        let planned = self.plan_room(demand, true, room);
        planned.and_then(|changes| Ok(changes.commit(self)?)).inspect_err(|error| room.refuse(*error))
    }

    /// Makes room for the demanded slots without splits. This is for adding entries of another table. If each such
    /// entry could cause a split, void entries would be copied again and again. O(slots of a segment).
    ///
    /// # Errors
    /// [`ReserveError`]. Nothing has changed.
    pub(super) fn enlarge(&mut self, demand: SlotDemand, room: &Room<'_>) -> Result<(), ReserveError> {
        Ok(self.plan_room(demand, false, room)?.commit(self)?)
    }

    fn plan_room(
        &self,
        demand: SlotDemand,
        may_grow: bool,
        room: &Room<'_>,
    ) -> Result<SegmentChanges, ReserveError> {
        let SlotDemand { segment: number, slots, .. } = demand;
        let mut changes = SegmentChanges::new(self);
        // Expired entries are removed first. They then no longer count as slots in use.
        if self.kind() == EntryKind::Timed {
            self.plan_expiry(&mut changes, demand)?;
        }
        let used = changes.used().saturating_add(slots as u64);
        let must_grow = may_grow && used > self.directory.size().slots_before_growth();
        let grown = if must_grow { Some(self.plan_growth(&mut changes, demand, room)?) } else { None };
        if grown != Some(number)
            && let Some(segment) = changes.segment(self, number)
            && segment.used().saturating_add(slots) > segment.used_max()
            // If the segment has the largest shape, there is no larger one.
            && let Some(shape) = segment.shape().resized_for(segment.used().saturating_add(slots))
        {
            room.check(changes.bytes_with(segment, &[shape]))?;
            let larger = segment.try_reshaped(shape)?;
            changes.replace(self, number, larger);
        }
        Ok(changes)
    }

    /// Grows to the size of a table with `slots` more slots in use. Entries of another table then keep as many bits as
    /// they would have in a table of the final size. O(segments).
    ///
    /// # Errors
    /// [`ReserveError`]. The table may have grown.
    pub fn grow_for(&mut self, slots: u64, now: Generation, room: &Room<'_>) -> Result<(), ReserveError> {
        // Splits copy void entries and so use more slots. The size is computed without these copies.
        let size = TableSize::for_slots(self.directory.used().saturating_add(slots));
        while self.directory.size() < size {
            self.grow(now, room)?;
        }
        Ok(())
    }

    /// Doubles the only segment, or splits the next one.
    ///
    /// # Errors
    /// [`ReserveError`]. Nothing has changed.
    pub(super) fn grow(&mut self, now: Generation, room: &Room<'_>) -> Result<(), ReserveError> {
        let mut changes = SegmentChanges::new(self);
        self.plan_growth(&mut changes, SlotDemand { segment: 0, slots: 0, now }, room)?;
        Ok(changes.commit(self)?)
    }

    /// Plans to double the only segment, or to split the next one. Each resulting segment has room for the demanded
    /// slots, if possible. Returns the number of the segment that is doubled or split.
    fn plan_growth(
        &self,
        changes: &mut SegmentChanges,
        SlotDemand { slots, now, .. }: SlotDemand,
        room: &Room<'_>,
    ) -> Result<usize, ReserveError> {
        let size = self.directory.size();
        let number = size.next_to_grow();
        let segment = changes.segment(self, number).ok_or(ReserveError::TooLong)?;
        let splits = size.blocks_log == BLOCKS_LOG_MAX;
        let (parts, blocks_log) =
            if splits { (2, size.blocks_log) } else { (1, size.blocks_log.wrapping_add(1)) };
        let width = self.schedule.slot_width(self.kind(), size.address_bits(number).wrapping_add(1));
        let shape = |used: usize| {
            SegmentShape::for_slots(blocks_log, width, used.saturating_add(slots))
                .or_else(|| SegmentShape::for_slots(blocks_log, width, used))
                .ok_or(ReserveError::TooLong)
        };
        let directory_bytes = if splits { self.directory.push_bytes() } else { 0 };
        let check = |shapes: &[SegmentShape]| {
            room.check(changes.bytes_with(segment, shapes).saturating_add(directory_bytes))
        };
        // The limit is checked before the work, with estimated shapes that are almost never too small.
        let likely = segment.used() / parts + if splits { 2 * segment.used().isqrt() } else { 0 };
        check(&SmallVec::<[_; 2]>::from_elem(shape(likely.min(segment.used()))?, parts))?;
        let mut sums = EntrySums::default();
        let (mut lists, mut shapes) = (SmallVec::<[_; 2]>::new(), SmallVec::<[_; 2]>::new());
        for part in 0..parts {
            let blocks = (part..segment.blocks()).step_by(parts);
            let halves = self.divided(segment, size.address_bits(number), blocks, now, &mut sums)?;
            shapes.push(shape(SlotList::total(&halves))?);
            lists.push(halves);
        }
        check(&shapes)?;
        let written = lists.iter().zip(shapes).map(|(halves, shape)| SlotList::write(halves, shape, now));
        let mut segments = written.collect::<Result<SmallVec<[_; 2]>, _>>()?.into_iter();
        changes.sums.apply(sums);
        segments.next().into_iter().for_each(|low| changes.replace(self, number, low));
        segments.next().into_iter().for_each(|high| changes.push(self, high));
        Ok(number)
    }

    /// Returns the live entries of some blocks of a segment as two lists: the entries whose remainder has a clear
    /// lowest bit, and the entries whose remainder has a set lowest bit. This bit becomes the highest bit of the block
    /// number. Adds the change of the sums over all entries to `sums`.
    fn divided(
        &self,
        segment: &Segment,
        address_bits: u32,
        blocks: impl Iterator<Item = usize>,
        now: Generation,
        sums: &mut EntrySums,
    ) -> Result<[SlotList; 2], OutOfMemory> {
        let entry_bits = self.entry_bits(segment);
        let new_entry_bits = self.schedule.remainder_bits(address_bits.wrapping_add(1)).wrapping_add(1);
        let live = if self.kind() == EntryKind::Timed { live_codes(segment.stamp, now) } else { u64::MAX };
        let (mut zeros, mut ones) =
            (SlotList::with_capacity(segment.used())?, SlotList::with_capacity(segment.used())?);
        for block in blocks {
            let mut last_bit = None;
            self.visit_slots(segment, block, |bucket, value, is_entry| {
                let (mut bit, mut slot) = (last_bit, value);
                // The slots of a count go to the list that their entry went to.
                if is_entry {
                    let (entry, code) = (value & low_bits(entry_bits), value >> (entry_bits & 63));
                    if live >> (code & 15) & 1 == 0 {
                        return sums.remove(address_bits, entry);
                    }
                    // A void entry or a saturated bucket belongs to both halves.
                    let (lowest, shorter) =
                        if entry <= 1 { (None, entry) } else { (Some(entry & 1), entry >> 1) };
                    sums.leftovers.count(shorter, 1);
                    (bit, slot) = (lowest, code.wrapping_shl(new_entry_bits) | shorter);
                    last_bit = bit;
                }
                if bit != Some(1) {
                    zeros.push(bucket, slot);
                }
                if bit != Some(0) {
                    ones.push(bucket, slot);
                }
            });
            zeros.end_block();
            ones.end_block();
        }
        Ok([zeros, ones])
    }

    /// Shrinks the table or the segment if that is due when `slots` slots of the segment become free. The caller frees
    /// them afterwards. Returns whether anything has changed. O(slots of a segment).
    ///
    /// # Errors
    /// [`OutOfMemory`]. Nothing has changed.
    pub(super) fn make_smaller(&mut self, number: usize, slots: usize) -> Result<bool, OutOfMemory> {
        let mut changes = SegmentChanges::new(self);
        if self.is_too_large(self.used_slots().saturating_sub(slots as u64)) {
            if !self.plan_join(&mut changes)? {
                return Ok(false);
            }
        } else {
            let Some(segment) = self.directory.get(number) else { return Ok(false) };
            let used = segment.used();
            let Some(shape) = segment.shape().reduced_for(used.saturating_sub(slots), used) else {
                return Ok(false);
            };
            changes.replace(self, number, segment.try_reshaped(shape)?);
        }
        changes.commit(self)?;
        Ok(true)
    }

    /// Returns whether the table should shrink with this number of slots in use.
    pub(super) fn is_too_large(&self, used: u64) -> bool {
        let size = self.directory.size();
        !self.is_loading()
            && size > self.schedule.initial_size()
            && size.before_growth().is_some_and(|smaller| used < smaller.slots_before_growth() / 10 * 7)
    }

    /// Plans to join the last segment with the one that it was split from, or to halve the number of blocks of the only
    /// segment. Remainders get a bit of the address back, and are cut to the length for the smaller table. Returns
    /// false, and plans nothing, if the result would be too full, which happens only if items are crafted.
    pub(super) fn plan_join(&self, changes: &mut SegmentChanges) -> Result<bool, OutOfMemory> {
        let size = self.directory.size();
        let Some(smaller) = size.before_growth() else { return Ok(false) };
        let (number, last) = (smaller.next_to_grow(), size.segments.wrapping_sub(1));
        let (Some(low), Some(high)) = (changes.segment(self, number), changes.segment(self, last)) else {
            return Ok(false);
        };
        let is_one = last == 0;
        let used = if is_one { low.used() } else { low.used().saturating_add(high.used()) };
        if !is_one && used > USED_MAX {
            return Ok(false);
        }
        let address_bits = smaller.address_bits(number);
        let longest = self.schedule.remainder_bits(address_bits);
        let (mut list, mut sums) = (SlotList::with_capacity(used)?, EntrySums::default());
        for block in 0..1usize << smaller.blocks_log {
            for bit in [0, 1] {
                // The segment and the block whose entries have `bit` as the next bit of the hash.
                let (segment, from) = if is_one {
                    (low, block | bit << smaller.blocks_log)
                } else {
                    (if block & 1 == 0 { low } else { high }, block >> 1 | bit << (BLOCKS_LOG_MAX - 1))
                };
                let entry_bits = self.entry_bits(segment);
                self.visit_slots(segment, from, |bucket, value, is_entry| {
                    if !is_entry {
                        return list.push(bucket, value);
                    }
                    let (entry, code) = (value & low_bits(entry_bits), value >> (entry_bits & 63));
                    sums.remove(address_bits.wrapping_add(1), entry);
                    // A saturated bucket becomes an entry that matches the items of its half only.
                    let entry = entry.max(1) << 1 | bit as u64;
                    let bits = remainder_bits(entry).min(longest);
                    let entry = 1 << bits | entry & low_bits(bits);
                    sums.add(address_bits, entry);
                    list.push(bucket, code << (longest + 1) | entry);
                });
            }
            list.end_merged_block();
        }
        let width = self.schedule.slot_width(self.kind(), address_bits);
        let shape = SegmentShape::for_slots(smaller.blocks_log, width, used.saturating_add(used / 16))
            .or_else(|| SegmentShape::for_slots(smaller.blocks_log, width, used))
            .ok_or(OutOfMemory)?;
        // If entries are timed, both segments were compacted in this generation or the one before. So the older stamp
        // gives the right generation for the codes of both.
        let joined = SlotList::write(&[list], shape, low.stamp.min(high.stamp))?;
        changes.replace(self, number, joined);
        if !is_one {
            changes.pop(self);
        }
        changes.sums.apply(sums);
        Ok(true)
    }

    /// Returns a segment of the entries for which `stays` returns true, with the same number of blocks and width of
    /// slots. `stays` gets the block and the value of each entry. `shape` returns the shape of the segment for a number
    /// of slots. O(slots).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn selected(
        &self,
        segment: &Segment,
        shape: impl FnOnce(usize) -> SegmentShape,
        stamp: Generation,
        mut stays: impl FnMut(usize, u64) -> bool,
    ) -> Result<Segment, OutOfMemory> {
        let mut list = SlotList::with_capacity(segment.used())?;
        for block in 0..segment.blocks() {
            let mut is_kept = false;
            self.visit_slots(segment, block, |bucket, value, is_entry| {
                if is_entry {
                    is_kept = stays(block, value);
                }
                if is_kept {
                    list.push(bucket, value);
                }
            });
            list.end_block();
        }
        let lists = [list];
        SlotList::write(&lists, shape(SlotList::total(&lists)), stamp)
    }
}
