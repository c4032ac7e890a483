//! What the slots of a bucket say: entries, how often their items were added, and when.
//!
//! A slot holds, from the lowest bit on: the remainder, a set bit above it, and clear bits up to the length of
//! remainders in its segment. So its value tells how long the remainder is. A remainder without bits is *void*: its
//! entry matches every item of its bucket, and a split copies it into both segments. A slot of zero makes the bucket
//! *saturated*, which is what becomes of too many entries; it matches every item as well.
//!
//! An entry that counts once is one slot. One that counts more is followed by a slot of zero and one with its count
//! less two. A timed entry has its generation modulo 16, its *code*, above the bits of the entry.

use smallvec::SmallVec;

use super::EntryKind;
use super::size::BUCKET_BITS;
use crate::bloom::generation::{CODES, Generation, is_live};
use crate::bloom::words::low_bits;

/// Most slots of a bucket. One more makes the bucket saturated; if entries are counted, it is refused. Items that
/// nobody crafted fill a bucket with as many slots less than once in 10^20 buckets.
pub(super) const RUN_MAX: usize = 31;
/// Shortest remainder of counted entries at first. With it, a table can become 2048 times as large before a removed
/// item leaves anything behind.
pub(super) const COUNTED_BASE_MIN: u32 = 11;
/// Most that an entry counts: its count less two fits a slot of the shortest remainders.
pub const COUNT_MAX: u64 = (1 << (COUNTED_BASE_MIN + 1)) + 1;
/// Bits of a slot for the generation of a timed entry.
pub(super) const GENERATION_BITS: u32 = CODES.ilog2();
/// The unit of weights is 2^-120: the least that an entry adds to the error rate.
const WEIGHT_BITS: u32 = 120;

impl EntryKind {
    /// Returns the bits of a slot for a generation.
    #[inline(always)]
    pub(super) const fn generation_bits(self) -> u32 {
        if let Self::Timed = self { GENERATION_BITS } else { 0 }
    }

    /// Returns the code of a generation as it is stored; 0 if entries have none.
    #[inline(always)]
    pub(super) const fn code(self, generation: Generation) -> u64 {
        if let Self::Timed = self { generation % CODES } else { 0 }
    }
}

/// Returns the length of a remainder; 0 for a void entry or a saturated bucket.
#[inline(always)]
pub(super) fn remainder_bits(entry: u64) -> u32 {
    63 ^ (entry | 1).leading_zeros()
}

/// Returns whether an entry matches an item with this key.
#[inline(always)]
pub(super) fn matches(entry: u64, key: u64) -> bool {
    (entry ^ key) & low_bits(remainder_bits(entry)) == 0
}

/// Returns the generation of a code, in a segment with this stamp. Its entries are at most one generation newer.
#[inline(always)]
pub(super) fn generation_of(code: u64, stamp: Generation) -> Generation {
    let newest = stamp.wrapping_add(1);
    newest.wrapping_sub(newest.wrapping_sub(code) % CODES)
}

/// Returns the codes whose generations are live, as the bits of a word, in a segment with this stamp.
pub(super) fn live_codes(stamp: Generation, now: Generation) -> u64 {
    let live = |code: &u64| is_live(generation_of(*code, stamp), now);
    (0..CODES).filter(live).fold(0, |codes, code| codes | 1 << code)
}

/// Distinguishes entries from counts in the order of the slots: in a run of counted entries a slot of zero means that
/// the next one is a count.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountReader {
    is_counted: bool,
    is_count_next: bool,
}

impl CountReader {
    #[inline(always)]
    pub(super) fn new(kind: EntryKind) -> Self {
        Self { is_counted: kind == EntryKind::Counted, is_count_next: false }
    }

    /// Returns whether the next slot is a count.
    pub(super) fn is_in_count(self) -> bool {
        self.is_count_next
    }

    /// Returns whether the next slot is an entry.
    #[inline(always)]
    pub(super) fn is_entry(&mut self, slot: u64) -> bool {
        if !self.is_counted {
            return true;
        }
        if self.is_count_next {
            self.is_count_next = false;
            return false;
        }
        self.is_count_next = slot == 0;
        slot != 0
    }
}

