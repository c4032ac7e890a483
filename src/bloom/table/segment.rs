//! One segment of a table: a rank-and-select quotient filter in one allocation.
//!
//! A segment has a power of two of *blocks*, and a block has 64 *buckets*. The entries of a bucket are its *run*:
//! consecutive slots. A block is, bit by bit:
//!
//! | bits | content |
//! |---|---|
//! | 64 | occupied: bit `b` is set if bucket `b` has a run |
//! | 16 | offset: slots from the start of this block on that runs of earlier blocks take |
//! | `C` | run ends: bit `s` is set if slot `s` is the last of its run |
//! | `C` times the width | the slots |
//!
//! and clear bits up to a whole number of words. All blocks of a segment have the same capacity `C`. Runs are stored in
//! the order of their buckets, packed from the start of their block on; what does not fit continues in the next block,
//! and after the last block in the first. So the run of a bucket begins `offset` slots and as many run ends after the
//! start of its block as there are occupied buckets before it.
//!
//! Source: Pandey, Bender, Johnson, Patro, "A general-purpose counting filter: making every bit count" (SIGMOD 2017).

use super::select::{PortableSelect, Select};
use crate::bloom::memory::OutOfMemory;
use crate::bloom::prefetch::Prefetch;

/// Buckets of a block.
pub(super) const BUCKETS: u32 = 64;
/// Most slots of a block: all its run ends are in the first three words.
pub(super) const SLOTS_MAX: u32 = 112;
/// Logarithm of the most blocks of a segment.
pub(super) const BLOCKS_LOG_MAX: u32 = 6;
/// Most blocks of a segment.
pub(super) const BLOCKS_MAX: usize = 1 << BLOCKS_LOG_MAX;
/// Most slots in use of a segment of [`BLOCKS_MAX`] blocks.
pub(super) const USED_MAX: usize =
    Shape { blocks_log: BLOCKS_LOG_MAX, slots: SLOTS_MAX, width: 1, words: 0 }.used_max();
/// Words before the slots of a block with [`SLOTS_MAX`] slots.
const HEADER_WORDS: usize = 3;
/// Bits of a block before its run ends.
const RUN_ENDS_AT: u32 = 80;
/// Bits of the second word before its run ends.
const OFFSET_BITS: u32 = 16;
/// Smallest size of a segment, in words.
const WORDS_MIN: usize = 4;

/// The size of a segment: how many blocks of how many slots, and how wide these are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Logarithm of the number of blocks, at most [`BLOCKS_LOG_MAX`].
    pub(super) blocks_log: u32,
    /// Slots of a block, at most [`SLOTS_MAX`].
    pub(super) slots: u32,
    /// Bits of a slot, 1 to 64.
    pub(super) width: u32,
    /// Words of the allocation: those of the blocks, rounded up to a size of allocators.
    pub(super) words: usize,
}

impl Shape {
    /// Returns the smallest shape of which `used` slots can be used, at least one; `None` if there is none.
    pub(super) fn for_slots(blocks_log: u32, width: u32, used: usize) -> Option<Self> {
        let blocks = 1usize << blocks_log;
        let least_bits = used / blocks * (width as usize + 1);
        let mut words = (blocks * (least_bits / 64 + 2)).max(WORDS_MIN).max(blocks * HEADER_WORDS);
        loop {
            words = rounded_up(words, blocks_log);
            let shape = Self::of_words(blocks_log, width, words);
            if shape.used_max() >= used {
                return Some(shape);
            }
            if shape.slots == SLOTS_MAX {
                return None;
            }
            words += 1;
        }
    }

    /// Returns the shape that fills an allocation.
    pub(super) fn of_words(blocks_log: u32, width: u32, words: usize) -> Self {
        let block_bits = u32::try_from((words >> blocks_log).saturating_mul(64)).unwrap_or(u32::MAX);
        let slots = (block_bits.saturating_sub(RUN_ENDS_AT) / (width + 1)).min(SLOTS_MAX);
        let mut shape = Self { blocks_log, slots, width, words };
        if slots == SLOTS_MAX {
            // The largest blocks may not need all of it.
            shape.words = rounded_up(shape.block_words() << blocks_log, blocks_log);
        }
        shape
    }

