//! Writing segments: overwriting, inserting and removing a slot in place, and writing a segment as a whole.
//!
//! A rewrite collects the slots of a new segment in a [`SlotList`], in the order of their blocks and buckets. Their
//! number determines the shape of the segment. Then they are written to it. So all memory is allocated before the table
//! changes.

use smallvec::SmallVec;

use super::read::{BucketRun, Header, OFFSET_BITS, Segment, SlotIndex};
use crate::memory::OutOfMemory;
use crate::table::size::{BLOCKS_MAX, BUCKETS, RUN_ENDS_AT, SegmentShape};
use crate::words::{bits_at, copy_bits, low_bits_128, set_bits, shift_down, shift_up};
use crate::work::{count_segment, count_slots};

/// A segment or a block would have more slots in use than it may have. Honest tables never need so many: a table grows
/// before, and buckets become saturated. The entries of crafted items may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooFull;

/// Why a segment could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RewriteError {
    /// An allocation failed.
    OutOfMemory,
    /// The counted entries do not fit, which happens only if they are crafted. Other entries always fit, because
    /// buckets become saturated.
    TooFull,
}

impl From<OutOfMemory> for RewriteError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl From<TooFull> for RewriteError {
    fn from(_: TooFull) -> Self {
        Self::TooFull
    }
}

/// The number of slots of each block's runs.
type Lengths = [u16; BLOCKS_MAX];

/// The slots for a new segment, in the order of their blocks and buckets.
#[derive(Debug)]
pub(crate) struct SlotList {
    /// The buckets and values of the slots.
    slots: Vec<(u8, u64)>,
    lengths: Lengths,
    /// How many slots of the list belong to each block that is copied.
    listed: Lengths,
    /// The number of blocks that are complete.
    blocks: usize,
    /// The number of slots of the complete blocks.
    complete: usize,
    /// The blocks that are copied from a segment: a bit per block. The list has the slots that the copy leaves out, with
    /// their index in the runs of the block instead of their value.
    copied: u64,
}

const _: () = assert!(BLOCKS_MAX == 64);

