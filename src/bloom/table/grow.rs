//! Making room: a segment is laid out again, doubled or split before an entry is added.
//!
//! A table of less than [`BLOCKS_MAX`] blocks is one segment, which doubles. A larger one has segments of that many
//! blocks, and splits one of them after another, in the order of their numbers: segment `i` of 2^`d` becomes the
//! segments `i` and `i + 2^d`. The splits of a round follow each other quickly: the load grows from 1.4 to 1.6 slots
//! per bucket while the number of segments doubles. Otherwise segments that were split and those that were not would
//! have very different loads for a long time, and take more memory.

use super::add::weight;
use super::build::{rebuilt, sum, with_lengths};
use super::directory::Leftovers;
use super::lookup::{Counts, Place, depth, depth_of, live_codes, remainder_bits};
use super::plan::Plan;
use super::schedule::size_for;
use super::segment::{BLOCKS_LOG_MAX, BLOCKS_MAX, BUCKETS, SLOTS_MAX, Segment, Shape, low_bits};
use super::select::PortableSelect;
use super::{EntryKind, Table};
use crate::bloom::generation::Generation;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::outcome::ReserveError;
use crate::bloom::room::Room;

/// Buckets of a segment of the most blocks.
const SEGMENT_BUCKETS: u64 = (BUCKETS as u64) << BLOCKS_LOG_MAX;

/// Returns the most slots in use of a table of this many segments with 2^`blocks_log` blocks: 1.4 per bucket before a
/// round of splits. At its end it is 1.6 per bucket that there was before the round.
pub(super) fn used_before_growth(segments: usize, blocks_log: u32) -> u64 {
    match blocks_log {
        0 => SLOTS_MAX.into(),
        BLOCKS_LOG_MAX => {
            let before_round = 6u64.wrapping_shl(depth(segments));
            before_round.saturating_add(segments as u64).saturating_mul(SEGMENT_BUCKETS) / 5
        }
        _ => (u64::from(BUCKETS) << blocks_log) * 7 / 5,
    }
}

/// The division of the entries of a block between two: the lowest bit of each remainder becomes a bit of the address.
/// What has expired goes nowhere.
struct Division {
    kind: EntryKind,
    /// Bits of an entry in the source, and where they go.
    entry_bits: u32,
    new_entry_bits: u32,
    /// The codes of the generations that are live.
    live: u64,
}

impl Division {
    /// Passes the slots of a block to `take`: the bit of the address, or none for both; the bucket, and the value in
    /// its new place. Passes each entry to `note`, as it was and as it is; `None` if it has expired.
    #[inline(always)]
    fn visit(
        &self,
        segment: &Segment,
        block: usize,
        mut take: impl FnMut(Option<u64>, u32, u64),
        mut note: impl FnMut(u64, Option<u64>),
    ) {
        let (mut counts, mut last_bit) = (Counts::default(), None);
        segment.visit_block(block, |bucket, value| {
            if self.kind == EntryKind::Counted && !counts.is_entry(value) {
                // A count follows its entry.
                return take(last_bit, bucket, value);
            }
            let (entry, code) = (value & low_bits(self.entry_bits), value >> (self.entry_bits & 63));
            if self.live >> (code & 15) & 1 == 0 {
                return note(entry, None);
            }
            // An entry without a remainder is of both halves.
            let (bit, shorter) = if entry <= 1 { (None, entry) } else { (Some(entry & 1), entry >> 1) };
            last_bit = bit;
            note(entry, Some(shorter));
            take(bit, bucket, code.wrapping_shl(self.new_entry_bits) | shorter);
        });
    }
}

impl Table {
    /// Returns whether the table must make room before `slots` more slots of a segment can be used.
    #[inline(always)]
    pub(super) fn needs_room(&self, segment: &Segment, slots: usize) -> bool {
        let used = self.directory.used().wrapping_add(slots as u64);
        segment.used().wrapping_add(slots) > segment.used_max()
            || used > used_before_growth(self.directory.len(), segment.blocks_log())
    }

