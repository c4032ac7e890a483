//! The lengths of remainders, with which a table keeps its error rate at any size.
//!
//! An entry matches an absent item with a probability of 2^-`b`, where `b` is the number of hash bits that the add
//! used: for the address, the bucket and the remainder. A split does not change `b`, because it moves a bit from the
//! remainder to the address. So the error rate is at most the sum of these probabilities over all entries. If all
//! remainders had the same length, every doubling of the table would add the same amount to the sum. To bound the sum,
//! it is enough that the length grows with the logarithm of the number of doublings (Pagh, Segev, Wieder, "How to
//! approximate a set without knowing its size in advance", FOCS 2013).

use super::entry::EntryKind;
use super::size::{
    BLOCKS_LOG_MAX, BUCKETS, SEGMENTS_MAX_LOG, SLOT_MAX_BITS, SegmentShape, TableSize, byte, depth,
};
use crate::generation::Steps;

/// The longest remainder. With eight bits of a generation only shorter ones fit a slot.
pub(super) const REMAINDER_MAX_BITS: u32 = 58;
/// The largest size of a table, as the logarithm of the number of blocks.
const SIZE_LIMIT_LOG: u32 = SEGMENTS_MAX_LOG + BLOCKS_LOG_MAX;
/// Smallest error rate that remainders are sized for.
const ERROR_RATE_MIN: f64 = 1.0 / (1u64 << 48) as f64;

/// The sizes at which new remainders get one more bit, as logarithms of the number of blocks. Up to the first of these
/// sizes, 2^21 blocks or 200 million items, every doubling may add the same amount to the error rate. All further
/// growth shares the rest of the error rate.
const LONGER_FROM: [u32; 6] = [21, 25, 34, 43, 52, 61];
/// The largest size for which the error rate is computed, as the logarithm of the number of blocks. 2^34 blocks have
/// 1.6 * 10^12 items.
const SIZE_MAX_LOG: u32 = 34;
/// The most slots per bucket that are added while the table has one block.
const LOAD_FIRST: f64 = 1.75;
/// The most slots per bucket that are added while the table has any later size. A size is a power of two of blocks.
const LOAD_ADDED: f64 = 0.75;
/// The slots per bucket up to which the model takes added entries to have the length of the current size. A round of
/// splits begins at 1.4 slots per bucket and ends at 1.6. Half of the entries that are added in it already have the
/// length of the next size, so 1.5 would be exact. The rest is a margin.
const LOAD_LAST: f64 = 1.55;
/// What the entries add to the error rate that are added beyond the size of a [`Schedule::FromCapacity`], in units of
/// 2^-base and of slots per bucket. Remainders have two bits more after the first doubling and one more after each further one,
/// and the address has one more bit each time. So a doubling adds a quarter, an eighth, ... of [`LOAD_ADDED`].
const LOAD_BEYOND: f64 = LOAD_ADDED / 2.0;

/// The median of each eighth of a normal distribution, in standard deviations.
const EIGHTHS: [f64; 8] = [-1.534, -0.887, -0.489, -0.157, 0.157, 0.489, 0.887, 1.534];

/// The lengths of the remainders of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// The schedule of a table that begins with one block.
    FromOneBlock {
        /// Bits of a remainder in a new table.
        base: u8,
        /// The size from which remainders have one further bit, as the logarithm of the number of blocks.
        longer_from: u8,
    },
    /// The schedule of a table that is made for a number of items: a table of timed entries. Up to the size for these
    /// items, the address and the remainder have the same number of bits together, so entries know enough of the hash
    /// however small the table was when they were added.
    FromCapacity {
        /// Bits of a remainder at that size.
        base: u8,
        /// That size, as the logarithm of the number of blocks.
        size_log: u8,
    },
}

impl EntryKind {
    /// Returns the fewest bits of the hash that an entry of a table knows, besides those that choose the bucket.
    ///
    /// * Plain: 8. With fewer, more than a twentieth of the entries of a table of 10^9 items would be void.
    /// * Counted: 11. So a table can become 2048 times as large before it has void entries.
    /// * Timed: 6. Entries expire before many of them become void.
    pub(super) const fn known_bits_min(self) -> u32 {
        match self {
            Self::Plain => 8,
            Self::Counted => 11,
            Self::Timed(_) => 6,
        }
    }

