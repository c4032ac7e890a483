//! The entries of a bucket, and the slots that they take.
//!
//! A slot has, from the lowest bit on: the remainder, a set bit, and clear bits up to the slot's width. So the highest
//! set bit shows how long the remainder is. An entry whose remainder has no bits is *void*. It matches every item of
//! its bucket, and a split copies it into both buckets that the bucket becomes.
//!
//! * A plain entry is one slot. A slot of zero makes its bucket *saturated*: the bucket matches every item.
//! * A timed entry is one slot, which has the generation modulo 16 or 256, its *code*, above the other bits. A slot
//!   whose other bits are clear makes its bucket saturated until its generation expires.
//! * A counted entry is one slot. If its number is not 0, slots with the digits of the number follow, the lowest digit
//!   first. Before each digit comes a slot of zero, which no entry is. The number is the count less 1. The number of a
//!   void entry also says how many splits have copied it.

use smallvec::SmallVec;

use super::segment::Segment;
use crate::generation::{Generation, Steps};
use crate::words::low_bits;

/// The largest number of slots that an add leaves in a bucket. An add that needs more makes the bucket saturated. If
/// entries are counted, it is refused. A join may unite two buckets into one with more slots. Unless items are crafted,
/// fewer than one bucket in 10^20 reaches this number.
pub(super) const RUN_MAX: usize = 31;

/// Bits of a digit of a number. A slot of a counted entry has at least as many bits.
pub(super) const DIGIT_BITS: u32 = 12;
/// The most digits of a number.
const DIGITS_MAX: u32 = 5;
/// Bits of the number of a void entry for its copies. A table has fewer than 2^6 address bits.
const COPIES_BITS: u32 = 6;

/// The largest count of an entry. A void entry with this count still has a number of [`DIGITS_MAX`] digits.
pub const COUNT_MAX: u64 = 1 << (DIGIT_BITS * DIGITS_MAX - COPIES_BITS);

/// The slots of a run.
pub(super) type RunSlots = SmallVec<[u64; RUN_MAX + 1]>;

/// What the entries of a table store besides a remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Nothing: items are added and looked up.
    Plain,
    /// How often the item was added, so that it can be removed as often.
    Counted,
    /// The generation in which the item was added, so that it expires.
    Timed(Steps),
}

impl EntryKind {
    /// Returns the number of bits of a slot that the generation takes.
    #[inline(always)]
    pub(super) const fn generation_bits(self) -> u32 {
        if let Self::Timed(steps) = self { steps.codes().ilog2() } else { 0 }
    }

    /// Returns the steps of the window of timed entries.
    #[inline(always)]
    pub(super) const fn steps(self) -> Option<Steps> {
        if let Self::Timed(steps) = self { Some(steps) } else { None }
    }

    /// Returns whether entries expire.
    #[must_use]
    #[inline(always)]
    pub const fn is_timed(self) -> bool {
        matches!(self, Self::Timed(_))
    }

    /// Returns the code of a generation; 0 if entries are not timed.
    #[inline(always)]
    pub(super) const fn code_of(self, generation: Generation) -> u64 {
        if let Self::Timed(steps) = self { generation % steps.codes() } else { 0 }
    }

    /// Returns whether an entry with this number has expired at `now`.
    #[must_use]
    #[inline(always)]
    pub const fn has_expired(self, number: u64, now: Generation) -> bool {
        if let Self::Timed(steps) = self { !steps.is_live(number, now) } else { false }
    }

    /// Returns the most slots that an entry takes.
    pub(super) const fn slots_max(self) -> usize {
        if let Self::Counted = self { 1 + 2 * DIGITS_MAX as usize } else { 1 }
    }

    /// Returns the number of bits of an entry in a segment: those of a slot without the generation.
    #[inline(always)]
    pub(super) fn entry_bits(self, segment: &Segment) -> u32 {
        // A segment without memory has slots of no bits.
        segment.width().saturating_sub(self.generation_bits())
    }
}

