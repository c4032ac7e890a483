//! Sizes: how many blocks of how many slots a segment has, and how many segments a table has.
//!
//! The sizes are part of the format. They decide when a segment is enlarged and when a table grows, and primaries and
//! replicas must do both at the same time.

use crate::words::low_bits;

/// Buckets of a block.
pub(super) const BUCKETS: u32 = 64;
/// The most bits of a slot: the words of a block can be moved by as many bits.
pub(super) const SLOT_MAX_BITS: u32 = 63;
/// The bits of the hash that choose a bucket in a block.
pub(super) const BUCKET_BITS: u32 = BUCKETS.ilog2();
/// The most slots of a block: the first three words have space for the run ends of 112 slots.
pub(super) const SLOTS_MAX: u32 = 112;
/// Logarithm of the most blocks of a segment.
pub(super) const BLOCKS_LOG_MAX: u32 = 6;
/// Most blocks of a segment.
pub(super) const BLOCKS_MAX: usize = 1 << BLOCKS_LOG_MAX;
/// Most slots in use of a segment of [`BLOCKS_MAX`] blocks.
pub(super) const USED_MAX: usize = SegmentShape::most_slots(BLOCKS_LOG_MAX);
/// The bit of a block at which its run ends begin. Before them are a bit per bucket, and the offset.
pub(super) const RUN_ENDS_AT: u32 = 80;
/// Words before the slots of a block with [`SLOTS_MAX`] slots. No block has fewer words.
const HEADER_WORDS: usize = 3;
/// The smallest allocation of a segment, in words.
const WORDS_MIN: usize = 4;
/// Logarithm of the most segments of a table. A table of 2^40 items has a quarter of them.
pub(super) const SEGMENTS_MAX_LOG: u32 = 30;
/// Buckets of a segment of [`BLOCKS_MAX`] blocks.
pub(super) const SEGMENT_BUCKETS: u64 = (BUCKETS as u64) << BLOCKS_LOG_MAX;

/// The size of a segment: the number of its blocks, the slots of each block, and the width of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentShape {
    /// Logarithm of the number of blocks, at most [`BLOCKS_LOG_MAX`].
    pub(super) blocks_log: u32,
    /// Slots of a block, at most [`SLOTS_MAX`].
    pub(super) slots: u32,
    /// Bits of a slot, 1 to [`SLOT_MAX_BITS`].
    pub(super) width: u32,
    /// Words of the allocation: those of the blocks, rounded up to a size class of allocators.
    pub(super) words: usize,
}

/// Returns a number below 256 as a byte.
///
/// # Panics
/// If the number is larger.
#[inline(always)]
#[expect(clippy::expect_used, reason = "a number that is cut would damage a segment without an error")]
pub(super) fn byte(number: u32) -> u8 {
    u8::try_from(number).expect("a number below 256")
}

/// A segment or a block would have more slots in use than it may have. Honest tables never need so many: a table grows
/// before, and buckets become saturated. The entries of crafted items may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooFull;

impl SegmentShape {
    /// Returns the smallest shape with room for `used` slots; `None` if there is none.
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

    /// Returns the most slots that a segment of 2^`blocks_log` blocks can use.
    pub(super) const fn most_slots(blocks_log: u32) -> usize {
        Self { blocks_log, slots: SLOTS_MAX, width: 1, words: 0 }.used_max()
    }

    /// Returns the shape with the most slots for an allocation of `words` words.
    pub(super) fn of_words(blocks_log: u32, width: u32, words: usize) -> Self {
        // Fewer words than those of the first slot have none.
        let slot_bits = ((words >> blocks_log) * 64).saturating_sub(RUN_ENDS_AT as usize);
        let slots = (slot_bits / (width as usize + 1)).min(SLOTS_MAX as usize) as u32;
        let mut shape = Self { blocks_log, slots, width, words };
        if slots == SLOTS_MAX {
            // Blocks of the largest size may need fewer words than `words`.
            shape.words = rounded_up(shape.block_words() << blocks_log, blocks_log);
        }
        shape
    }