impl SlotList {
    /// Returns an empty list.
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            lengths: [0; BLOCKS_MAX],
            listed: [0; BLOCKS_MAX],
            blocks: 0,
            complete: 0,
            copied: 0,
        }
    }

    /// Removes all slots. The memory stays.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        (self.lengths, self.blocks, self.complete, self.copied) = ([0; BLOCKS_MAX], 0, 0, 0);
    }

    /// Allocates memory for more slots.
    #[inline(always)]
    pub(crate) fn try_reserve(&mut self, slots: usize) -> Result<(), OutOfMemory> {
        self.slots.try_reserve(slots).map_err(|_| OutOfMemory)
    }

    /// Returns the number of slots of the complete blocks.
    pub(crate) fn len(&self) -> usize {
        self.lengths.iter().map(|length| usize::from(*length)).sum()
    }

    /// Returns whether any block is copied from a segment.
    pub(crate) const fn has_copies(&self) -> bool {
        self.copied != 0
    }

    /// Appends a slot to the current block, the one that is not complete yet. Memory for it must have been reserved: a
    /// failed allocation here would end the server.
    #[inline(always)]
    pub(crate) fn push(&mut self, bucket: u32, value: u64) {
        debug_assert!(self.slots.len() < self.slots.capacity(), "memory is reserved");
        self.slots.push((bucket as u8, value));
    }

    /// Completes the current block.
    #[inline(always)]
    pub(crate) fn end_block(&mut self) -> Result<(), TooFull> {
        let slots = u16::try_from(self.slots.len().wrapping_sub(self.complete)).map_err(|_| TooFull)?;
        *self.lengths.get_mut(self.blocks).ok_or(TooFull)? = slots;
        self.blocks = self.blocks.wrapping_add(1);
        self.complete = self.slots.len();
        Ok(())
    }

    /// Removes the slots of the current block.
    pub(crate) fn clear_block(&mut self) {
        self.slots.truncate(self.complete);
    }

    /// Appends the blocks of another list. None of them may be copied from a segment.
    pub(crate) fn append(&mut self, other: &Self) -> Result<(), RewriteError> {
        self.try_reserve(other.slots.len())?;
        self.slots.extend_from_slice(&other.slots);
        let blocks = self.blocks.wrapping_add(other.blocks);
        let free = self.lengths.get_mut(self.blocks..blocks).ok_or(TooFull)?;
        free.copy_from_slice(other.lengths.get(..other.blocks).ok_or(TooFull)?);
        self.blocks = blocks;
        self.complete = self.slots.len();
        Ok(())
    }

    /// Completes the current block. It gets the runs of the same block of a segment, without the slots of the list. They
    /// take this number of slots.
    #[inline(always)]
    pub(crate) fn copy_block(&mut self, slots: u16) -> Result<(), TooFull> {
        self.copied |= 1u64.wrapping_shl(self.blocks as u32);
        self.end_block()?;
        let last = self.blocks.wrapping_sub(1);
        if let (Some(length), Some(listed)) = (self.lengths.get_mut(last), self.listed.get_mut(last)) {
            *listed = std::mem::replace(length, slots);
        }
        Ok(())
    }

    /// Replaces the slots of each bucket of the block that has most of them by one slot: `unite` returns it for the
    /// values of the slots before. Returns false if every bucket of that block has one slot already. No block may be
    /// copied. O(slots).
    pub(crate) fn unite_fullest_block(&mut self, mut unite: impl FnMut(&[(u8, u64)]) -> u64) -> bool {
        let Some(block) = (0..self.blocks).max_by_key(|block| self.lengths.get(*block)) else { return false };
        let lengths = self.lengths.get(..block).unwrap_or_default();
        let start = lengths.iter().map(|length| usize::from(*length)).sum::<usize>();
        let length = usize::from(self.lengths.get(block).copied().unwrap_or(0));
        let slots = self.slots.get(start..start.saturating_add(length)).unwrap_or_default();
        let same_bucket = |one: &(u8, u64), other: &(u8, u64)| one.0 == other.0;
        let buckets = slots.chunk_by(same_bucket).filter_map(|run| Some((run.first()?.0, unite(run))));
        let united: SmallVec<[_; BUCKETS as usize]> = buckets.collect();
        if let Some(length) = self.lengths.get_mut(block) {
            *length = united.len() as u16;
        }
        let is_shorter = united.len() < length;
        self.slots.splice(start..start.saturating_add(length), united);
        self.complete = self.slots.len();
        is_shorter
    }

    /// Returns a segment with the slots, and with the blocks that are copied from `base`. Fails if these are too many: none is
    /// left out. O(slots).
    pub(crate) fn write(
        &self,
        shape: SegmentShape,
        stamp: u64,
        base: Option<&Segment>,
    ) -> Result<Segment, RewriteError> {
        let mut segment = Segment::of_lengths(shape, &self.lengths, stamp)?;
        let mut left = self.slots.as_slice();
        for (block, length) in self.lengths.iter().enumerate().take(self.blocks) {
            let base = base.filter(|_| self.copied >> block & 1 == 1);
            let listed = if base.is_some() { self.listed.get(block).copied().unwrap_or(0) } else { *length };
            let (here, after) = left.split_at_checked(listed.into()).ok_or(TooFull)?;
            count_slots(|| here.len());
            match base {
                Some(base) => segment.copy_runs(base, block, length.saturating_add(listed), here),
                None => segment.write_block(block, here),
            }
            left = after;
        }
        if left.is_empty() { Ok(segment) } else { Err(RewriteError::TooFull) }
    }
}

impl Segment {
    /// Returns a segment with existing words, which are not checked. Without words it is empty.
    pub(crate) fn of_words(shape: SegmentShape, words: Box<[u64]>, stamp: u64) -> Self {
        let mut segment = Self { stamp, ..Self::empty(shape, words) };
        segment.used = u16::try_from(segment.counted_slots()).unwrap_or(u16::MAX);
        segment
    }

