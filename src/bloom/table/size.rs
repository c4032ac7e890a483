//! Sizes: how many blocks of how many slots a segment has, and how many segments a table has.
//!
//! All of them are part of the format: they decide when a segment is enlarged and when a table grows, so primaries and
//! replicas must agree on them.

use crate::bloom::words::low_bits;

/// Buckets of a block.
pub(super) const BUCKETS: u32 = 64;
/// Bits of the number of a bucket.
pub(super) const BUCKET_BITS: u32 = BUCKETS.ilog2();
/// Most slots of a block: all its run ends are in the first three words.
pub(super) const SLOTS_MAX: u32 = 112;
/// Logarithm of the most blocks of a segment.
pub(super) const BLOCKS_LOG_MAX: u32 = 6;
/// Most blocks of a segment.
pub(super) const BLOCKS_MAX: usize = 1 << BLOCKS_LOG_MAX;
/// Most slots in use of a segment of [`BLOCKS_MAX`] blocks.
pub(super) const USED_MAX: usize =
    SegmentShape { blocks_log: BLOCKS_LOG_MAX, slots: SLOTS_MAX, width: 1, words: 0 }.used_max();
/// Bits of a block before its run ends: a bit per bucket, and the offset.
pub(super) const RUN_ENDS_AT: u32 = 80;
/// Words before the slots of a block with [`SLOTS_MAX`] slots.
const HEADER_WORDS: usize = 3;
/// Smallest size of a segment, in words.
const WORDS_MIN: usize = 4;
/// Logarithm of the most segments of a table: 2^40 items have a quarter as many.
pub(super) const SEGMENTS_MAX_LOG: u32 = 30;
/// Buckets of a segment of the most blocks.
const SEGMENT_BUCKETS: u64 = (BUCKETS as u64) << BLOCKS_LOG_MAX;

/// The size of a segment: how many blocks of how many slots, and how wide these are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentShape {
    /// Logarithm of the number of blocks, at most [`BLOCKS_LOG_MAX`].
    pub(super) blocks_log: u32,
    /// Slots of a block, at most [`SLOTS_MAX`].
    pub(super) slots: u32,
    /// Bits of a slot, 1 to 64.
    pub(super) width: u32,
    /// Words of the allocation: those of the blocks, rounded up to a size of allocators.
    pub(super) words: usize,
}

impl SegmentShape {
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

    /// Returns the smallest shape with as many blocks, and slots as wide, that takes `used` slots.
    pub(super) fn resized_for(&self, used: usize) -> Option<Self> {
        Self::for_slots(self.blocks_log, self.width, used)
    }

    /// Returns a shape of fewer words for `used` slots and some more, if there is one that takes `least` slots.
    pub(super) fn reduced_for(&self, used: usize, least: usize) -> Option<Self> {
        let wanted = used.saturating_add(used / 16).saturating_add(1).max(least);
        // Most of the time the next smaller shape is too small.
        if wanted > self.used_max() / 16 * 15 {
            return None;
        }
        self.resized_for(wanted).filter(|shape| shape.words < self.words)
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
/// of the work of a small table.
const fn rounded_up(words: usize, blocks_log: u32) -> usize {
    let log = if words > 1 { (words - 1).ilog2() } else { 0 };
    let steps_log = if blocks_log < 5 { 1 } else { 2 };
    let step = if log < 4 { 2 } else { 1 << (log - steps_log) };
    words.div_ceil(step) * step
}

/// The size of a table: a segment with some blocks, or segments with the most blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TableSize {
    /// The logarithm of the number of blocks of a segment.
    pub(super) blocks_log: u32,
    pub(super) segments: usize,
}

impl TableSize {
    /// Returns the smallest size of a table with `used` slots in use.
    pub(super) fn for_slots(used: u64) -> Self {
        let fits = |size: Self| size.slots_before_growth() >= used;
        let blocks_log =
            (0..BLOCKS_LOG_MAX).find(|blocks_log| fits(Self { segments: 1, blocks_log: *blocks_log }));
        let mut size = Self { segments: 1, blocks_log: blocks_log.unwrap_or(BLOCKS_LOG_MAX) };
        let mut step = 1usize << 31;
        while step > 0 {
            if !fits(Self { segments: size.segments + step - 1, ..size }) {
                size.segments += step;
            }
            step /= 2;
        }
        size
    }

    /// Returns whether a table can have this size.
    pub(super) fn is_possible(self) -> bool {
        self.segments == 1 && self.blocks_log <= BLOCKS_LOG_MAX
            || self.blocks_log == BLOCKS_LOG_MAX && (1..=1 << SEGMENTS_MAX_LOG).contains(&self.segments)
    }

    /// Returns the most slots in use of a table of this size: 1.4 per bucket before a round of splits. At its end it is
    /// 1.6 per bucket that there was before the round.
    pub(super) fn slots_before_growth(self) -> u64 {
        match self.blocks_log {
            0 => SLOTS_MAX.into(),
            BLOCKS_LOG_MAX => {
                let before_round = 6u64.wrapping_shl(depth(self.segments));
                before_round.saturating_add(self.segments as u64).saturating_mul(SEGMENT_BUCKETS) / 5
            }
            _ => (u64::from(BUCKETS) << self.blocks_log) * 7 / 5,
        }
    }

    /// Returns how many low bits of the hash choose segment `number`.
    pub(super) fn depth_of(self, number: usize) -> u32 {
        depth_of(self.segments, number)
    }

    /// Returns how many bits of the hash choose one of the blocks of segment `number`.
    #[inline(always)]
    pub(super) fn address_bits(self, number: usize) -> u32 {
        depth_of(self.segments, number).wrapping_add(self.blocks_log)
    }

    /// Returns how many slots a bucket has, on average over items: some segments have been split in this round, and
    /// have half the load.
    pub(super) fn load(self, used: u64) -> f64 {
        let whole = (1u64 << depth(self.segments)) as f64;
        let load = used as f64 / (whole * (u64::from(BUCKETS) << self.blocks_log) as f64);
        load * (1.0 - (self.segments as f64 / whole - 1.0) / 2.0)
    }

    /// Returns the number of the segment that is split next, or of the only one if its blocks are doubled.
    pub(super) fn next_to_grow(self) -> usize {
        self.segments.wrapping_sub(1 << depth(self.segments))
    }

    /// Returns the size before the last growth; `None` of the smallest table.
    pub(super) fn before_growth(self) -> Option<Self> {
        if self.segments > 1 {
            return Some(Self { segments: self.segments.wrapping_sub(1), ..self });
        }
        Some(Self { segments: 1, blocks_log: self.blocks_log.checked_sub(1)? })
    }
}

/// Returns the largest depth that all of this number of segments have.
#[inline(always)]
pub(super) fn depth(segments: usize) -> u32 {
    63u32.wrapping_sub((segments as u64 | 1).leading_zeros())
}

/// Returns how many low bits of the hash choose segment `number` of this many: its depth.
#[inline(always)]
pub(super) fn depth_of(segments: usize, number: usize) -> u32 {
    let depth = depth(segments);
    let split = segments.wrapping_sub(1usize.wrapping_shl(depth));
    // The segments before `split` have been split already.
    depth.wrapping_add(((number & low_bits(depth) as usize) < split).into())
}