    /// Makes room for `slots` more slots in a segment; in the current generation, if entries are timed. Afterwards an
    /// item of the segment may be in another one. A segment that is as large as it may be can still be full. O(slots of
    /// a segment).
    ///
    /// # Errors
    /// [`ReserveError`]; nothing changed.
    #[inline(never)]
    pub(super) fn make_room(
        &mut self,
        number: usize,
        slots: usize,
        now: Generation,
        room: &Room<'_>,
    ) -> Result<(), ReserveError> {
        // After a refusal nothing grows any more. But expired entries make room without growth.
        if let Some(error) = room.refused()
            && let Some(segment) = self.directory.get(number)
            && self.needs_room(segment, slots)
            && !(segment.stamp < now && room.may_free())
        {
            return Err(error);
        }
        let planned = self.plan_room(number, slots, now, true, room);
        planned.and_then(|plan| Ok(plan.commit(self)?)).inspect_err(|error| room.refuse(*error))
    }

    /// Makes room for `slots` more slots in a segment, without splits. Entries of another table are added like this:
    /// a split for each of them would copy the void ones again and again. O(slots of a segment).
    ///
    /// # Errors
    /// [`ReserveError`]; nothing changed.
    pub(super) fn widen(
        &mut self,
        number: usize,
        slots: usize,
        now: Generation,
        room: &Room<'_>,
    ) -> Result<(), ReserveError> {
        Ok(self.plan_room(number, slots, now, false, room)?.commit(self)?)
    }

    fn plan_room(
        &self,
        number: usize,
        slots: usize,
        now: Generation,
        may_grow: bool,
        room: &Room<'_>,
    ) -> Result<Plan, ReserveError> {
        let mut plan = Plan::new(self);
        // Expired entries are freed first, and count no more.
        self.plan_expiry(&mut plan, number, slots, now)?;
        let Some(segment) = plan.segment(self, number) else { return Ok(plan) };
        let (count, blocks_log) = (self.directory.len(), segment.blocks_log());
        let must_grow =
            may_grow && plan.used.saturating_add(slots as u64) > used_before_growth(count, blocks_log);
        let divided = if must_grow { Some(self.plan_growth(&mut plan, slots, now, room)?) } else { None };
        if divided != Some(number)
            && let Some(segment) = plan.segment(self, number)
            && segment.used().saturating_add(slots) > segment.used_max()
            // Without a shape, the segment has the largest one.
            && let Some(shape) = segment.shape_for(segment.used().saturating_add(slots))
        {
            room.check(plan.bytes_with(segment, &[shape]))?;
            let larger = rebuilt(segment, shape)?;
            plan.replace(self, number, larger);
        }
        Ok(plan)
    }

    /// Grows to the size of a table with this many more slots in use, so that entries of another table need not be cut
    /// to the length of remainders in a smaller one. O(segments).
    ///
    /// # Errors
    /// [`ReserveError`]; the table may have grown.
    pub fn grow_for(&mut self, slots: u64, now: Generation, room: &Room<'_>) -> Result<(), ReserveError> {
        let (segments, blocks_log) = size_for(self.directory.used().saturating_add(slots));
        // Splits copy void entries, so the size is decided first.
        while self.segment_count() < segments
            || self.directory.get(0).is_some_and(|segment| segment.blocks_log() < blocks_log)
        {
            self.grow(now, room)?;
        }
        Ok(())
    }

    /// Doubles the only segment, or splits the next one.
    ///
    /// # Errors
    /// [`ReserveError`]; nothing changed.
    pub(super) fn grow(&mut self, now: Generation, room: &Room<'_>) -> Result<(), ReserveError> {
        let mut plan = Plan::new(self);
        self.plan_growth(&mut plan, 0, now, room)?;
        Ok(plan.commit(self)?)
    }

