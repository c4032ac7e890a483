//! Writing a segment as a whole.
//!
//! A rewrite collects the slots of a new segment in a [`SlotList`], in the order of their blocks and buckets. Their
//! number determines the shape of the segment. Then they are written to it. So all memory is allocated before the table
//! changes.

use smallvec::SmallVec;

use super::read::{Header, OFFSET_BITS, Segment, SlotIndex};
use crate::memory::OutOfMemory;
use crate::table::size::{BLOCKS_MAX, BUCKETS, RUN_ENDS_AT, SegmentShape, TooFull};
use crate::words::{bits_at, copy_bits, low_bits, set_bits};
use crate::work::{count_segment, count_slots};

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
type Lengths = [usize; BLOCKS_MAX];

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
        self.lengths.iter().sum()
    }

    /// Returns whether any block is copied from a segment.
    pub(crate) const fn has_copies(&self) -> bool {
        self.copied != 0
    }

    /// Appends a slot to the current block, the one that is not complete yet. Memory for it must have been reserved: a
    /// failed allocation here would end the server.
    #[inline(always)]
    pub(crate) fn push(&mut self, bucket: u8, value: u64) {
        debug_assert!(self.slots.len() < self.slots.capacity(), "memory is reserved");
        self.slots.push((bucket, value));
    }

    /// Completes the current block.
    #[inline(always)]
    pub(crate) fn end_block(&mut self) -> Result<(), TooFull> {
        *self.lengths.get_mut(self.blocks).ok_or(TooFull)? = self.slots.len() - self.complete;
        self.blocks += 1;
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
        let blocks = self.blocks + other.blocks;
        let free = self.lengths.get_mut(self.blocks..blocks).ok_or(TooFull)?;
        free.copy_from_slice(other.lengths.get(..other.blocks).ok_or(TooFull)?);
        self.blocks = blocks;
        self.complete = self.slots.len();
        Ok(())
    }

    /// Completes the current block. It gets the runs of the same block of a segment, without the slots of the list. They
    /// take this number of slots.
    #[inline(always)]
    pub(crate) fn copy_block(&mut self, slots: usize) -> Result<(), TooFull> {
        let block = self.blocks;
        self.end_block()?;
        self.copied |= 1 << block;
        let (length, listed) = (self.lengths.get_mut(block), self.listed.get_mut(block));
        *listed.ok_or(TooFull)? = std::mem::replace(length.ok_or(TooFull)?, slots);
        Ok(())
    }

    /// Replaces the slots of each bucket of the block that has most of them by one slot: `unite` returns it for the
    /// values of the slots before. No block may be copied. O(slots).
    ///
    /// # Errors
    /// [`TooFull`] if every bucket of that block has one slot already.
    pub(crate) fn unite_fullest_block(
        &mut self,
        mut unite: impl FnMut(&[(u8, u64)]) -> u64,
    ) -> Result<(), TooFull> {
        let block = (0..self.blocks).max_by_key(|block| self.lengths.get(*block)).ok_or(TooFull)?;
        let start = self.lengths.iter().take(block).sum::<usize>();
        let length = self.lengths.get_mut(block).ok_or(TooFull)?;
        let range = start..start + *length;
        let slots = self.slots.get(range.clone()).ok_or(TooFull)?;
        let same_bucket = |one: &(u8, u64), other: &(u8, u64)| one.0 == other.0;
        let buckets = slots.chunk_by(same_bucket).filter_map(|run| Some((run.first()?.0, unite(run))));
        let united: SmallVec<[_; BUCKETS as usize]> = buckets.collect();
        let before = std::mem::replace(length, united.len());
        self.slots.splice(range, united);
        self.complete = self.slots.len();
        if *length < before { Ok(()) } else { Err(TooFull) }
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
        for (block, (length, listed)) in self.lengths.iter().zip(&self.listed).enumerate().take(self.blocks) {
            let base = base.filter(|_| self.copied >> block & 1 == 1);
            let listed = if base.is_some() { *listed } else { *length };
            let (here, after) = left.split_at_checked(listed).ok_or(TooFull)?;
            count_slots(|| here.len());
            match base {
                Some(base) => segment.copy_runs(base, block, length + listed, here),
                None => segment.write_block(block, here),
            }
            left = after;
        }
        if left.is_empty() { Ok(segment) } else { Err(RewriteError::TooFull) }
    }
}