    /// Returns the smallest shape with room for `used` slots, and the same number of blocks and width of slots.
    pub(super) fn resized_for(&self, used: usize) -> Option<Self> {
        Self::for_slots(self.blocks_log, self.width, used)
    }

    /// Returns a smaller shape with room for `used` slots and 1/16 more, and for at least `least` slots; `None` if
    /// there is none.
    pub(super) fn reduced_for(&self, used: usize, least: usize) -> Option<Self> {
        let wanted = Self::reduced_slots(used).max(least);
        // Shortcuts: mostly the next smaller shape has too few slots, and often it is known without that shape.
        if Self::is_least_for(wanted, self.used_max()) || wanted > self.next_smaller().used_max() {
            return None;
        }
        self.resized_for(wanted).filter(|shape| shape.words < self.words)
    }

    /// Returns for how many slots a smaller shape has room if `used` are in use.
    #[inline(always)]
    pub(super) const fn reduced_slots(used: usize) -> usize {
        used + used / 16 + 1
    }

    /// Returns whether it is known that no smaller shape has room for `wanted` slots than one for `used_max`.
    #[inline(always)]
    pub(super) const fn is_least_for(wanted: usize, used_max: usize) -> bool {
        wanted > used_max / 16 * 15
    }

    /// Returns the shape with the most slots for the next smaller allocation.
    fn next_smaller(&self) -> Self {
        let below = self.words - 1;
        Self::of_words(self.blocks_log, self.width, below - below % step(below, self.blocks_log))
    }

    /// Returns whether each block has slots and all blocks fit the allocation. A segment without an allocation is
    /// valid.
    pub(super) const fn is_possible(&self) -> bool {
        self.words == 0 || self.slots > 0 && self.block_words() << self.blocks_log <= self.words
    }

    /// Returns a number of slots in use, if the segment may have so many.
    pub(super) fn checked_used(&self, used: usize) -> Result<u16, TooFull> {
        u16::try_from(used).ok().filter(|_| used <= self.used_max()).ok_or(TooFull)
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.words as u64 * 8
    }

    pub(super) const fn block_words(&self) -> usize {
        let words = (RUN_ENDS_AT + self.slots * (self.width + 1)).div_ceil(64) as usize;
        if words < HEADER_WORDS { HEADER_WORDS } else { words }
    }

    /// Returns how many slots may be used. Some must stay free, because an add moves all slots up to the next free one.
    /// At 31/32 these are the slots of a few blocks. At 7/8 they would be fewer, but the table a tenth larger.
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

/// Returns a number of words, rounded up to a size class of common allocators: steps of 16 bytes up to 128 bytes, then
/// four steps per power of two. Segments of fewer than 32 blocks take two steps per power of two, because growing is
/// most of the work of a small table.
const fn rounded_up(words: usize, blocks_log: u32) -> usize {
    let step = step(if words > 1 { words - 1 } else { 1 }, blocks_log);
    words.div_ceil(step) * step
}

/// Returns the step from the largest size class that is not above a number of words, which is not 0, to the next one.
const fn step(words: usize, blocks_log: u32) -> usize {
    let (log, steps_log) = (words.ilog2(), if blocks_log < 5 { 1 } else { 2 });
    if log < 4 { 2 } else { 1 << (log - steps_log) }
}

/// The size of a table: one segment with any number of blocks, or several segments with the most blocks.
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

    /// Returns this size; if that is far too large for `load` slots, one that is large enough for them.
    pub(super) fn at_most_for(self, load: u64) -> Self {
        self.min(Self::for_slots(load * 2))
    }

    pub(super) fn of_blocks(size_log: u32) -> Self {
        let blocks_log = size_log.min(BLOCKS_LOG_MAX);
        Self { blocks_log, segments: 1 << (size_log - blocks_log).min(SEGMENTS_MAX_LOG) }
    }