    /// Returns the number of segments and the logarithm of their blocks.
    pub(super) fn size(&self) -> (usize, u32) {
        (self.directory.len(), self.directory.get(0).map_or(0, Segment::blocks_log))
    }

    /// Plans to double the only segment, or to split the next one.
    fn plan_growth(
        &self,
        plan: &mut Plan,
        slots: usize,
        now: Generation,
        room: &Room<'_>,
    ) -> Result<usize, ReserveError> {
        let number = self.next_to_grow();
        if self.directory.get(0).map_or(0, Segment::blocks_log) < BLOCKS_LOG_MAX {
            let [doubled] = self.plan_division::<1>(plan, number, (slots, now), room)?;
            plan.replace(self, number, doubled);
        } else {
            let [low, high] = self.plan_division::<2>(plan, number, (slots, now), room)?;
            plan.replace(self, number, low);
            plan.push(self, high);
        }
        Ok(number)
    }

    /// Returns the number of the segment that is doubled or split next.
    fn next_to_grow(&self) -> usize {
        let count = self.directory.len();
        count.wrapping_sub(1 << depth(count))
    }

    /// Returns the entries of a segment in twice as many blocks: of one segment, or of two. Each has `slots` more slots
    /// if that is possible.
    fn plan_division<const N: usize>(
        &self,
        plan: &mut Plan,
        number: usize,
        (slots, now): (usize, Generation),
        room: &Room<'_>,
    ) -> Result<[Segment; N], ReserveError> {
        let segment = plan.segment(self, number).ok_or(ReserveError::TooLong)?;
        let address_bits = depth_of(self.directory.len(), number).wrapping_add(segment.blocks_log());
        let blocks_log = if N == 1 { segment.blocks_log().wrapping_add(1) } else { segment.blocks_log() };
        let new_entry_bits = self.schedule.remainder_bits(address_bits.wrapping_add(1)).wrapping_add(1);
        let width = new_entry_bits.wrapping_add(self.kind().generation_bits());
        let shape = |used: usize| {
            Shape::for_slots(blocks_log, width, used.saturating_add(slots))
                .or_else(|| Shape::for_slots(blocks_log, width, used))
                .ok_or(ReserveError::TooLong)
        };
        let directory_bytes = if N == 1 { 0 } else { self.directory.push_bytes() };
        let check = |plan: &Plan, shapes: &[Shape; N]| {
            room.check(plan.bytes_with(segment, shapes).saturating_add(directory_bytes))
        };
        // The room is checked before the work is done, with shapes that are almost never too small.
        let likely = segment.used() / N + if N == 1 { 0 } else { 2 * segment.used().isqrt() };
        check(plan, &[shape(likely.min(segment.used()))?; N])?;
        let division = Division {
            kind: self.kind(),
            entry_bits: self.entry_bits(segment),
            new_entry_bits,
            live: if self.kind() == EntryKind::Timed { live_codes(segment.stamp, now) } else { u64::MAX },
        };
        // Where the entries of a block go whose next bit is this one.
        let target = |block: usize, bit: usize| {
            let address = block | bit << segment.blocks_log();
            if N == 1 { (0, address) } else { (address & 1, address >> 1) }
        };
        let (mut lengths, mut expired, mut leftovers) = ([[0; BLOCKS_MAX]; N], 0u128, Leftovers::default());
        let mut halves = [Vec::new(), Vec::new()];
        for half in &mut halves {
            half.try_reserve_exact(segment.used()).map_err(|_| OutOfMemory)?;
        }
        for block in 0..segment.blocks() {
            let before = halves.each_ref().map(Vec::len);
            let write = |bit: Option<u64>, bucket: u32, value: u64| {
                let [zeros, ones] = &mut halves;
                // An entry without a bit has a copy in each half.
                if bit != Some(1) {
                    zeros.push((bucket as u8, value));
                }
                if bit != Some(0) {
                    ones.push((bucket as u8, value));
                }
            };
            division.visit(segment, block, write, |entry, shorter| match shorter {
                Some(shorter) => leftovers.count(shorter, 1),
                None => {
                    leftovers.count(entry, u64::MAX);
                    expired = expired.wrapping_add(weight(address_bits, remainder_bits(entry)));
                }
            });
            for (bit, (half, before)) in halves.iter().zip(before).enumerate() {
                let (part, block) = target(block, bit);
                if let Some(length) = lengths.get_mut(part).and_then(|lengths| lengths.get_mut(block)) {
                    *length = half.len().wrapping_sub(before) as u16;
                }
            }
        }
        let mut shapes = [Shape::default(); N];
        for (shape_of, lengths) in shapes.iter_mut().zip(&lengths) {
            *shape_of = shape(sum(lengths))?;
        }
        check(plan, &shapes)?;
        let mut made = shapes.iter().zip(&lengths).map(|(shape, lengths)| with_lengths(*shape, lengths));
        let made = [(); N].map(|()| made.next().unwrap_or(Err(OutOfMemory)));
        if made.iter().any(Result::is_err) {
            return Err(ReserveError::OutOfMemory);
        }
        let mut parts = made.map(Result::unwrap_or_default);
        let mut left = halves.each_ref().map(Vec::as_slice);
        for block in 0..segment.blocks() {
            for (bit, left) in left.iter_mut().enumerate() {
                let (part, block) = target(block, bit);
                let length = lengths.get(part).and_then(|lengths| lengths.get(block)).copied().unwrap_or(0);
                let (here, after) = left.split_at_checked(length.into()).unwrap_or_default();
                if let Some(part) = parts.get_mut(part) {
                    part.write_block(block, here);
                }
                *left = after;
            }
        }
        parts.iter_mut().for_each(|part| part.stamp = now);
        plan.mass = plan.mass.wrapping_sub(expired);
        plan.leftovers.add(leftovers);
        Ok(parts)
    }