    /// Makes a copy with its own memory.
    pub(crate) fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let shape = self.shape();
        let mut words = bytemuck::allocation::try_zeroed_slice_box(shape.words).map_err(|()| OutOfMemory)?;
        words.copy_from_slice(&self.words);
        count_segment(shape.bytes());
        Ok(Self { words, ..*self })
    }

    /// Passes the allocation to `relocate`, which may move it.
    pub(crate) fn relocate(&mut self, relocate: impl FnOnce(&mut Vec<u64>)) {
        // A boxed slice is a vector without spare capacity: the conversion moves nothing.
        let mut words = std::mem::take(&mut self.words).into_vec();
        relocate(&mut words);
        self.words = words.into_boxed_slice();
    }

    /// Returns a segment of this many blocks without memory.
    pub(crate) fn blank(blocks_log: u32) -> Self {
        Self::empty(SegmentShape { blocks_log, ..SegmentShape::default() }, Box::default())
    }

    fn empty(shape: SegmentShape, words: Box<[u64]>) -> Self {
        Self {
            words,
            stamp: 0,
            used: 0,
            used_max: shape.used_max() as u16,
            slots: shape.slots as u8,
            block_words: shape.block_words() as u8,
            width: shape.width as u8,
            blocks_log: shape.blocks_log as u8,
        }
    }

    /// Returns a segment with the same entries in another shape. If there are any, the number of blocks, the width of
    /// slots and the stamp must be the same. O(words).
    pub(crate) fn try_reshaped(&self, shape: SegmentShape, stamp: u64) -> Result<Self, RewriteError> {
        let lengths = std::array::from_fn(|block| if block < self.blocks() { self.length(block) } else { 0 });
        let mut segment = Self::of_lengths(shape, &lengths, stamp)?;
        for (block, length) in lengths.iter().enumerate().take(self.blocks()) {
            count_slots(|| (*length).into());
            segment.copy_runs(self, block, *length, &[]);
        }
        Ok(segment)
    }

    /// Returns a segment with clear slots. Its offsets and its number of used slots are right for blocks whose runs
    /// will have these lengths.
    fn of_lengths(shape: SegmentShape, lengths: &Lengths, stamp: u64) -> Result<Self, RewriteError> {
        let used = lengths.iter().map(|length| usize::from(*length)).sum::<usize>();
        let used = u16::try_from(used).ok().filter(|_| used <= shape.used_max()).ok_or(TooFull)?;
        let words = bytemuck::allocation::try_zeroed_slice_box(shape.words).map_err(|()| OutOfMemory)?;
        count_segment(shape.bytes());
        let mut segment = Self { stamp, used, ..Self::empty(shape, words) };
        let mut over = 0usize;
        // Runs of the last blocks may continue in the first ones. The first turn only counts their slots there.
        for turn in 0..2 {
            for (block, length) in lengths.iter().enumerate().take(segment.blocks()) {
                if turn == 1
                    && let Some(word) = segment.block_mut(block).get_mut(1)
                {
                    *word = over as u64 & 0xffff;
                }
                over = over.saturating_add((*length).into()).saturating_sub(shape.slots as usize);
            }
        }
        Ok(segment)
    }

    /// Writes the runs of a block. `slots` are in the order of their buckets. In the segment, the offset of the block
    /// must be right, and the slots of the runs must be clear.
    fn write_block(&mut self, block: usize, slots: &[(u8, u64)]) {
        let (slots_max, width) = (u32::from(self.slots), u32::from(self.width));
        let mut at = self.slot_after(block, self.header(block).offset);
        let (mut left, mut occupied) = (slots, 0u64);
        while !left.is_empty() {
            let (bit, limit) = (self.slot_bit(at.index), slots_max.wrapping_sub(at.index) as usize);
            let (mut index, mut shift) = ((bit / 64) as usize, bit % 64);
            let (mut end, mut ends, mut word) = (1u128.wrapping_shl(at.index), 0u128, 0u64);
            let words = self.block_mut(at.block);
            let here = left.get(..limit).unwrap_or(left);
            left = left.get(here.len()..).unwrap_or(&[]);
            let mut run = here.first().map_or(0, |(bucket, _)| *bucket);
            for (bucket, value) in here {
                if *bucket != run {
                    // The slot before this one is the last of its run.
                    ends |= end >> 1;
                    occupied |= 1u64.wrapping_shl(run.into());
                    run = *bucket;
                }
                end <<= 1;
                word |= value << shift;
                shift = shift.wrapping_add(width);
                if shift >= 64 {
                    if let Some(written) = words.get_mut(index) {
                        *written |= word;
                    }
                    index = index.wrapping_add(1);
                    shift = shift.wrapping_sub(64);
                    // The upper bits of the value go into the next word.
                    word = value >> 1 >> (width.wrapping_sub(shift).wrapping_sub(1) & 63);
                }
            }
            if let Some(written) = words.get_mut(index) {
                *written |= word;
            }
            occupied |= 1u64.wrapping_shl(run.into());
            if left.first().is_none_or(|(bucket, _)| *bucket != run) {
                ends |= end >> 1;
            }
            if let [_, low, high, ..] = words {
                let ends = ends << OFFSET_BITS;
                (*low, *high) = (*low | ends as u64, *high | (ends >> 64) as u64);
            }
            at = SlotIndex { block: at.block.wrapping_add(1), index: 0 };
        }
        self.set_occupied(block, occupied);
    }

    /// Copies the runs of a block, which take `length` slots, from a segment with slots of the same width. The indices in
    /// `left_out` are those of slots that are not copied, in order.
    fn copy_runs(&mut self, source: &Self, block: usize, length: u16, left_out: &[(u8, u64)]) {
        let Header { mut occupied, offset, .. } = source.header(block);
        let start = source.slot_after(block, offset);
        let (mut from, mut to) = (start, self.slot_after(block, self.header(block).offset));
        // The last slot that was copied, if its run had more slots.
        let (mut read, mut open) = (0u32, None);
        for (_, index) in left_out {
            let slots = (*index as u32).wrapping_sub(read);
            if slots > 0 {
                open = self.copy_slots(source, &mut from, &mut to, slots);
            }
            if source.is_run_end(from) {
                match open.take() {
                    Some(SlotIndex { block, index }) => {
                        set_bits(self.block_mut(block), RUN_ENDS_AT.wrapping_add(index), 1, 1);
                    }
                    None => occupied &= !1u64.wrapping_shl(source.bucket_of(block, start, from)),
                }
            }
            from = source.next(from);
            read = read.wrapping_add(slots).wrapping_add(1);
        }
        self.copy_slots(source, &mut from, &mut to, u32::from(length).saturating_sub(read));
        self.set_occupied(block, occupied);
    }

    /// Copies slots and their run ends from `from` of another segment to `to`, and moves both behind them. Returns the
    /// place of the last one, unless its run ends there.
    #[inline(always)]
    fn copy_slots(
        &mut self,
        source: &Self,
        from: &mut SlotIndex,
        to: &mut SlotIndex,
        slots: u32,
    ) -> Option<SlotIndex> {
        let (width, mut left, mut open) = (u32::from(self.width), slots, None);
        while left > 0 {
            let here = u32::from(source.slots).wrapping_sub(from.index);
            let there = u32::from(self.slots).wrapping_sub(to.index);
            let step = left.min(here).min(there);
            let (read, from_bit, to_bit) =
                (source.block(from.block), source.slot_bit(from.index), self.slot_bit(to.index));
            let written = self.block_mut(to.block);
            let (ends_from, ends_to) =
                (RUN_ENDS_AT.wrapping_add(from.index), RUN_ENDS_AT.wrapping_add(to.index));
            copy_bits(read, ends_from, written, ends_to, step);
            copy_bits(read, from_bit, written, to_bit, step.wrapping_mul(width));
            let is_end = bits_at(read, ends_from.wrapping_add(step).wrapping_sub(1), 1) == 1;
            let last = SlotIndex { index: to.index.wrapping_add(step).wrapping_sub(1), ..*to };
            open = if is_end { None } else { Some(last) };
            left = left.wrapping_sub(step);
            (*from, *to) = (source.after(*from, step), self.after(*to, step));
        }
        open
    }

    #[inline(always)]
    fn set_occupied(&mut self, block: usize, occupied: u64) {
        if let Some(word) = self.block_mut(block).first_mut() {
            *word = occupied;
        }
    }

    /// Overwrites a slot.
    #[inline(always)]
    pub(crate) fn set_slot(&mut self, at: SlotIndex, value: u64) {
        let (bit, width) = (self.slot_bit(at.index), self.width.into());
        set_bits(self.block_mut(at.block), bit, width, value);
    }

    /// Inserts a slot at the start of a run.
    ///
    /// # Errors
    /// [`TooFull`]. Nothing has changed.
    #[inline(always)]
    pub(crate) fn insert(&mut self, run: BucketRun, value: u64) -> Result<(), TooFull> {
        if self.used >= self.used_max {
            return Err(TooFull);
        }
        let BucketRun { block: home, bucket, start, is_empty: is_new } = run;
        if is_new && let Some(occupied) = self.block_mut(home).first_mut() {
            *occupied |= 1 << (bucket & 63);
        }
        for block in home..start.block {
            self.add_to_offset(block.wrapping_add(1), 1);
        }
        let (slots, width) = (u32::from(self.slots), u32::from(self.width));
        let ends_mask = low_bits_128(slots);
        let (mut at, mut value, mut is_last) = (start, value, is_new);
        for _ in 0..self.blocks().wrapping_add(1) {
            let continues = self.blocks_log > 0 && self.header(at.block.wrapping_add(1)).offset > 0;
            let (begin, end) = (self.slot_bit(at.index), self.slot_bit(slots));
            let block = self.block_mut(at.block);
            let [_, low, high, ..] = &mut *block else { return Err(TooFull) };
            let raw = u128::from(*low) | u128::from(*high) << 64;
            let ends = raw >> OFFSET_BITS & ends_mask;
            let used = if continues { slots } else { 128u32.wrapping_sub(ends.leading_zeros()) };
            let is_full = used == slots;
            // The run ends from this slot on move up by one slot.
            let bit = 1u128.wrapping_shl(at.index);
            let moved = ends.wrapping_add(ends & bit.wrapping_neg()) | if is_last { bit } else { 0 };
            let raw = raw & !(ends_mask << OFFSET_BITS) | (moved & ends_mask) << OFFSET_BITS;
            (*low, *high) = (raw as u64, (raw >> 64) as u64);
            if !is_full {
                let free = used.wrapping_sub(at.index).wrapping_add(1).wrapping_mul(width);
                shift_up(block, begin, begin.wrapping_add(free), width);
                set_bits(block, begin, width, value);
                break;
            }
            let carried = bits_at(block, end.wrapping_sub(width), width);
            shift_up(block, begin, end, width);
            set_bits(block, begin, width, value);
            (value, is_last) = (carried, ends.leading_zeros() == 128u32.wrapping_sub(slots));
            at = SlotIndex { block: at.block.wrapping_add(1), index: 0 };
            self.add_to_offset(at.block, 1);
        }
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    #[inline(always)]
    fn add_to_offset(&mut self, block: usize, change: u64) {
        if let Some(word) = self.block_mut(block).get_mut(1) {
            *word = word.wrapping_add(change);
        }
    }

    /// Replaces the slots of a run, which has `before` slots.
    ///
    /// # Errors
    /// [`TooFull`]. Nothing has changed.
    pub(crate) fn replace_run(
        &mut self,
        run: BucketRun,
        before: usize,
        slots: &[u64],
    ) -> Result<(), TooFull> {
        if slots.len().saturating_sub(before) > self.used_max().saturating_sub(self.used()) {
            return Err(TooFull);
        }
        for _ in slots.len()..before {
            self.remove_first(run);
        }
        for slot in before..slots.len() {
            self.insert(BucketRun { is_empty: slot == 0, ..run }, 0)?;
        }
        let mut at = run.start;
        for value in slots {
            self.set_slot(at, *value);
            at = self.next(at);
        }
        Ok(())
    }

    /// Removes the first slot of a run.
    fn remove_first(&mut self, run: BucketRun) {
        let BucketRun { block: home, bucket, start, .. } = run;
        let (slots, width) = (u32::from(self.slots), u32::from(self.width));
        let was_last = self.header(start.block).ends >> start.index & 1 == 1;
        if was_last && let Some(occupied) = self.block_mut(home).first_mut() {
            *occupied &= !(1 << (bucket & 63));
        }
        for block in home.wrapping_add(1)..=start.block {
            self.add_to_offset(block, u64::MAX);
        }
        let mut at = start;
        for _ in 0..=self.blocks() {
            let next = at.block.wrapping_add(1);
            let is_full = self.blocks_log > 0 && self.header(next).offset > 0;
            let (begin, last_bit) = (self.slot_bit(at.index), self.slot_bit(slots.wrapping_sub(1)));
            let (carried, its_end) =
                (bits_at(self.block(next), self.slot_bit(0), width), self.header(next).ends & 1);
            let block = self.block_mut(at.block);
            let ends = Header::of(block).ends & low_bits_128(slots);
            let used = if is_full { slots } else { 128u32.wrapping_sub(ends.leading_zeros()) };
            let end = begin.wrapping_add(used.wrapping_sub(at.index).wrapping_mul(width));
            shift_down(block, begin, end, width);
            let below = low_bits_128(at.index);
            let mut moved = (ends & below) | (ends >> 1 & !below);
            if is_full {
                set_bits(block, last_bit, width, carried);
                moved |= its_end << slots.wrapping_sub(1);
            }
            set_ends(block, moved, slots);
            if !is_full {
                break;
            }
            self.add_to_offset(next, u64::MAX);
            at = SlotIndex { block: next, index: 0 };
        }
        self.used = self.used.wrapping_sub(1);
    }
}

/// Sets the run ends of a block with this number of slots.
#[inline(always)]
fn set_ends(block: &mut [u64], ends: u128, slots: u32) {
    let [_, low, high, ..] = block else { return };
    let mask = low_bits_128(slots) << OFFSET_BITS;
    let set = (u128::from(*low) | u128::from(*high) << 64) & !mask | ends << OFFSET_BITS & mask;
    (*low, *high) = (set as u64, (set >> 64) as u64);
}
