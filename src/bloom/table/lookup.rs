//! Finding the entries of an item.

use super::schedule::BUCKET_BITS;
use super::segment::{Segment, Slot, low_bits};
use super::select::Select;
use super::{EntryKind, Table};
use crate::bloom::generation::{CODES, Generation, is_live};
use crate::bloom::hash::ItemHash;
use crate::bloom::prefetch::Prefetch;

/// Bits of a slot for the generation of a timed entry.
pub(super) const GENERATION_BITS: u32 = CODES.ilog2();

/// Where the entries of an item are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The number of the segment.
    pub(super) segment: usize,
    /// Bits of the hash that choose the segment and the block.
    pub(super) address_bits: u32,
    pub(super) block: usize,
    pub(super) bucket: u32,
    /// The bits of the hash above the address: remainders are its lowest bits.
    pub(super) key: u64,
}

/// The run of a bucket, which may be empty.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) start: Slot,
    pub(super) is_empty: bool,
}

impl Table {
    /// Returns where the entries of an item are.
    #[inline(always)]
    pub(super) fn locate(&self, hash: ItemHash) -> Option<(Place, &Segment)> {
        let depth = depth_of(self.directory.len(), hash.h1 as usize);
        let number = (hash.h1 & low_bits(depth)) as usize;
        let segment = self.directory.get(number)?;
        let place = Place {
            segment: number,
            address_bits: depth.wrapping_add(segment.blocks_log()),
            block: (hash.h1 >> (depth & 63)) as usize & segment.block_mask(),
            bucket: (hash.h2 >> (64 - BUCKET_BITS)) as u32,
            key: 0,
        };
        Some((Place { key: key(hash, place.address_bits), ..place }, segment))
    }

    /// Returns whether an item may be in the table, and if its entries are timed, live at `now`.
    #[inline(always)]
    pub(super) fn has(&self, hash: ItemHash, now: Generation, select: impl Select) -> bool {
        let Some((place, segment)) = self.locate(hash) else { return false };
        let header = segment.header(place.block);
        if !header.is_occupied(place.bucket) {
            return false;
        }
        let start = segment.run_start(place.block, &header, place.bucket, select);
        match self.kind() {
            EntryKind::Plain => segment.run_has(start, |slot| matches(slot, place.key)),
            EntryKind::Counted => {
                let mut counts = Counts::default();
                segment.run_has(start, |slot| counts.is_entry(slot) && matches(slot, place.key))
            }
            EntryKind::Timed => {
                let entry_bits = segment.width().wrapping_sub(GENERATION_BITS);
                segment.run_has(start, |slot| {
                    matches(slot & low_bits(entry_bits), place.key) && is_live(segment.generation(slot), now)
                })
            }
        }
    }

    /// Prefetches the memory of an item's entries for a lookup.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: ItemHash, prefetch: impl Prefetch) {
        if let Some((place, segment)) = self.locate(hash) {
            segment.prefetch(place.block, prefetch);
        }
    }

    /// Prefetches the memory of an item's entries for a change.
    #[inline(always)]
    pub(super) fn prefetch_change(&self, hash: ItemHash, prefetch: impl Prefetch) {
        if let Some((place, segment)) = self.locate(hash) {
            segment.prefetch(place.block, prefetch);
            // Where the free slots of a block begin depends on the next block.
            segment.prefetch_header(place.block.wrapping_add(1), prefetch);
        }
    }
}

impl Segment {
    /// Returns the run of an item's bucket.
    #[inline(always)]
    pub(super) fn run(&self, place: &Place, select: impl Select) -> Run {
        let header = self.header(place.block);
        let is_empty = !header.is_occupied(place.bucket);
        Run { start: self.run_start(place.block, &header, place.bucket, select), is_empty }
    }

    /// Returns the generation of the slot of a timed entry.
    #[inline(always)]
    pub(super) fn generation(&self, slot: u64) -> Generation {
        generation_of(slot >> (self.width().wrapping_sub(GENERATION_BITS) & 63), self.stamp)
    }
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

/// Distinguishes entries from counts in the run of a counted bucket: a slot of zero means that the next one is a count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    is_count_next: bool,
}

impl Counts {
    /// Returns whether the next slot is a count.
    pub(super) fn is_in_count(self) -> bool {
        self.is_count_next
    }

    /// Returns whether the next slot of the run is an entry.
    #[inline(always)]
    pub(super) fn is_entry(&mut self, slot: u64) -> bool {
        if self.is_count_next {
            self.is_count_next = false;
            return false;
        }
        self.is_count_next = slot == 0;
        slot != 0
    }
}

/// Returns the largest depth that all of this number of segments have.
#[inline(always)]
pub(super) fn depth(segments: usize) -> u32 {
    63u32.wrapping_sub((segments as u64 | 1).leading_zeros())
}

/// Returns how many low bits of the hash choose segment `number` of this many.
#[inline(always)]
pub(super) fn depth_of(segments: usize, number: usize) -> u32 {
    let depth = depth(segments);
    let split = segments.wrapping_sub(1usize.wrapping_shl(depth));
    // The segments before `split` have been split already.
    depth.wrapping_add(((number & low_bits(depth) as usize) < split).into())
}

/// Returns the bits of a hash above the address.
#[inline(always)]
pub(super) fn key(hash: ItemHash, address_bits: u32) -> u64 {
    let bits = address_bits & 63;
    hash.h1 >> bits | hash.h2 << 1 << 63u32.wrapping_sub(bits)
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