/// An entry of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// The remainder with a set bit above it; 1 for a void entry; 0 for a saturated bucket. A shorter remainder gives a
    /// smaller value.
    pub(super) value: u64,
    /// How many splits have copied a void entry, if entries are counted. So 2^`copies` buckets have a copy.
    pub(super) copies: u32,
    /// The count, or the generation in which the item was added; 1 for a plain entry.
    pub(super) number: u64,
}

impl Entry {
    /// Returns the entry of a slot, if it is not counted. A slot has `entry_bits` bits besides the generation.
    #[inline(always)]
    pub(super) fn of_slot(kind: EntryKind, entry_bits: u32, stamp: Generation, slot: u64) -> Self {
        let number = if let EntryKind::Timed(steps) = kind {
            generation_of(steps, slot >> (entry_bits & 63), stamp)
        } else {
            1
        };
        Self { value: slot & low_bits(entry_bits), copies: 0, number }
    }

    /// Passes the slots of the entry to `put`, in order. A slot has `entry_bits` bits besides the generation.
    #[inline(always)]
    pub(super) fn write(self, kind: EntryKind, entry_bits: u32, mut put: impl FnMut(u64)) {
        if kind.is_timed() {
            return put(kind.code_of(self.number) << (entry_bits & 63) | self.value);
        }
        put(self.value);
        if kind == EntryKind::Counted {
            let less_one = self.number - 1;
            let mut number =
                if self.value == 1 { less_one << COPIES_BITS | u64::from(self.copies) } else { less_one };
            while number > 0 {
                put(0);
                put(number & low_bits(DIGIT_BITS));
                number >>= DIGIT_BITS;
            }
        }
    }

    pub(super) fn slots(self, kind: EntryKind) -> usize {
        let mut slots = 0usize;
        self.write(kind, 0, |_| slots += 1);
        slots
    }

    /// Returns whether the entry matches at least the items that `other`, an entry of the same bucket, matches, for at
    /// least as long.
    #[inline(always)]
    pub(super) fn covers(self, other: Self) -> bool {
        matches(self.value, other.value)
            && remainder_bits(self.value) <= remainder_bits(other.value)
            && self.number >= other.number
    }
}

/// Reads the slots of counted entries, in order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountReader {
    is_digit_next: bool,
}

impl CountReader {
    /// Takes the next slot. Returns whether it is an entry.
    #[inline(always)]
    pub(super) fn is_entry(&mut self, slot: u64) -> bool {
        let is_digit = std::mem::take(&mut self.is_digit_next);
        self.is_digit_next = !is_digit && slot == 0;
        !is_digit && slot != 0
    }
}

/// A counted entry that is being read, and its place in its run.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedEntry {
    pub(super) entry: Entry,
    /// The index of its first slot.
    pub(super) index: usize,
    /// The number of its slots.
    pub(super) slots: usize,
}

impl CountedEntry {
    /// Returns the entries of a run, in order. A number with more digits than [`DIGITS_MAX`] is cut.
    #[inline(always)]
    pub(super) fn all(slots: &[u64]) -> impl Iterator<Item = Self> + '_ {
        let mut index = 0usize;
        std::iter::from_fn(move || {
            let rest = slots.get(index..)?;
            let (value, mut rest) = rest.split_first()?;
            let (mut number, mut shift, first) = (0u64, 0u32, index);
            index += 1;
            while let [0, digit, after @ ..] = rest {
                // Further digits are cut.
                number |= digit.checked_shl(shift).unwrap_or(0);
                shift += DIGIT_BITS;
                index += 2;
                rest = after;
            }
            let (copies, less_one) = if *value == 1 {
                (number & low_bits(COPIES_BITS), number >> COPIES_BITS)
            } else {
                (0, number)
            };
            // Crafted digits may give the largest number.
            let number = less_one.saturating_add(1);
            let entry = Entry { value: *value, copies: copies as u32, number };
            Some(Self { entry, index: first, slots: index - first })
        })
    }

    /// Sets the count of the entry in the slots of its run. A count of 0 removes the entry.
    #[inline(always)]
    pub(super) fn set_count(self, count: u64, run: &mut RunSlots) {
        let (mut at, end) = (self.index, self.index + self.slots);
        let mut put = |slot| {
            match run.get_mut(at) {
                Some(present) if at < end => *present = slot,
                _ => run.insert(at, slot),
            }
            at += 1;
        };
        if count > 0 {
            Entry { number: count, ..self.entry }.write(EntryKind::Counted, 0, &mut put);
        }
        run.drain(at..end.max(at));
    }
}

