//! Faster ways for the blocks of one source, which only lose their expired entries, or are divided into two.
//!
//! Without dividing, an add to a growing table of 100,000 plain entries takes 1,710 instructions instead of 1,470. Without
//! sifting, an add to a window of 20,000 live items takes 2,690 instead of 1,720 (callgrind, the rewrites included).

use super::rewriter::{RewriteSums, Rewriter};
use crate::generation::{Generation, Steps};
use crate::memory::OutOfMemory;
use crate::table::entry::{CountReader, Entry, EntryKind, visit_entries};
use crate::table::segment::{Segment, SlotList};
use crate::table::size::TooFull;
use crate::words::low_bits;

/// The codes of the live entries of a segment.
#[derive(Clone, Copy)]
struct LiveCodes {
    /// The code of the oldest generation that an entry can have.
    oldest: u64,
    /// The number of codes less 1.
    mask: u64,
    /// How many generations, from the oldest one on, have expired. At the stamp it is none.
    expired: u64,
}

impl LiveCodes {
    /// All entries of other kinds are live.
    const UNTIMED: Self = Self { oldest: 0, mask: 0, expired: 0 };

    fn of(steps: Steps, stamp: Generation, now: Generation) -> Self {
        let codes = steps.codes();
        // The number of codes divides 2^64, so a generation that wraps around has the same code.
        let oldest = stamp.wrapping_add(steps.ahead() + 1) % codes;
        // None has expired in the generation of the stamp, and all after as many as there are codes.
        Self { oldest, mask: codes - 1, expired: now.saturating_sub(stamp).min(codes) }
    }

    #[inline(always)]
    const fn has(self, code: u64) -> bool {
        // Modulo the number of codes.
        code.wrapping_sub(self.oldest) & self.mask >= self.expired
    }
}

impl Rewriter {
    /// Writes the entries of a block to the list, and those whose remainder has a set lowest bit to the upper list. The new
    /// blocks have `bits` address bits, one more than the block. A plain void entry goes to both: it is the only one of its
    /// bucket. Returns false if an entry becomes void, or another one is void.
    #[inline(always)]
    pub(super) fn divide(&mut self, segment: &Segment, block: usize, bits: u32) -> bool {
        let Self { kind, now, list, upper, sums: RewriteSums { change, written, .. }, .. } = self;
        let (entry_bits, entry_bits_max) =
            (kind.entry_bits(segment), self.schedule.remainder_bits(*kind, bits));
        let live = kind.steps().map_or(LiveCodes::UNTIMED, |steps| LiveCodes::of(steps, segment.stamp, *now));
        // The bits of a generation are above those of the longest remainder and its marker.
        assert!(entry_bits <= entry_bits_max + 2, "a remainder that is cut fits");
        let (mut is_settled, mut counts, mut is_upper) = (true, CountReader::default(), false);
        segment.visit_block(block, |bucket, slot| {
            let mut slot = slot;
            if *kind != EntryKind::Counted || counts.is_entry(slot) {
                let (entry, code) = (slot & low_bits(entry_bits), slot >> 1 >> ((entry_bits - 1) & 63));
                if !live.has(code) {
                    is_settled &= entry > 1;
                    return change.remove_weight(bits - 1, entry);
                }
                if entry <= 1 && *kind == EntryKind::Plain {
                    let void = Entry { value: entry, copies: 0, number: 1 };
                    change.match_all_counts.uncount(*kind, void);
                    for list in [&mut *list, upper] {
                        written.count(*kind, void);
                        list.push(bucket, entry);
                    }
                    return;
                }
                let value = entry >> 1;
                is_settled &= value > 1;
                is_upper = entry & 1 == 1;
                slot = code << 1 << (entry_bits_max & 63) | value;
            }
            if is_upper { upper.push(bucket, slot) } else { list.push(bucket, slot) }
        });
        is_settled
    }

    /// Does [`divide`](Self::divide) for counted entries, of which some are or become void. A void entry goes to both
    /// lists, with one copy more. No two entries become equal: those that become void have no copies.
    pub(super) fn divide_counted(
        &mut self,
        segment: &Segment,
        block: usize,
        bits: u32,
    ) -> Result<(), OutOfMemory> {
        let Self { kind, list, upper, sums: RewriteSums { change, written, .. }, .. } = self;
        let entry_bits = self.schedule.remainder_bits(*kind, bits) + 1;
        // A copy has more slots than a void entry whose number was 0.
        let slots = segment.length(block) * kind.slots_max();
        list.try_reserve(slots)?;
        upper.try_reserve(slots)?;
        visit_entries(*kind, segment, block, |bucket, entry| {
            let mut put = |list: &mut SlotList, entry: Entry| {
                written.count(*kind, entry);
                entry.write(*kind, entry_bits, |slot| list.push(bucket, slot));
            };
            if entry.value > 1 {
                let divided = Entry { value: entry.value >> 1, ..entry };
                return put(if entry.value & 1 == 1 { upper } else { list }, divided);
            }
            change.match_all_counts.uncount(*kind, entry);
            let copy = Entry { copies: entry.copies + 1, ..entry };
            put(list, copy);
            put(upper, copy);
        });
        Ok(())
    }

    /// Copies a block of timed entries without those that have expired. Several slots are compared at once. Returns false
    /// if an entry is void.
    #[inline(always)]
    pub(super) fn sift(
        &mut self,
        steps: Steps,
        segment: &Segment,
        block: usize,
        bits: u32,
    ) -> Result<bool, TooFull> {
        let (width, entry_bits, stamp) = (segment.width(), self.kind.entry_bits(segment), segment.stamp);
        // The lowest bit of each slot in a word.
        let ones = (0..64 / width).fold(0, |ones, slot| ones | 1 << (slot * width));
        let (codes, LiveCodes { oldest, mask, expired }) =
            (steps.codes(), LiveCodes::of(steps, stamp, self.now));
        let ages = ones * (codes - oldest);
        let live = ones * (codes - expired);
        let (all, entries) = (ones * mask, ones * low_bits(entry_bits));
        let mark = |values: u64| {
            // The bits of each code become the code less the oldest one. The bit above them becomes set if it is live.
            let ages = ((values >> (entry_bits & 63) & all) + ages) & all;
            let is_live = (ages + live) >> codes.ilog2();
            // The bit above each entry becomes set if it is not void.
            let is_long = ((values & entries) + (entries - ones)) >> (entry_bits & 63);
            !(is_live & is_long) & ones
        };
        let Self { list, sums: RewriteSums { change, .. }, .. } = self;
        let (mut is_settled, mut left_out) = (true, 0);
        let slots = segment.visit_marked(block, mark, |index, slot| {
            let entry = slot & low_bits(entry_bits);
            is_settled &= entry > 1;
            change.remove_weight(bits, entry);
            list.push(0, index as u64);
            left_out += 1;
        });
        if is_settled {
            list.copy_block(slots - left_out)?;
        }
        Ok(is_settled)
    }
}
