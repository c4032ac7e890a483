//! Segments, and what is read from one: its shape, runs and slots.

use crate::prefetch::Prefetch;
use crate::table::size::{RUN_ENDS_AT, SegmentShape, byte};
use crate::words::{PortableSelect, Select, bits_at, low_bits, low_bits_128};
use crate::work::count_slots;

/// The number of bits of the offset. The offset is the lowest bits of the second word of a block, below the run ends.
pub(super) const OFFSET_BITS: u32 = 16;

/// The place of a slot: its block, and its index in the block. A block number beyond the last block wraps around,
/// because runs of the last block continue in the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotIndex {
    pub(crate) block: usize,
    // As wide as the numbers that it is computed with, so that no place of a slot can overflow.
    index: u8,
}

impl SlotIndex {
    /// Returns the first slot of a block.
    #[inline(always)]
    pub(super) const fn first(block: usize) -> Self {
        Self { block, index: 0 }
    }

    /// Returns the slot with this index in its block.
    #[inline(always)]
    pub(super) fn of(block: usize, index: u32) -> Self {
        Self { block, index: byte(index) }
    }

    #[inline(always)]
    pub(super) fn index(self) -> u32 {
        self.index.into()
    }
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
    /// The number of blocks, a power of two, less 1. A number that is combined with it is below 256.
    pub(super) block_mask: u8,
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

    /// Returns the run ends from slot `index` of the block on. No block has slots from 128 on.
    #[inline(always)]
    pub(super) fn ends_from(&self, index: u32) -> u128 {
        self.ends >> (index & 127)
    }

    #[inline(always)]
    pub(super) fn of(block: &[u64]) -> Self {
        let &[occupied, low, high, ..] = block else { return Self { occupied: 0, offset: 0, ends: 0 } };
        let ends = (u128::from(low) | u128::from(high) << 64) >> OFFSET_BITS;
        Self { occupied, offset: low as u32 & 0xffff, ends }
    }
}

impl Segment {
    #[expect(clippy::expect_used, reason = "every shape has fewer slots")]
    pub(super) fn empty(shape: SegmentShape, words: Box<[u64]>) -> Self {
        Self {
            words,
            stamp: 0,
            used: 0,
            used_max: u16::try_from(shape.used_max()).expect("a number of slots"),
            slots: byte(shape.slots),
            block_words: byte(shape.block_words() as u32),
            width: byte(shape.width),
            block_mask: byte((1 << shape.blocks_log) - 1),
        }
    }