/// What is done with the entries of a block.
pub(super) trait EntryVisitor {
    /// Visits an entry of a bucket.
    fn visit(&mut self, bucket: u8, entry: Entry);
}

/// Calls `visit` with the bucket and the entry of each entry of a block, in the order of its buckets.
#[inline(always)]
pub(super) fn visit_entries(kind: EntryKind, segment: &Segment, block: usize, visit: impl FnMut(u8, Entry)) {
    struct Visitor<F>(F);
    impl<F: FnMut(u8, Entry)> EntryVisitor for Visitor<F> {
        #[inline(always)]
        fn visit(&mut self, bucket: u8, entry: Entry) {
            (self.0)(bucket, entry);
        }
    }
    pass_entries(kind, segment, block, &mut Visitor(visit));
}

/// Passes each entry of a block to a visitor, in the order of its buckets.
#[inline(always)]
pub(super) fn pass_entries(
    kind: EntryKind,
    segment: &Segment,
    block: usize,
    visitor: &mut impl EntryVisitor,
) {
    if kind != EntryKind::Counted {
        let (entry_bits, stamp) = (kind.entry_bits(segment), segment.stamp);
        return segment.visit_block(block, |bucket, slot| {
            visitor.visit(bucket, Entry::of_slot(kind, entry_bits, stamp, slot));
        });
    }
    // The slots of the run so far.
    let (mut run, mut run_bucket) = (RunSlots::new(), 0);
    let mut finish = |bucket, run: &mut RunSlots| {
        CountedEntry::all(run).for_each(|counted| visitor.visit(bucket, counted.entry));
        run.clear();
    };
    segment.visit_block(block, |bucket, slot| {
        if bucket != run_bucket {
            finish(run_bucket, &mut run);
            run_bucket = bucket;
        }
        run.push(slot);
    });
    finish(run_bucket, &mut run);
}

/// Returns the generation of the slot of a timed entry.
#[inline(always)]
pub(super) fn generation(steps: Steps, segment: &Segment, slot: u64) -> Generation {
    let entry_bits = EntryKind::Timed(steps).entry_bits(segment);
    generation_of(steps, slot >> (entry_bits & 63), segment.stamp)
}

/// Returns the length of a remainder; 0 for a void entry or a saturated bucket.
#[inline(always)]
pub(super) const fn remainder_bits(entry: u64) -> u32 {
    63 ^ (entry | 1).leading_zeros()
}

#[inline(always)]
pub(super) fn matches(entry: u64, key: u64) -> bool {
    (entry ^ key) & low_bits(remainder_bits(entry)) == 0
}

/// Returns the generation that a code stands for in a segment with this stamp. No entry of a segment is more than
/// [`Steps::ahead`] generations newer than the stamp.
#[inline(always)]
pub(super) fn generation_of(steps: Steps, code: u64, stamp: Generation) -> Generation {
    // Modulo 2^64: the stamp and the code of a crafted segment may be any.
    let newest = stamp.wrapping_add(steps.ahead());
    newest.wrapping_sub(newest.wrapping_sub(code) % steps.codes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket that adds fill needs no memory of the heap, nor does one more slot.
    #[test]
    fn the_slots_of_a_bucket_are_not_on_the_heap() {
        let mut slots = RunSlots::new();
        (0..=RUN_MAX as u64).for_each(|slot| slots.push(slot));
        assert!(!slots.spilled());
    }
}