    /// Returns whether a table can have this size.
    pub(super) fn is_possible(self) -> bool {
        self.segments == 1 && self.blocks_log <= BLOCKS_LOG_MAX
            || self.blocks_log == BLOCKS_LOG_MAX && (1..=1 << SEGMENTS_MAX_LOG).contains(&self.segments)
    }

    /// Returns the number of slots in use above which a table of this size grows. A table of one block grows when it is
    /// full. For other tables the number is 1.4 per bucket before a round of splits. During the round it rises to 1.6
    /// per bucket that the table had before the round.
    pub(super) fn slots_before_growth(self) -> u64 {
        match self.blocks_log {
            0 => SLOTS_MAX.into(),
            BLOCKS_LOG_MAX => ((6u64 << depth(self.segments)) + self.segments as u64) * SEGMENT_BUCKETS / 5,
            _ => (u64::from(BUCKETS) << self.blocks_log) * 7 / 5,
        }
    }

    /// Returns the number of slots in use above which the table has ended its current doubling.
    #[inline(always)]
    pub(super) fn slots_before_doubling(self) -> u64 {
        if self.segments == 1 {
            return self.slots_before_growth();
        }
        // This is `slots_before_growth` of the largest size of the round of splits.
        ((8u64 << depth(self.segments)) - 1) * SEGMENT_BUCKETS / 5
    }

    /// Returns how many low bits of the hash choose segment `number`.
    pub(super) fn depth_of(self, number: usize) -> u32 {
        depth_of(self.segments, number)
    }

    /// Returns how many bits of the hash choose one of the blocks of segment `number`.
    #[inline(always)]
    pub(super) fn address_bits(self, number: usize) -> u32 {
        depth_of(self.segments, number) + self.blocks_log
    }

    pub(super) fn buckets(self) -> u64 {
        (self.segments as u64) << (self.blocks_log + BUCKET_BITS)
    }

    /// Returns the number of the segment that is split or doubled next.
    pub(super) fn next_to_grow(self) -> usize {
        self.segments - (1 << depth(self.segments))
    }

    /// Returns the size after the next growth: a small table doubles the blocks of its only segment, and a larger one
    /// gets one more segment.
    pub(super) fn after_growth(self) -> Self {
        if self.blocks_log < BLOCKS_LOG_MAX {
            Self { blocks_log: self.blocks_log + 1, ..self }
        } else {
            Self { segments: self.segments + 1, ..self }
        }
    }

    /// Returns the size of a table with twice as many blocks.
    pub(super) fn doubled(self) -> Self {
        if self.blocks_log < BLOCKS_LOG_MAX {
            Self { blocks_log: self.blocks_log + 1, ..self }
        } else {
            Self { segments: self.segments * 2, ..self }
        }
    }

    /// Returns the size before the last growth; `None` for the smallest size.
    pub(super) fn before_growth(self) -> Option<Self> {
        if self.segments > 1 {
            return Some(Self { segments: self.segments - 1, ..self });
        }
        Some(Self { segments: 1, blocks_log: self.blocks_log.checked_sub(1)? })
    }
}

/// Returns the logarithm of a number of segments, rounded down. It is the depth of the segments that have not been
/// split in this round.
#[inline(always)]
pub(super) fn depth(segments: usize) -> u32 {
    63u32 - (segments as u64 | 1).leading_zeros()
}