    /// Makes every item of a bucket present: one slot of this code takes the place of its entries.
    pub(super) fn saturate_bucket(&mut self, place: &Place, code: u64) {
        let generation_bits = self.kind().generation_bits();
        let Some(segment) = self.directory.get_mut(place.segment) else { return };
        let entry_bits = segment.width().wrapping_sub(generation_bits);
        let start = segment.run(place, PortableSelect).start;
        let (mut slots, mut lost, mut leftovers) = (0u64, 0u128, Leftovers::default());
        leftovers.count(0, 1);
        segment.visit_run(start, |_, value| {
            let entry = value & low_bits(entry_bits);
            slots = slots.wrapping_add(1);
            lost = lost.wrapping_add(weight(place.address_bits, remainder_bits(entry)));
            leftovers.count(entry, u64::MAX);
            true
        });
        for _ in 1..slots {
            segment.remove_first(place.block, place.bucket, start);
        }
        segment.set_slot(start, code.wrapping_shl(entry_bits));
        self.directory.count_freed(slots.saturating_sub(1));
        self.directory.count_leftovers(leftovers);
        self.set_mass(self.mass().wrapping_sub(lost).wrapping_add(weight(place.address_bits, 0)));
    }

    /// Saturates the buckets of the fullest block of a segment that is full though it is as large as it may be. That
    /// happens only to items that were crafted.
    #[cold]
    pub(super) fn saturate_fullest_block(&mut self, place: &Place, code: u64) {
        let Some(segment) = self.directory.get(place.segment) else { return };
        let Some(block) = (0..segment.blocks()).max_by_key(|block| segment.length(*block)) else { return };
        let occupied = segment.header(block).occupied;
        for bucket in (0..BUCKETS).filter(|bucket| occupied >> bucket & 1 == 1) {
            self.saturate_bucket(&Place { block, bucket, ..*place }, code);
        }
    }
}