    /// Returns the longest remainder of an entry. With its marker bit and the bits of a generation it fits a slot.
    const fn remainder_max_bits(self) -> u32 {
        let fitting = SLOT_MAX_BITS - 1 - self.generation_bits();
        if fitting < REMAINDER_MAX_BITS { fitting } else { REMAINDER_MAX_BITS }
    }
}

impl Schedule {
    /// Returns the schedule with the shortest remainders that keep an error rate. `items` is the number of live items
    /// that a table of timed entries is made for. Other kinds ignore it.
    pub(super) fn new(kind: EntryKind, error_rate: f64, items: u64) -> Self {
        let error_rate = error_rate.max(ERROR_RATE_MIN);
        match kind {
            EntryKind::Plain | EntryKind::Counted => Self::growing(kind.known_bits_min(), error_rate),
            EntryKind::Timed(steps) => Self::level(kind, steps, error_rate, items),
        }
    }

    fn growing(least: u32, error_rate: f64) -> Self {
        // The error rate of a table of the largest size, in units of 2^-base, if all remainders have the further bit.
        let mut multiple = LOAD_FIRST / 2.0;
        for size_log in 1..=SIZE_MAX_LOG {
            multiple += LOAD_ADDED / (2u64 << longer(size_log)) as f64;
        }
        let mut base = least;
        while base < REMAINDER_MAX_BITS && multiple > error_rate * (1u64 << base) as f64 {
            base += 1;
        }
        // At as many sizes as the error rate allows, remainders do not have the further bit.
        let mut longer_from = 0;
        for size_log in 0..LONGER_FROM[0] - 1 {
            multiple += if size_log == 0 { LOAD_FIRST } else { LOAD_ADDED } / 2.0;
            if multiple > error_rate * (1u64 << base) as f64 {
                break;
            }
            longer_from = size_log + 1;
        }
        Self::FromOneBlock { base: byte(base), longer_from: byte(longer_from) }
    }

    fn level(kind: EntryKind, steps: Steps, error_rate: f64, items: u64) -> Self {
        // Items are live for up to a step longer than the window. No table has so many that the sum is cut.
        let size = TableSize::for_slots(items.saturating_add(items / steps.count()));
        // The power of two with which slots take least memory: those of a larger segment have one bit too many, and those
        // of a smaller one have two.
        let size_log = size.blocks_log + depth(size.segments * 3 / 2);
        let longest = kind.remainder_max_bits() - 1;
        let slots_per_bucket = level_load(size_log) + LOAD_BEYOND;
        let base = (kind.known_bits_min()..longest)
            .find(|base| slots_per_bucket / (1u64 << base) as f64 <= error_rate)
            .unwrap_or(longest);
        Self::FromCapacity { base: byte(base), size_log: byte(size_log) }
    }

