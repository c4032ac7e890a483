//! Segments, and what is read from one: its shape, runs and slots.

use crate::prefetch::Prefetch;
use crate::table::size::{RUN_ENDS_AT, SegmentShape};
use crate::words::{PortableSelect, Select, bits_at, low_bits, low_bits_128};
use crate::work::count_slots;

/// The number of bits of the offset. The offset is the lowest bits of the second word of a block, below the run ends.
pub(super) const OFFSET_BITS: u32 = 16;

/// The place of a slot: its block, and its index in the block. A block number beyond the last block wraps around,
/// because runs of the last block continue in the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotIndex {
    pub(crate) block: usize,
    pub(crate) index: u32,
}

/// The run of a bucket, which may be empty.
#[derive(Clone, Copy)]
pub(crate) struct BucketRun {
    pub(super) block: usize,
    pub(super) bucket: u32,
    pub(crate) start: SlotIndex,
    pub(crate) is_empty: bool,
}

/// One segment of a table.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    pub(super) words: Box<[u64]>,
    /// The generation of the last compaction, if entries are timed; otherwise 0.
    pub(crate) stamp: u64,
    /// Slots in use.
    pub(super) used: u16,
    /// How many slots may be used: `SegmentShape::used_max`.
    pub(super) used_max: u16,
    pub(super) slots: u8,
    pub(super) block_words: u8,
    pub(super) width: u8,
    pub(super) blocks_log: u8,
}

// A large table has a segment for a few thousand items, and a small filter has one in its struct.
const _: () = assert!(size_of::<Segment>() == 32);

/// The first three words of a block. They describe its runs.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    pub(super) occupied: u64,
    pub(super) offset: u32,
    /// The run ends, one bit per slot from the lowest on. The bits above them belong to the slots.
    pub(super) ends: u128,
}

impl Header {
    #[inline(always)]
    pub(crate) fn is_occupied(&self, bucket: u32) -> bool {
        self.occupied >> (bucket & 63) & 1 == 1
    }

    #[inline(always)]
    pub(super) fn of(block: &[u64]) -> Self {
        let &[occupied, low, high, ..] = block else { return Self { occupied: 0, offset: 0, ends: 0 } };
        let ends = (u128::from(low) | u128::from(high) << 64) >> OFFSET_BITS;
        Self { occupied, offset: low as u32 & 0xffff, ends }
    }
}

impl Segment {
    pub(crate) fn shape(&self) -> SegmentShape {
        SegmentShape {
            blocks_log: self.blocks_log.into(),
            slots: self.slots.into(),
            width: self.width.into(),
            words: self.words.len(),
        }
    }