/// The slots of a run.
pub(super) type RunSlots = SmallVec<[u64; RUN_MAX + 1]>;

/// A counted entry of a run, by the index of its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedEntry {
    pub(super) index: usize,
    pub(super) entry: u64,
    pub(super) count: u64,
}

impl CountedEntry {
    /// Returns the entries of a run, in order.
    pub(super) fn all(slots: &[u64]) -> impl Iterator<Item = Self> + '_ {
        let mut counts = CountReader::new(EntryKind::Counted);
        slots.iter().enumerate().filter_map(move |(index, entry)| {
            let is_entry = counts.is_entry(*entry);
            let count = match slots.get(index.saturating_add(1)..) {
                Some([0, less_two, ..]) => less_two.saturating_add(2),
                _ => 1,
            };
            is_entry.then_some(Self { index, entry: *entry, count })
        })
    }

    /// Sets the count of the entry, which must be at least 1, in the slots of its run.
    pub(super) fn set_count(self, slots: &mut RunSlots, count: u64) {
        let index = self.index.saturating_add(1);
        match (self.count, count) {
            (1, 1) => {}
            (1, _) => slots.insert_many(index, [0, count.saturating_sub(2)]),
            (_, 1) => {
                slots.drain(index..index.saturating_add(2));
            }
            _ => {
                if let Some(less_two) = slots.get_mut(index.saturating_add(1)) {
                    *less_two = count.saturating_sub(2);
                }
            }
        }
    }
}

/// What entries leave behind that know no more of an item than its bucket. As a change, the numbers wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Entries without a remainder.
    pub void_entries: u64,
    /// Buckets that match every item.
    pub saturated_buckets: u64,
}

/// What a table keeps of all its entries: sums, or the change of these sums, which wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EntrySums {
    /// What they add to the error rate, in units of 2^-120.
    pub(super) weight: u128,
    pub(super) leftovers: Leftovers,
}

impl Leftovers {
    /// Counts an entry `times` more, if it is one of them.
    #[inline(always)]
    pub(super) fn count(&mut self, entry: u64, times: u64) {
        match entry {
            0 => self.saturated_buckets = self.saturated_buckets.wrapping_add(times),
            1 => self.void_entries = self.void_entries.wrapping_add(times),
            _ => {}
        }
    }

    /// Counts those of a change, or of another segment.
    pub(super) fn add(&mut self, other: Self) {
        self.void_entries = self.void_entries.wrapping_add(other.void_entries);
        self.saturated_buckets = self.saturated_buckets.wrapping_add(other.saturated_buckets);
    }
}

impl EntrySums {
    /// Returns those of one entry.
    pub(super) fn of(address_bits: u32, entry: u64) -> Self {
        let mut sums = Self::default();
        sums.add(address_bits, entry);
        sums
    }

    /// Counts an entry. `address_bits` bits of the hash choose its block.
    #[inline(always)]
    pub(super) fn add(&mut self, address_bits: u32, entry: u64) {
        self.weight = self.weight.wrapping_add(weight(address_bits, remainder_bits(entry)));
        self.leftovers.count(entry, 1);
    }

    /// Counts an entry no more.
    #[inline(always)]
    pub(super) fn remove(&mut self, address_bits: u32, entry: u64) {
        self.weight = self.weight.wrapping_sub(weight(address_bits, remainder_bits(entry)));
        self.leftovers.count(entry, u64::MAX);
    }

    /// Counts a change as well.
    pub(super) fn apply(&mut self, change: Self) {
        self.weight = self.weight.wrapping_add(change.weight);
        self.leftovers.add(change.leftovers);
    }

    /// Returns the error rate.
    pub(super) fn error_rate(weight: u128) -> f64 {
        weight as f64 / (1u128 << WEIGHT_BITS) as f64
    }
}

/// Returns what an entry with a remainder of this length contributes to the error rate, in units of 2^-120.
#[inline(always)]
pub(super) const fn weight(address_bits: u32, remainder_bits: u32) -> u128 {
    let known = address_bits.wrapping_add(BUCKET_BITS).wrapping_add(remainder_bits);
    1u128.wrapping_shl(WEIGHT_BITS.wrapping_sub(known))
}