    /// Returns whether the blocks have slots and fit the allocation, or there is no allocation.
    pub(super) const fn is_possible(&self) -> bool {
        self.words == 0 || self.slots > 0 && self.block_words() << self.blocks_log <= self.words
    }

    /// Returns the bytes of the allocation.
    pub(super) const fn bytes(&self) -> u64 {
        (self.words as u64).saturating_mul(8)
    }

    /// Returns the words of a block.
    pub(super) const fn block_words(&self) -> usize {
        let words = (RUN_ENDS_AT + self.slots * (self.width + 1)).div_ceil(64) as usize;
        if words < HEADER_WORDS { HEADER_WORDS } else { words }
    }

    /// Returns how many slots may be used. Some stay free, or an add would move very many slots.
    pub(super) const fn used_max(&self) -> usize {
        let slots = (self.slots as usize) << self.blocks_log;
        if self.blocks_log == 0 {
            slots
        } else if self.slots == SLOTS_MAX {
            slots - (1 << self.blocks_log)
        } else {
            slots / 32 * 31
        }
    }
}

/// Returns the next size of an allocation, in words, at which common allocators have a size class: steps of 16 bytes
/// up to 128, then four steps per power of two. Segments of few blocks skip every other size, because growing is most
/// of the work of a small table. The sizes are part of the format: they decide when a segment grows.
pub(super) const fn rounded_up(words: usize, blocks_log: u32) -> usize {
    let log = if words > 1 { (words - 1).ilog2() } else { 0 };
    let steps_log = if blocks_log < 5 { 1 } else { 2 };
    let step = if log < 4 { 2 } else { 1 << (log - steps_log) };
    words.div_ceil(step) * step
}

/// A slot, by block and index in the block. The number of the block may exceed those of the segment: it counts on after
/// the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) block: usize,
    pub(super) index: u32,
}

/// A segment.
#[derive(Debug, Default)]
pub(super) struct Segment {
    words: Box<[u64]>,
    /// The generation of its last compaction, for entries that expire.
    pub(super) stamp: u64,
    /// Slots in use.
    used: u16,
    slots: u8,
    block_words: u8,
    width: u8,
    blocks_log: u8,
    /// The number of blocks, less one.
    block_mask: u8,
}

// The directory of a large table has one for some thousand items, and a small filter has one in its struct.
const _: () = assert!(size_of::<Segment>() == 32);

/// The fixed words at the start of a block.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) occupied: u64,
    pub(super) offset: u32,
    /// The run ends, and above them bits of slots.
    ends: u128,
}

impl Header {
    /// Returns whether a bucket has a run.
    #[inline(always)]
    pub(super) fn is_occupied(&self, bucket: u32) -> bool {
        self.occupied >> (bucket & 63) & 1 == 1
    }

    #[inline(always)]
    fn of(block: &[u64]) -> Self {
        let &[occupied, low, high, ..] = block else { return Self { occupied: 0, offset: 0, ends: 0 } };
        let ends = (u128::from(low) | u128::from(high) << 64) >> OFFSET_BITS;
        Self { occupied, offset: low as u32 & 0xffff, ends }
    }
}

impl Segment {
    /// Returns an empty segment without an allocation.
    pub(super) fn new(blocks_log: u32, width: u32) -> Self {
        Self::empty(Shape { blocks_log, width, slots: 0, words: 0 }, Box::default())
    }