    /// Returns whether no slot is in use.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    #[inline(always)]
    pub(crate) fn used(&self) -> usize {
        self.used.into()
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the allocation, without a copy.
    pub(crate) fn into_words(self) -> Box<[u64]> {
        self.words
    }

    #[inline(always)]
    pub(crate) fn blocks(&self) -> usize {
        1usize.wrapping_shl(self.blocks_log.into())
    }

    #[inline(always)]
    pub(crate) fn block_mask(&self) -> usize {
        self.blocks().wrapping_sub(1)
    }

    #[inline(always)]
    pub(crate) fn blocks_log(&self) -> u32 {
        self.blocks_log.into()
    }

    /// Returns the bits of a slot.
    #[inline(always)]
    pub(crate) fn width(&self) -> u32 {
        self.width.into()
    }

    #[inline(always)]
    pub(super) fn block(&self, block: usize) -> &[u64] {
        let words = usize::from(self.block_words);
        let start = (block & self.block_mask()).wrapping_mul(words);
        self.words.get(start..start.wrapping_add(words)).unwrap_or(&[])
    }

    #[inline(always)]
    pub(super) fn block_mut(&mut self, block: usize) -> &mut [u64] {
        let words = usize::from(self.block_words);
        let start = (block & self.block_mask()).wrapping_mul(words);
        self.words.get_mut(start..start.wrapping_add(words)).unwrap_or(&mut [])
    }

    #[inline(always)]
    pub(crate) fn header(&self, block: usize) -> Header {
        Header::of(self.block(block))
    }

    /// Returns the bit of a block at which a slot begins.
    #[inline(always)]
    pub(super) fn slot_bit(&self, index: u32) -> u32 {
        index.wrapping_mul(self.width.into()).wrapping_add(RUN_ENDS_AT).wrapping_add(self.slots.into())
    }

    #[inline(always)]
    fn run_ends(&self, header: &Header) -> u128 {
        header.ends & low_bits_128(self.slots.into())
    }

    /// Prefetches the memory of a block.
    #[inline(always)]
    pub(crate) fn prefetch(&self, block: usize, prefetch: impl Prefetch) {
        let words = self.block(block);
        for line in words.chunks(8) {
            if let Some(word) = line.first() {
                prefetch.prefetch(word);
            }
        }
        if let Some(word) = words.last() {
            prefetch.prefetch(word);
        }
    }

    /// Prefetches the header of a block.
    #[inline(always)]
    pub(crate) fn prefetch_header(&self, block: usize, prefetch: impl Prefetch) {
        if let Some(word) = self.block(block).first() {
            prefetch.prefetch(word);
        }
    }

    /// Returns how many slots may be used.
    #[inline(always)]
    pub(crate) fn used_max(&self) -> usize {
        self.used_max.into()
    }

    /// Returns where the run of a bucket begins, or would begin.
    #[inline(always)]
    pub(crate) fn run_start(
        &self,
        block: usize,
        header: &Header,
        bucket: u32,
        select: impl Select,
    ) -> SlotIndex {
        let runs = (header.occupied & low_bits(bucket)).count_ones();
        let slots = u32::from(self.slots);
        if header.offset < slots {
            let ends = header.ends >> header.offset;
            let (low, high) = (ends as u64, (ends >> 64) as u64);
            let in_low = low.count_ones();
            let index = if runs == 0 {
                header.offset
            } else if runs <= in_low {
                select.select(low, runs.wrapping_sub(1)).wrapping_add(header.offset).wrapping_add(1)
            } else if runs <= in_low.wrapping_add(high.count_ones()) {
                let in_high = select.select(high, runs.wrapping_sub(in_low).wrapping_sub(1));
                in_high.wrapping_add(header.offset).wrapping_add(65)
            } else {
                slots
            };
            if index < slots {
                return SlotIndex { block, index };
            }
        }
        self.skip_runs(block, header, runs, select)
    }

    /// Returns the slot after the first `runs` runs of a block.
    #[inline(never)]
    fn skip_runs(&self, block: usize, header: &Header, mut runs: u32, select: impl Select) -> SlotIndex {
        let slots = u32::from(self.slots).max(1);
        let mut at = self.slot_after(block, header.offset);
        if runs == 0 {
            return at;
        }
        let mut ends = self.run_ends(&self.header(at.block)) >> at.index << at.index;
        // Every run ends in the segment, so one pass over the blocks finds every run end.
        for _ in 0..=self.blocks() {
            let here = ends.count_ones();
            if runs <= here {
                break;
            }
            runs = runs.wrapping_sub(here);
            at.block = at.block.wrapping_add(1);
            ends = self.run_ends(&self.header(at.block));
        }
        let (low, high) = (ends as u64, (ends >> 64) as u64);
        let in_low = low.count_ones();
        let last = if runs <= in_low {
            select.select(low, runs.wrapping_sub(1))
        } else {
            select.select(high, runs.wrapping_sub(in_low).wrapping_sub(1)).wrapping_add(64)
        };
        let index = last.wrapping_add(1);
        if index >= slots {
            SlotIndex { block: at.block.wrapping_add(1), index: 0 }
        } else {
            SlotIndex { index, ..at }
        }
    }

    #[inline(always)]
    pub(crate) fn slot_after(&self, block: usize, distance: u32) -> SlotIndex {
        let slots = u32::from(self.slots).max(1);
        SlotIndex { block: block.wrapping_add((distance / slots) as usize), index: distance % slots }
    }

    /// Returns the slot that is `distance` slots after another one.
    #[inline(always)]
    pub(crate) fn slot_behind(&self, slot: SlotIndex, distance: u32) -> SlotIndex {
        self.slot_after(slot.block, slot.index.wrapping_add(distance))
    }

    /// Calls `visit` with the value of each slot of the run that begins at `start`, until it returns false.
    #[inline(always)]
    pub(crate) fn scan(&self, start: SlotIndex, mut visit: impl FnMut(u64) -> bool) {
        let block = self.block(start.block);
        let ends = Header::of(block).ends.wrapping_shr(start.index) as u64;
        let (width, run) = (u32::from(self.width), ends.trailing_zeros().wrapping_add(1));
        if ends != 0 && start.index.wrapping_add(run) <= self.slots.into() {
            // The whole run is in this block.
            let mut bit = self.slot_bit(start.index);
            for _ in 0..run {
                if !visit(bits_at(block, bit, width)) {
                    return;
                }
                bit = bit.wrapping_add(width);
            }
            return;
        }
        self.visit_run(start, |_, value| visit(value));
    }

    /// Returns whether the run that begins at `start` has a slot for which `is_match` holds.
    #[inline(always)]
    pub(crate) fn run_has(&self, start: SlotIndex, mut is_match: impl FnMut(u64) -> bool) -> bool {
        let mut found = false;
        self.scan(start, |value| {
            found = is_match(value);
            !found
        });
        found
    }

    /// Calls `visit` with the place and value of each slot of the run that begins at `start`, until it returns false.
    #[inline(always)]
    pub(crate) fn visit_run(&self, start: SlotIndex, mut visit: impl FnMut(SlotIndex, u64) -> bool) {
        let mut at = start;
        // A run is never longer than the segment.
        for _ in 0..usize::from(self.slots) << self.blocks_log {
            let block = self.block(at.block);
            if !visit(at, bits_at(block, self.slot_bit(at.index), self.width.into())) || self.is_run_end(at) {
                return;
            }
            at = self.next(at);
        }
    }

    /// Returns the run of a bucket of a block. If the run is empty, its start is the slot where it would begin.
    #[inline(always)]
    pub(crate) fn run(&self, block: usize, bucket: u32, select: impl Select) -> BucketRun {
        let header = self.header(block);
        let is_empty = !header.is_occupied(bucket);
        BucketRun { block, bucket, start: self.run_start(block, &header, bucket, select), is_empty }
    }

    /// Returns the slot after another one.
    #[inline(always)]
    pub(crate) fn next(&self, slot: SlotIndex) -> SlotIndex {
        self.after(slot, 1)
    }

    /// Returns the slot that is `slots` after another one of the same or the next block.
    #[inline(always)]
    pub(super) fn after(&self, slot: SlotIndex, slots: u32) -> SlotIndex {
        let index = slot.index.wrapping_add(slots);
        match index.checked_sub(self.slots.into()) {
            Some(index) => SlotIndex { block: slot.block.wrapping_add(1), index },
            None => SlotIndex { index, ..slot },
        }
    }

    #[inline(always)]
    pub(super) fn is_run_end(&self, at: SlotIndex) -> bool {
        self.header(at.block).ends >> at.index & 1 == 1
    }

    /// Returns the bucket of a slot of a block whose runs begin at `start`.
    pub(super) fn bucket_of(&self, block: usize, start: SlotIndex, at: SlotIndex) -> u32 {
        let runs = (start.block..=at.block).map(|here| {
            let from = if here == start.block { start.index } else { 0 };
            let to = if here == at.block { at.index } else { self.slots.into() };
            (self.header(here).ends & low_bits_128(to) & !low_bits_128(from)).count_ones()
        });
        PortableSelect.select(self.header(block).occupied, runs.sum())
    }

    /// Calls `visit` with the index and the value of each slot of a block's runs that `mark` marks. `mark` gets the values
    /// of several slots, the first one in the lowest bits, and sets the lowest bit of each that it marks. Returns the
    /// number of slots.
    #[inline(always)]
    pub(crate) fn visit_marked(
        &self,
        block: usize,
        mark: impl Fn(u64) -> u64,
        mut visit: impl FnMut(u16, u64),
    ) -> u16 {
        let (width, length) = (u32::from(self.width), self.length(block));
        let (mut at, mut index) = (self.slot_after(block, self.header(block).offset), 0u32);
        let together = 64 / width.max(1);
        count_slots(|| length.into());
        while index < length.into() {
            let (words, mut bit) = (self.block(at.block), self.slot_bit(at.index));
            let here =
                u32::from(length).wrapping_sub(index).min(u32::from(self.slots).wrapping_sub(at.index));
            let end = index.wrapping_add(here);
            while index < end {
                let slots = together.min(end.wrapping_sub(index));
                let bits = slots.wrapping_mul(width);
                let values = bits_at(words, bit, bits);
                let mut marks = mark(values) & u64::MAX >> (64u32.wrapping_sub(bits) & 63);
                while marks != 0 {
                    let first = marks.trailing_zeros();
                    let value = values >> first & u64::MAX >> (64u32.wrapping_sub(width) & 63);
                    visit(index.wrapping_add(first / width.max(1)) as u16, value);
                    marks &= marks.wrapping_sub(1);
                }
                (index, bit) = (index.wrapping_add(slots), bit.wrapping_add(bits));
            }
            at = self.after(at, here);
        }
        length
    }

    /// Calls `visit` with the bucket and the value of each slot of a block, in the order of its buckets.
    #[inline(always)]
    pub(crate) fn visit_block(&self, block: usize, mut visit: impl FnMut(u32, u64)) {
        let header = self.header(block);
        let mut occupied = header.occupied;
        count_slots(|| self.length(block).into());
        if occupied == 0 {
            return;
        }
        let (slots, width) = (u32::from(self.slots), u32::from(self.width));
        let mask = u64::MAX >> (64u32.wrapping_sub(width) & 63);
        let mut bucket = occupied.trailing_zeros();
        let mut at = self.slot_after(block, header.offset);
        for _ in 0..=self.blocks() {
            let words = self.block(at.block);
            let mut ends = Header::of(words).ends >> at.index;
            // Reads each word once: slots are taken from its low bits until fewer bits are left than a slot has.
            let bit = self.slot_bit(at.index);
            let mut rest = words.get((bit / 64) as usize..).unwrap_or(&[]).iter();
            let mut word = rest.next().copied().unwrap_or(0) >> (bit % 64);
            let mut left = 64u32.wrapping_sub(bit % 64);
            for _ in at.index..slots {
                let mut value = word;
                if left < width {
                    let next = rest.next().copied().unwrap_or(0);
                    let taken = width.wrapping_sub(left);
                    value |= next << left;
                    word = next >> 1 >> (taken.wrapping_sub(1) & 63);
                    left = 64u32.wrapping_sub(taken);
                } else {
                    word = word >> 1 >> (width.wrapping_sub(1) & 63);
                    left = left.wrapping_sub(width);
                }
                visit(bucket, value & mask);
                if ends & 1 == 1 {
                    occupied &= occupied.wrapping_sub(1);
                    if occupied == 0 {
                        return;
                    }
                    bucket = occupied.trailing_zeros();
                }
                ends >>= 1;
            }
            at = SlotIndex { block: at.block.wrapping_add(1), index: 0 };
        }
    }

    /// Returns the number of used slots, counted from the run ends. O(blocks).
    pub(crate) fn counted_slots(&self) -> usize {
        (0..self.blocks()).map(|block| usize::from(self.length(block))).sum()
    }

    /// Returns the number of slots that the runs of a block take.
    pub(crate) fn length(&self, block: usize) -> u16 {
        let header = self.header(block);
        let runs = header.occupied.count_ones();
        if runs == 0 {
            return 0;
        }
        let (start, slots) = (self.slot_after(block, header.offset), usize::from(self.slots));
        let end = self.skip_runs(block, &header, runs, PortableSelect);
        let blocks = end.block.wrapping_sub(start.block);
        let length =
            blocks.wrapping_mul(slots).wrapping_add(end.index as usize).wrapping_sub(start.index as usize);
        length as u16
    }
}