    /// Checks that a table of these entries can have this schedule.
    pub(super) fn validate(self, kind: EntryKind) -> Result<(), &'static str> {
        let (base, is_possible) = match self {
            Self::FromOneBlock { base, longer_from } => {
                (base, !kind.is_timed() && u32::from(longer_from) < LONGER_FROM[0])
            }
            Self::FromCapacity { base, size_log } => {
                (base, kind.is_timed() && u32::from(size_log) <= SIZE_LIMIT_LOG)
            }
        };
        let bases = kind.known_bits_min()..=kind.remainder_max_bits();
        if is_possible && bases.contains(&base.into()) { Ok(()) } else { Err("schedule") }
    }

    /// Returns an upper bound of what further entries add to the error rate of a table of this size with `used` slots
    /// in use, while it grows to 2^`SIZE_MAX_LOG` blocks.
    pub(super) fn rate_of_growth(self, kind: EntryKind, used: u64, size: TableSize) -> f64 {
        let rate = |size_log| 1.0 / (1u64 << self.remainder_bits(kind, size_log)) as f64;
        match self {
            Self::FromOneBlock { .. } => {
                let size_log = depth(size.segments) + size.blocks_log;
                let full = if size_log == 0 { LOAD_FIRST } else { LOAD_LAST };
                let left = (full - used as f64 / (u64::from(BUCKETS) << size_log) as f64).max(0.0);
                let further = (size_log + 1..=SIZE_MAX_LOG).map(|size_log| LOAD_ADDED * rate(size_log));
                left * rate(size_log) + further.sum::<f64>()
            }
            Self::FromCapacity { base, size_log } => {
                let used = used as f64 / (u128::from(BUCKETS) << size_log) as f64;
                let full = level_load(size_log.into());
                ((full - used).max(0.0) + LOAD_BEYOND * (full / used).min(1.0)) / (1u64 << base) as f64
            }
        }
    }

    /// Returns the bits of a remainder in a table of 2^`size_log` blocks.
    pub(super) fn remainder_bits(self, kind: EntryKind, size_log: u32) -> u32 {
        let bits = match self {
            Self::FromOneBlock { base, longer_from } => {
                u32::from(base) + u32::from(size_log >= longer_from.into()) + longer(size_log)
            }
            Self::FromCapacity { base, size_log: level } => {
                let (base, level) = (u32::from(base), u32::from(level));
                if size_log <= level { base + (level - size_log) } else { base + (size_log - level) + 1 }
            }
        };
        bits.min(kind.remainder_max_bits())
    }

    /// Returns the size below which removed entries do not make a table smaller.
    pub(super) fn least_size(self) -> TableSize {
        match self {
            Self::FromOneBlock { .. } => TableSize { segments: 1, blocks_log: 0 },
            Self::FromCapacity { size_log, .. } => TableSize::of_blocks(size_log.into()),
        }
    }

    /// Returns the bits of a slot in a segment whose blocks are chosen by `address_bits` bits of the hash.
    pub(super) fn slot_width(self, kind: EntryKind, address_bits: u32) -> u32 {
        self.remainder_bits(kind, address_bits) + 1 + kind.generation_bits()
    }

    /// Returns the expected size of a table that has grown to `items` items, and the expected bytes of its segments:
    /// infinite if a table cannot have that many items.
    pub(super) fn expected(self, kind: EntryKind, items: u64) -> (TableSize, f64) {
        // Timed entries are live for up to a step longer than the window.
        let longer = kind.steps().map_or(0, |steps| items / steps.count());
        // No table has so many items that the sum is cut.
        let used = items.saturating_add(longer);
        let size = TableSize::for_slots(used);
        let whole = 1usize << depth(size.segments);
        // The number of segments that have been split in this round.
        let split = size.segments - whole;
        let bytes = |depth: u32, segments: usize| {
            if segments == 0 {
                return 0.0;
            }
            let width = self.slot_width(kind, depth + size.blocks_log);
            let mean = used as f64 / (1u64 << depth) as f64;
            let deviation = if depth == 0 { 0.0 } else { mean.sqrt() };
            let sizes = EIGHTHS.map(|eighth| {
                let used = (mean + eighth * deviation).max(0.0).round();
                SegmentShape::for_slots(size.blocks_log, width, used as usize)
                    .map_or(f64::INFINITY, |shape| shape.bytes() as f64)
            });
            sizes.iter().sum::<f64>() / EIGHTHS.len() as f64 * segments as f64
        };
        let depth = depth(size.segments);
        (size, bytes(depth, whole - split) + bytes(depth + 1, 2 * split))
    }
}

/// Returns the most slots per bucket that entries take whose remainders have the length for the size of a
/// [`Schedule::FromCapacity`], 2^`size_log` blocks.
const fn level_load(size_log: u32) -> f64 {
    // Half of the entries that are added during the round of splits after that size still have this length.
    if size_log == 0 { LOAD_FIRST } else { 1.5 }
}

/// Returns how many sizes of [`LONGER_FROM`] a table of 2^`size_log` blocks has reached.
fn longer(size_log: u32) -> u32 {
    LONGER_FROM.iter().filter(|from| size_log >= **from).count() as u32
}