impl Segment {
    /// Returns a segment with existing words. Only the number of their slots is checked. Without words it is empty.
    pub(crate) fn of_words(shape: SegmentShape, words: Box<[u64]>, stamp: u64) -> Result<Self, TooFull> {
        let mut segment = Self { stamp, ..Self::empty(shape, words) };
        segment.used = shape.checked_used(segment.counted_slots())?;
        Ok(segment)
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

    /// Returns a segment with the same entries in another shape. If there are any, the number of blocks, the width of
    /// slots and the stamp must be the same. O(words).
    pub(crate) fn try_reshaped(&self, shape: SegmentShape, stamp: u64) -> Result<Self, RewriteError> {
        let lengths = std::array::from_fn(|block| if block < self.blocks() { self.length(block) } else { 0 });
        let mut segment = Self::of_lengths(shape, &lengths, stamp)?;
        for (block, length) in lengths.iter().enumerate().take(self.blocks()) {
            count_slots(|| *length);
            segment.copy_runs(self, block, *length, &[]);
        }
        Ok(segment)
    }

    /// Returns a segment with clear slots. Its offsets and its number of used slots are right for blocks whose runs
    /// will have these lengths.
    fn of_lengths(shape: SegmentShape, lengths: &Lengths, stamp: u64) -> Result<Self, RewriteError> {
        let used = shape.checked_used(lengths.iter().sum())?;
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
                    *word = over as u64 & low_bits(OFFSET_BITS);
                }
                // A block with free slots leaves none for the next one.
                over = (over + length).saturating_sub(shape.slots as usize);
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
            let (bit, limit) = (self.slot_bit(at.index()), (slots_max - at.index()) as usize);
            let (mut index, mut shift) = ((bit / 64) as usize, bit % 64);
            let (mut end, mut ends, mut word) = (1u128 << at.index(), 0u128, 0u64);
            let words = self.block_mut(at.block);
            let (here, rest) = left.split_at(limit.min(left.len()));
            left = rest;
            let mut run = here.first().map_or(0, |(bucket, _)| *bucket);
            for (bucket, value) in here {
                if *bucket != run {
                    // The slot before this one is the last of its run.
                    ends |= end >> 1;
                    occupied |= 1 << (run & 63);
                    run = *bucket;
                }
                end <<= 1;
                word |= value << shift;
                shift += width;
                if shift >= 64 {
                    if let Some(written) = words.get_mut(index) {
                        *written |= word;
                    }
                    index += 1;
                    shift -= 64;
                    // The upper bits of the value go into the next word.
                    word = value >> 1 >> ((width - shift - 1) & 63);
                }
            }
            if let Some(written) = words.get_mut(index) {
                *written |= word;
            }
            occupied |= 1 << (run & 63);
            if left.first().is_none_or(|(bucket, _)| *bucket != run) {
                ends |= end >> 1;
            }
            if let [_, low, high, ..] = words {
                let ends = ends << OFFSET_BITS;
                (*low, *high) = (*low | ends as u64, *high | (ends >> 64) as u64);
            }
            at = SlotIndex::first(at.block + 1);
        }
        self.set_occupied(block, occupied);
    }

    /// Copies the runs of a block, which take `length` slots, from a segment with slots of the same width. The indices in
    /// `left_out` are those of slots that are not copied, in order.
    fn copy_runs(&mut self, source: &Self, block: usize, length: usize, left_out: &[(u8, u64)]) {
        let Header { mut occupied, offset, .. } = source.header(block);
        let start = source.slot_after(block, offset);
        let (mut from, mut to) = (start, self.slot_after(block, self.header(block).offset));
        // The last slot that was copied, if its run had more slots.
        let (mut read, mut open) = (0u32, None);
        for (_, index) in left_out {
            let slots = *index as u32 - read;
            if slots > 0 {
                open = self.copy_slots(source, &mut from, &mut to, slots);
            }
            if source.is_run_end(from) {
                match open.take() {
                    Some(slot) => {
                        set_bits(self.block_mut(slot.block), RUN_ENDS_AT + slot.index(), 1, 1);
                    }
                    None => occupied &= !(1 << source.bucket_of(block, start, from)),
                }
            }
            from = source.next(from);
            read += slots + 1;
        }
        self.copy_slots(source, &mut from, &mut to, length as u32 - read);
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
            let here = u32::from(source.slots) - from.index();
            let there = u32::from(self.slots) - to.index();
            let step = left.min(here).min(there);
            let (read, from_bit, to_bit) =
                (source.block(from.block), source.slot_bit(from.index()), self.slot_bit(to.index()));
            let written = self.block_mut(to.block);
            let (ends_from, ends_to) = (RUN_ENDS_AT + from.index(), RUN_ENDS_AT + to.index());
            copy_bits(read, ends_from, written, ends_to, step);
            copy_bits(read, from_bit, written, to_bit, step * width);
            let is_end = bits_at(read, ends_from + step - 1, 1) == 1;
            let last = SlotIndex::of(to.block, to.index() + step - 1);
            open = if is_end { None } else { Some(last) };
            left -= step;
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
}