/// Returns the depth of segment `number`: how many low bits of the hash choose it among `segments` segments.
#[inline(always)]
pub(super) fn depth_of(segments: usize, number: usize) -> u32 {
    let depth = depth(segments);
    let mask = low_bits(depth) as usize;
    // The segments with numbers below those of `segments` without its highest bit have been split in this round.
    depth + u32::from(number & mask < segments & mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::murmur3::hash128;

    /// Every size is that of all releases, or a replica of another release would differ.
    #[test]
    fn every_size_is_chosen_as_before() {
        let mut digest = [0u64; 3];
        let mut add = |index: usize, words: &[u64]| {
            let bytes: Vec<u8> =
                words.iter().chain(&[digest[index]]).flat_map(|word| word.to_le_bytes()).collect();
            digest[index] = hash128(&bytes).h1;
        };
        let words = |shape: Option<SegmentShape>| {
            shape.map_or([0; 5], |shape| {
                [
                    shape.slots.into(),
                    shape.words as u64,
                    shape.bytes(),
                    shape.block_words() as u64,
                    shape.used_max() as u64,
                ]
            })
        };
        for (blocks_log, width) in
            (0..=BLOCKS_LOG_MAX).flat_map(|blocks_log| (1..=64).map(move |width| (blocks_log, width)))
        {
            let most = SegmentShape::most_slots(blocks_log);
            let mut before = None;
            for used in 0..=most + 1 {
                let shape = SegmentShape::for_slots(blocks_log, width, used);
                if shape == before {
                    continue;
                }
                before = shape;
                add(0, &[used as u64]);
                add(0, &words(shape));
                let Some(shape) = shape else { continue };
                for reduced in [0, used / 16, used / 2, used / 16 * 14, used / 16 * 15]
                    .map(|used| shape.reduced_for(used, used))
                {
                    add(0, &words(reduced));
                }
                // The next smaller and larger allocations.
                for allocated in shape.words.saturating_sub(9)..shape.words + 9 {
                    let shape = SegmentShape::of_words(blocks_log, width, allocated);
                    let exact = SegmentShape { words: allocated, ..shape };
                    add(1, &words(Some(shape)));
                    add(1, &[shape.is_possible().into(), exact.is_possible().into()]);
                }
            }
        }
        let sizes = (0..=BLOCKS_LOG_MAX).map(|blocks_log| TableSize { blocks_log, segments: 1 });
        let larger = (2..1200).chain(
            (11..=SEGMENTS_MAX_LOG).flat_map(|log| [(1 << log) - 1, 1 << log, (1 << log) + (1 << log) / 3]),
        );
        for size in sizes.chain(larger.map(|segments| TableSize { blocks_log: BLOCKS_LOG_MAX, segments })) {
            let [grown, doubled] = [size.after_growth(), size.doubled()];
            let before = size.before_growth().map_or(0, |before| before.buckets());
            add(
                2,
                &[
                    size.slots_before_growth(),
                    size.slots_before_doubling(),
                    size.buckets(),
                    size.next_to_grow() as u64,
                ],
            );
            add(2, &[grown.buckets(), doubled.buckets(), before]);
            for used in [0, 1].map(|more| size.slots_before_growth() + more) {
                add(2, &[TableSize::for_slots(used).buckets()]);
            }
            for number in [0, 1, size.segments / 3, size.segments / 2, size.segments - 1] {
                add(2, &[size.depth_of(number).into(), size.address_bits(number).into()]);
            }
            let other = TableSize { blocks_log: 3, ..size };
            add(2, &[size, grown, doubled, other].map(|size| u64::from(size.is_possible())));
        }
        for size_log in 0..=SEGMENTS_MAX_LOG + BLOCKS_LOG_MAX + 1 {
            let size = TableSize::of_blocks(size_log);
            add(2, &[size.buckets(), size.segments as u64]);
        }
        assert_eq!(
            digest,
            [0x57ea_0bd2_73b2_f37d, 0xed68_8b38_a2aa_a443, 0x776b_8ce4_3a81_bc8c],
            "{digest:#x?}"
        );
    }

    /// A segment with memory has slots.
    #[test]
    fn a_shape_without_slots_is_impossible() {
        let shape = SegmentShape::of_words(0, 64, WORDS_MIN);
        assert!(shape.is_possible());
        assert!(!SegmentShape { slots: 0, ..shape }.is_possible());
        assert!(SegmentShape { slots: 0, words: 0, ..shape }.is_possible());
    }
}