    /// Creates an empty segment.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn try_new(shape: Shape) -> Result<Self, OutOfMemory> {
        let words = bytemuck::allocation::try_zeroed_slice_box(shape.words).map_err(|()| OutOfMemory)?;
        Ok(Self::empty(shape, words))
    }

    /// Returns a segment of existing words, which may break rules.
    pub(super) fn of_words(shape: Shape, words: Box<[u64]>, stamp: u64) -> Self {
        let mut segment = Self { stamp, ..Self::empty(shape, words) };
        let used = (0..segment.blocks()).map(|block| usize::from(segment.length(block))).sum();
        segment.set_used(used);
        segment
    }

    /// Makes a copy with its own memory.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let mut words = Vec::new();
        words.try_reserve_exact(self.words.len()).map_err(|_| OutOfMemory)?;
        words.extend_from_slice(&self.words);
        Ok(Self { words: words.into_boxed_slice(), ..*self })
    }

    /// Passes the allocation to `relocate`, which may move it.
    pub(super) fn relocate(&mut self, relocate: impl FnOnce(&mut Vec<u64>)) {
        // A boxed slice is a vector without spare capacity: the conversion moves nothing.
        let mut words = std::mem::take(&mut self.words).into_vec();
        relocate(&mut words);
        self.words = words.into_boxed_slice();
    }

    fn empty(shape: Shape, words: Box<[u64]>) -> Self {
        Self {
            words,
            stamp: 0,
            used: 0,
            slots: shape.slots as u8,
            block_words: shape.block_words() as u8,
            width: shape.width as u8,
            blocks_log: shape.blocks_log as u8,
            block_mask: ((1 << shape.blocks_log) - 1) as u8,
        }
    }

    /// Returns the shape.
    pub(super) fn shape(&self) -> Shape {
        Shape {
            blocks_log: self.blocks_log.into(),
            slots: self.slots.into(),
            width: self.width.into(),
            words: self.words.len(),
        }
    }

    /// Returns the number of used slots.
    #[inline(always)]
    pub(super) fn used(&self) -> usize {
        self.used.into()
    }

    /// Returns the allocation.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the allocation, without a copy.
    pub(super) fn into_words(self) -> Box<[u64]> {
        self.words
    }

    /// Returns the number of blocks.
    #[inline(always)]
    pub(super) fn blocks(&self) -> usize {
        usize::from(self.block_mask).wrapping_add(1)
    }

    /// Returns the number of blocks, less one.
    #[inline(always)]
    pub(super) fn block_mask(&self) -> usize {
        self.block_mask.into()
    }

    /// Returns the logarithm of the number of blocks.
    #[inline(always)]
    pub(super) fn blocks_log(&self) -> u32 {
        self.blocks_log.into()
    }

    /// Returns the bits of a slot.
    #[inline(always)]
    pub(super) fn width(&self) -> u32 {
        self.width.into()
    }

    /// Returns the words of a block.
    #[inline(always)]
    fn block(&self, block: usize) -> &[u64] {
        let words = usize::from(self.block_words);
        let start = (block & self.block_mask()).wrapping_mul(words);
        self.words.get(start..start.wrapping_add(words)).unwrap_or(&[])
    }

    #[inline(always)]
    fn block_mut(&mut self, block: usize) -> &mut [u64] {
        let words = usize::from(self.block_words);
        let start = (block & self.block_mask()).wrapping_mul(words);
        self.words.get_mut(start..start.wrapping_add(words)).unwrap_or(&mut [])
    }

    #[inline(always)]
    pub(super) fn header(&self, block: usize) -> Header {
        Header::of(self.block(block))
    }

    /// Returns the bit of a block at which a slot begins.
    #[inline(always)]
    fn slot_bit(&self, index: u32) -> u32 {
        index.wrapping_mul(self.width.into()).wrapping_add(RUN_ENDS_AT).wrapping_add(self.slots.into())
    }

    #[inline(always)]
    fn run_ends(&self, header: &Header) -> u128 {
        header.ends & low_bits_128(self.slots.into())
    }

    /// Prefetches the memory of a block.
    #[inline(always)]
    pub(super) fn prefetch(&self, block: usize, prefetch: impl Prefetch) {
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
    pub(super) fn prefetch_header(&self, block: usize, prefetch: impl Prefetch) {
        if let Some(word) = self.block(block).first() {
            prefetch.prefetch(word);
        }
    }

    /// Returns how many slots may be used.
    #[inline(always)]
    pub(super) fn used_max(&self) -> usize {
        self.shape().used_max()
    }

    /// Returns where the run of a bucket begins, or would begin.
    #[inline(always)]
    pub(super) fn run_start(&self, block: usize, header: &Header, bucket: u32, select: impl Select) -> Slot {
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
                return Slot { block, index };
            }
        }
        self.skip_runs(block, header, runs, select)
    }

    /// Returns the slot after the first `runs` runs of a block.
    #[inline(never)]
    fn skip_runs(&self, block: usize, header: &Header, mut runs: u32, select: impl Select) -> Slot {
        let slots = u32::from(self.slots).max(1);
        let mut at = self.slot_after(block, header.offset);
        if runs == 0 {
            return at;
        }
        let mut ends = self.run_ends(&self.header(at.block)) >> at.index << at.index;
        // Every run has an end, so the blocks of one turn have them all.
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
        if index >= slots { Slot { block: at.block.wrapping_add(1), index: 0 } } else { Slot { index, ..at } }
    }

    /// Returns the slot that is `distance` after the start of a block.
    #[inline(always)]
    pub(super) fn slot_after(&self, block: usize, distance: u32) -> Slot {
        let slots = u32::from(self.slots).max(1);
        Slot { block: block.wrapping_add((distance / slots) as usize), index: distance % slots }
    }

    /// Visits the slots of the run that begins at `start`, until `visit` returns false.
    #[inline(always)]
    pub(super) fn scan(&self, start: Slot, mut visit: impl FnMut(u64) -> bool) {
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
    pub(super) fn run_has(&self, start: Slot, mut is_match: impl FnMut(u64) -> bool) -> bool {
        let mut found = false;
        self.scan(start, |value| {
            found = is_match(value);
            !found
        });
        found
    }

    /// Visits the slots of the run that begins at `start`, until `visit` returns false.
    #[inline(always)]
    pub(super) fn visit_run(&self, start: Slot, mut visit: impl FnMut(Slot, u64) -> bool) {
        let mut at = start;
        // A run is never longer than the segment.
        for _ in 0..usize::from(self.slots) << self.blocks_log {
            let block = self.block(at.block);
            if !visit(at, bits_at(block, self.slot_bit(at.index), self.width.into()))
                || Header::of(block).ends >> at.index & 1 == 1
            {
                return;
            }
            at = self.next(at);
        }
    }

    #[inline(always)]
    pub(super) fn next(&self, slot: Slot) -> Slot {
        let index = slot.index.wrapping_add(1);
        if index == self.slots.into() {
            Slot { block: slot.block.wrapping_add(1), index: 0 }
        } else {
            Slot { index, ..slot }
        }
    }

    /// Visits the slots of a block in the order of its buckets: the bucket and the value.
    #[inline(always)]
    pub(super) fn visit_block(&self, block: usize, mut visit: impl FnMut(u32, u64)) {
        let header = self.header(block);
        let mut occupied = header.occupied;
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
            // Slots are cut from a word, and the next one is read when its bits are used up.
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
            at = Slot { block: at.block.wrapping_add(1), index: 0 };
        }
    }

    /// Overwrites a slot.
    #[inline(always)]
    pub(super) fn set_slot(&mut self, at: Slot, value: u64) {
        let (bit, width) = (self.slot_bit(at.index), self.width.into());
        set_bits(self.block_mut(at.block), bit, width, value);
    }

    /// Adds a slot at the start of the run of a bucket of block `home`; the run begins at `start`, and does not exist
    /// yet if `is_new`. A slot must be free.
    #[inline(always)]
    pub(super) fn insert(&mut self, home: usize, bucket: u32, start: Slot, value: u64, is_new: bool) {
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
            let continues = self.block_mask > 0 && self.header(at.block.wrapping_add(1)).offset > 0;
            let (begin, end) = (self.slot_bit(at.index), self.slot_bit(slots));
            let block = self.block_mut(at.block);
            let [_, low, high, ..] = &mut *block else { return };
            let raw = u128::from(*low) | u128::from(*high) << 64;
            let ends = raw >> OFFSET_BITS & ends_mask;
            let used = if continues { slots } else { 128u32.wrapping_sub(ends.leading_zeros()) };
            let is_full = used == slots;
            // The ends from this slot on move up by one.
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
            at = Slot { block: at.block.wrapping_add(1), index: 0 };
            self.add_to_offset(at.block, 1);
        }
        self.used = self.used.wrapping_add(1);
    }

    #[inline(always)]
    fn add_to_offset(&mut self, block: usize, change: u64) {
        if let Some(word) = self.block_mut(block).get_mut(1) {
            *word = word.wrapping_add(change);
        }
    }

    /// Removes the first slot of the run of a bucket of block `home`; the run begins at `start`.
    pub(super) fn remove_first(&mut self, home: usize, bucket: u32, start: Slot) {
        let slots = u32::from(self.slots);
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
            let width = u32::from(self.width);
            let (begin, last_bit) = (self.slot_bit(at.index), self.slot_bit(slots.wrapping_sub(1)));
            let first = (bits_at(self.block(next), self.slot_bit(0), width), self.header(next).ends & 1);
            let capacity = u32::from(self.slots);
            let block = self.block_mut(at.block);
            let ends = Header::of(block).ends & low_bits_128(capacity);
            let used = if is_full { slots } else { 128u32.wrapping_sub(ends.leading_zeros()) };
            let end = begin.wrapping_add(used.wrapping_sub(at.index).wrapping_mul(width));
            shift_down(block, begin, end, width);
            let below = low_bits_128(at.index);
            let mut moved = (ends & below) | (ends >> 1 & !below);
            if is_full {
                set_bits(block, last_bit, width, first.0);
                moved |= first.1 << slots.wrapping_sub(1);
            }
            set_ends(block, moved, capacity);
            if !is_full {
                break;
            }
            self.add_to_offset(next, u64::MAX);
            at = Slot { block: next, index: 0 };
        }
        self.used = self.used.wrapping_sub(1);
    }
}