    pub(crate) fn shape(&self) -> SegmentShape {
        SegmentShape {
            blocks_log: self.blocks_log(),
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
        self.block_mask() + 1
    }

    #[inline(always)]
    pub(crate) fn block_mask(&self) -> usize {
        self.block_mask.into()
    }

    #[inline(always)]
    pub(crate) fn blocks_log(&self) -> u32 {
        self.blocks().trailing_zeros()
    }

    /// Returns the bits of a slot.
    #[inline(always)]
    pub(crate) fn width(&self) -> u32 {
        self.width.into()
    }

    #[inline(always)]
    pub(super) fn block(&self, block: usize) -> &[u64] {
        let words = usize::from(self.block_words);
        let start = (block & self.block_mask()) * words;
        // A segment without memory has blocks without words.
        self.words.get(start..start + words).unwrap_or(&[])
    }

    #[inline(always)]
    pub(super) fn block_mut(&mut self, block: usize) -> &mut [u64] {
        let words = usize::from(self.block_words);
        let start = (block & self.block_mask()) * words;
        // As in `block`.
        self.words.get_mut(start..start + words).unwrap_or(&mut [])
    }

    #[inline(always)]
    pub(crate) fn header(&self, block: usize) -> Header {
        Header::of(self.block(block))
    }

    /// Returns the bit of a block at which a slot begins.
    #[inline(always)]
    pub(super) fn slot_bit(&self, index: u32) -> u32 {
        // Of two bytes and a constant, the second sum cannot overflow.
        index * u32::from(self.width) + (RUN_ENDS_AT + u32::from(self.slots))
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
            let ends = header.ends_from(header.offset);
            let (low, high) = (ends as u64, (ends >> 64) as u64);
            let in_low = low.count_ones();
            let index = if runs == 0 {
                header.offset
            } else if runs <= in_low {
                select.select(low, runs - 1) + header.offset + 1
            } else if runs <= in_low + high.count_ones() {
                let in_high = select.select(high, runs - in_low - 1);
                in_high + header.offset + 65
            } else {
                slots
            };
            if index < slots {
                return SlotIndex::of(block, index);
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
        let mut ends = self.run_ends(&self.header(at.block)) & !low_bits_128(at.index());
        // Every run ends in the segment, so one pass over the blocks finds every run end.
        for _ in 0..=self.blocks() {
            let here = ends.count_ones();
            if runs <= here {
                break;
            }
            runs -= here;
            at.block += 1;
            ends = self.run_ends(&self.header(at.block));
        }
        let (low, high) = (ends as u64, (ends >> 64) as u64);
        let in_low = low.count_ones();
        let last = if runs <= in_low {
            select.select(low, runs - 1)
        } else {
            select.select(high, runs - in_low - 1) + 64
        };
        let index = last + 1;
        if index >= slots { SlotIndex::first(at.block + 1) } else { SlotIndex::of(at.block, index) }
    }

    #[inline(always)]
    pub(crate) fn slot_after(&self, block: usize, distance: u32) -> SlotIndex {
        let slots = u32::from(self.slots).max(1);
        SlotIndex::of(block + (distance / slots) as usize, distance % slots)
    }

    /// Returns the slot that is `distance` slots after another one.
    #[inline(always)]
    pub(crate) fn slot_behind(&self, slot: SlotIndex, distance: u32) -> SlotIndex {
        self.slot_after(slot.block, slot.index() + distance)
    }

    /// Calls `visit` with the value of each slot of the run that begins at `start`, until it returns false.
    #[inline(always)]
    pub(crate) fn scan(&self, start: SlotIndex, mut visit: impl FnMut(u64) -> bool) {
        let block = self.block(start.block);
        let ends = Header::of(block).ends_from(start.index()) as u64;
        let (width, run) = (u32::from(self.width), ends.trailing_zeros() + 1);
        if ends != 0 && start.index() + run <= self.slots.into() {
            // The whole run is in this block.
            let mut bit = self.slot_bit(start.index());
            let end = bit + run * width;
            while bit < end {
                if !visit(bits_at(block, bit, width)) {
                    return;
                }
                bit += width;
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
        for _ in 0..usize::from(self.slots) * self.blocks() {
            let block = self.block(at.block);
            if !visit(at, bits_at(block, self.slot_bit(at.index()), self.width.into())) || self.is_run_end(at)
            {
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
        let index = slot.index() + slots;
        match index.checked_sub(self.slots.into()) {
            Some(index) => SlotIndex::of(slot.block + 1, index),
            None => SlotIndex::of(slot.block, index),
        }
    }

    #[inline(always)]
    pub(super) fn is_run_end(&self, at: SlotIndex) -> bool {
        self.header(at.block).ends_from(at.index()) & 1 == 1
    }

    /// Returns the bucket of a slot of a block whose runs begin at `start`.
    pub(super) fn bucket_of(&self, block: usize, start: SlotIndex, at: SlotIndex) -> u32 {
        let runs = (start.block..=at.block).map(|here| {
            let from = if here == start.block { start.index() } else { 0 };
            let to = if here == at.block { at.index() } else { self.slots.into() };
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
        mut visit: impl FnMut(usize, u64),
    ) -> usize {
        let (width, length) = (u32::from(self.width), self.length(block));
        let (mut at, mut index) = (self.slot_after(block, self.header(block).offset), 0usize);
        let together = (64 / width.max(1)) as usize;
        count_slots(|| length);
        while index < length {
            let (words, mut bit) = (self.block(at.block), self.slot_bit(at.index()));
            let here = (length - index).min((u32::from(self.slots) - at.index()) as usize);
            let end = index + here;
            while index < end {
                let slots = together.min(end - index);
                let bits = slots as u32 * width;
                let values = bits_at(words, bit, bits);
                let mut marks = mark(values) & u64::MAX >> ((64 - bits) & 63);
                while marks != 0 {
                    let first = marks.trailing_zeros();
                    let value = values >> first & u64::MAX >> ((64 - width) & 63);
                    visit(index + (first / width.max(1)) as usize, value);
                    marks &= marks - 1;
                }
                (index, bit) = (index + slots, bit + bits);
            }
            at = self.after(at, here as u32);
        }
        length
    }

    /// Calls `visit` with the bucket and the value of each slot of a block, in the order of its buckets.
    #[inline(always)]
    pub(crate) fn visit_block(&self, block: usize, mut visit: impl FnMut(u8, u64)) {
        let header = self.header(block);
        let mut occupied = header.occupied;
        count_slots(|| self.length(block));
        if occupied == 0 {
            return;
        }
        let (slots, width) = (u32::from(self.slots), u32::from(self.width));
        let mask = u64::MAX >> ((64 - width) & 63);
        let mut bucket = byte(occupied.trailing_zeros());
        let mut at = self.slot_after(block, header.offset);
        for _ in 0..=self.blocks() {
            let words = self.block(at.block);
            let mut ends = Header::of(words).ends_from(at.index());
            // Reads each word once: slots are taken from its low bits until fewer bits are left than a slot has.
            let bit = self.slot_bit(at.index());
            let mut rest = words.iter();
            // What is behind the last word is 0, and never part of a slot: here and below.
            let mut word = rest.nth((bit / 64) as usize).copied().unwrap_or(0) >> (bit % 64);
            let mut left = 64 - bit % 64;
            for _ in at.index()..slots {
                let mut value = word;
                if left < width {
                    let next = rest.next().copied().unwrap_or(0);
                    let taken = width - left;
                    value |= next << left;
                    word = next >> 1 >> ((taken - 1) & 63);
                    left = 64 - taken;
                } else {
                    word = word >> 1 >> ((width - 1) & 63);
                    left -= width;
                }
                visit(bucket, value & mask);
                if ends & 1 == 1 {
                    occupied &= occupied - 1;
                    if occupied == 0 {
                        return;
                    }
                    bucket = byte(occupied.trailing_zeros());
                }
                ends >>= 1;
            }
            at = SlotIndex::first(at.block + 1);
        }
    }

    /// Returns the number of used slots, counted from the run ends. O(blocks).
    pub(crate) fn counted_slots(&self) -> usize {
        (0..self.blocks()).map(|block| self.length(block)).sum()
    }

    /// Returns the number of slots that the runs of a block take.
    pub(crate) fn length(&self, block: usize) -> usize {
        let header = self.header(block);
        let runs = header.occupied.count_ones();
        if runs == 0 {
            return 0;
        }
        let (start, slots) = (self.slot_after(block, header.offset), usize::from(self.slots));
        let end = self.skip_runs(block, &header, runs, PortableSelect);
        let blocks = end.block - start.block;
        blocks * slots + end.index() as usize - start.index() as usize
    }
}