/// What builds a segment.
impl Segment {
    /// Sets how many slots of a block runs of earlier blocks take.
    pub(super) fn set_offset(&mut self, block: usize, offset: usize) {
        if let Some(word) = self.block_mut(block).get_mut(1) {
            *word = *word >> OFFSET_BITS << OFFSET_BITS | offset as u64 & 0xffff;
        }
    }

    /// Sets the number of used slots.
    pub(super) fn set_used(&mut self, used: usize) {
        self.used = u16::try_from(used).unwrap_or(u16::MAX);
    }

    /// Writes the slots of a block of an empty segment, in the order of their buckets. The offsets must be set.
    pub(super) fn write_block(&mut self, block: usize, slots: &[(u8, u64)]) {
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
                    // The run before ended in the slot before.
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
                    // The bits of the value that did not fit.
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
            at = Slot { block: at.block.wrapping_add(1), index: 0 };
        }
        if let Some(word) = self.block_mut(block).first_mut() {
            *word = occupied;
        }
    }

    /// Returns the number of slots of the runs of a block.
    pub(super) fn length(&self, block: usize) -> u16 {
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

    /// Copies the runs of a block, which take `length` slots, from a segment with slots of the same width.
    pub(super) fn copy_runs(&mut self, source: &Self, block: usize, length: u32) {
        let occupied = source.header(block).occupied;
        if let Some(word) = self.block_mut(block).first_mut() {
            *word = occupied;
        }
        let mut from = source.slot_after(block, source.header(block).offset);
        let mut to = self.slot_after(block, self.header(block).offset);
        let mut left = length;
        let (from_slots, to_slots, width) =
            (u32::from(source.slots), u32::from(self.slots), u32::from(self.width));
        while left > 0 {
            let step = left.min(from_slots.wrapping_sub(from.index)).min(to_slots.wrapping_sub(to.index));
            let (read, begin, end) =
                (source.block(from.block), source.slot_bit(from.index), self.slot_bit(to.index));
            let written = self.block_mut(to.block);
            copy_bits(
                read,
                RUN_ENDS_AT.wrapping_add(from.index),
                written,
                RUN_ENDS_AT.wrapping_add(to.index),
                step,
            );
            copy_bits(read, begin, written, end, step.wrapping_mul(width));
            left = left.wrapping_sub(step);
            from = source.slot_after(from.block, from.index.wrapping_add(step));
            to = self.slot_after(to.block, to.index.wrapping_add(step));
        }
    }
}

/// Returns a word of `count` low ones, at most 128.
#[inline(always)]
const fn low_bits_128(count: u32) -> u128 {
    match 1u128.checked_shl(count) {
        Some(bit) => bit.wrapping_sub(1),
        None => u128::MAX,
    }
}

/// Returns a word of `count` low ones, below 64.
#[inline(always)]
pub(super) const fn low_bits(count: u32) -> u64 {
    1u64.wrapping_shl(count).wrapping_sub(1)
}

/// Returns `width` bits of a block from `bit` on.
#[inline(always)]
fn bits_at(block: &[u64], bit: u32, width: u32) -> u64 {
    let (index, shift) = ((bit / 64) as usize, bit % 64);
    let low = block.get(index).copied().unwrap_or(0);
    let high = block.get(index.wrapping_add(1)).copied().unwrap_or(0);
    (low >> shift | high << 1 << (63 ^ shift)) & (u64::MAX >> (64u32.wrapping_sub(width) & 63))
}

/// Sets `width` bits of a block from `bit` on.
#[inline(always)]
fn set_bits(block: &mut [u64], bit: u32, width: u32, value: u64) {
    let (index, shift) = ((bit / 64) as usize, bit % 64);
    let mask = u64::MAX >> (64u32.wrapping_sub(width) & 63);
    if let Some(word) = block.get_mut(index) {
        *word = *word & !(mask << shift) | value << shift;
    }
    if shift.wrapping_add(width) > 64
        && let Some(word) = block.get_mut(index.wrapping_add(1))
    {
        *word = *word & !(mask >> 64u32.wrapping_sub(shift)) | value >> 64u32.wrapping_sub(shift);
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

/// Moves the bits from `begin` on up by `width`, to before `end`; the bits that would pass it are lost. All bits from
/// `end` on are clear.
#[inline(always)]
fn shift_up(block: &mut [u64], begin: u32, end: u32, width: u32) {
    let last = (end.wrapping_sub(1) / 64) as usize;
    let Some(words) = block.get_mut((begin / 64) as usize..=last) else { return };
    let Some((first, rest)) = words.split_first_mut() else { return };
    let (stay, rise) = (low_bits(begin % 64), 64u32.wrapping_sub(width) & 63);
    let moved = *first & !stay;
    *first = *first & stay | moved << width;
    let mut carry = moved >> rise;
    for word in rest {
        let moved = *word;
        *word = moved << width | carry;
        carry = moved >> rise;
    }
    if !end.is_multiple_of(64)
        && let Some(word) = block.get_mut(last)
    {
        *word &= low_bits(end % 64);
    }
}

/// Moves the bits from `begin + width` to before `end` down by `width`. All bits from `end` on are clear.
fn shift_down(block: &mut [u64], begin: u32, end: u32, width: u32) {
    let last = (end.wrapping_sub(1) / 64) as usize;
    let Some(words) = block.get_mut((begin / 64) as usize..=last) else { return };
    let Some((first, rest)) = words.split_first_mut() else { return };
    let (stay, rise) = (low_bits(begin % 64), 64u32.wrapping_sub(width) & 63);
    let mut carry = 0;
    for word in rest.iter_mut().rev() {
        let moved = *word;
        *word = moved >> width | carry;
        carry = moved << rise;
    }
    *first = *first & stay | (*first >> width | carry) & !stay;
}

/// Copies `count` bits of `source` from `from` on into the clear bits of `target` from `to` on.
fn copy_bits(source: &[u64], mut from: u32, target: &mut [u64], mut to: u32, mut count: u32) {
    while count > 0 {
        let shift = to % 64;
        let step = count.min(64u32.wrapping_sub(shift));
        if let Some(word) = target.get_mut((to / 64) as usize) {
            *word |= bits_at(source, from, step) << shift;
        }
        from = from.wrapping_add(step);
        to = to.wrapping_add(step);
        count = count.wrapping_sub(step);
    }
}
