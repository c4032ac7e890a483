//! Finding the entries of an item: its bucket, the meaning of slots, and lookups of one item or of a group.
//!
//! A slot has, from the lowest bit on: the remainder, a set bit, and clear bits up to the slot's width. So the highest
//! set bit shows how long the remainder is. An entry whose remainder has no bits is *void*. It matches every item of
//! its bucket, and a split copies it into both buckets that the bucket becomes. If entries are not counted, a slot of
//! zero makes its bucket *saturated*: the bucket matches every item. A bucket that gets too many entries becomes
//! saturated.
//!
//! A counted entry with a count of 1 is one slot. A larger count takes two more slots after the entry: a slot of zero,
//! and a slot with the count minus two. A timed entry has its generation modulo 16, its *code*, above the other bits.

use smallvec::SmallVec;

use super::segment::{Segment, SlotIndex};
use super::size::{BUCKET_BITS, depth_of};
use super::{EntryKind, Table};
use crate::bloom::generation::{CODES, Generation, is_live};
use crate::bloom::group::{ItemSet, members, take_first};
use crate::bloom::hash::ItemHash;
use crate::bloom::prefetch::{Prefetch, Task};
use crate::bloom::words::{Select, low_bits};

/// The number of items whose memory is prefetched before the first of them is looked up.
pub(super) const STEP_ITEMS: usize = 32;

/// The largest number of slots that an add leaves in a bucket. An add that needs more slots makes the bucket saturated.
/// If entries are counted, it adds no slot. A join may unite two buckets into one with more slots. Unless items are
/// crafted, fewer than one bucket in 10^20 reaches this number.
pub(super) const RUN_MAX: usize = 31;
/// Bits of a slot for the generation of a timed entry.
pub(super) const GENERATION_BITS: u32 = CODES.ilog2();

/// The bucket of an item, and the bits of the hash with which its entries are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketAddress {
    /// The number of the segment.
    pub(super) segment: usize,
    /// The number of bits of the hash that choose the segment and the block.
    pub(super) address_bits: u32,
    pub(super) block: usize,
    pub(super) bucket: u32,
    /// The bits of the hash above the address. A remainder is the lowest bits of the key.
    pub(super) key: u64,
}

/// The run of a bucket, which may be empty.
#[derive(Clone, Copy)]
pub(super) struct BucketRun {
    pub(super) start: SlotIndex,
    pub(super) is_empty: bool,
}

/// The slots of a run.
pub(super) type RunSlots = SmallVec<[u64; RUN_MAX + 1]>;

/// Distinguishes entries from counts while the slots of a block are read in order. In a run of counted entries, the
/// slot after a slot of zero is a count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountReader {
    is_count_next: bool,
}

impl CountReader {
    /// Returns whether the next slot is a count.
    pub(super) fn is_in_count(self) -> bool {
        self.is_count_next
    }

    /// Takes the next slot. Returns whether it is an entry.
    #[inline(always)]
    pub(super) fn is_entry(&mut self, kind: EntryKind, slot: u64) -> bool {
        if kind != EntryKind::Counted {
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

impl EntryKind {
    /// Returns the number of bits of a slot that the generation takes.
    #[inline(always)]
    pub(super) const fn generation_bits(self) -> u32 {
        if let Self::Timed = self { GENERATION_BITS } else { 0 }
    }

    /// Returns the code that is stored for a generation; 0 if entries are not timed.
    #[inline(always)]
    pub(super) const fn code(self, generation: Generation) -> u64 {
        if let Self::Timed = self { generation % CODES } else { 0 }
    }
}

impl Table {
    /// Returns whether an item may be in the table. If entries are timed, it must be live at `now`. O(1).
    #[inline(always)]
    pub fn contains(&self, hash: ItemHash, now: Generation, prefetch: impl Prefetch) -> bool {
        self.prefetch(hash, prefetch);
        prefetch.run(Contains { table: self, hash, now })
    }

    /// Returns which of the `wanted` items may be in the table. If entries are timed, they must be live at `now`.
    /// O(items).
    pub fn contains_each(
        &self,
        hashes: &[ItemHash],
        wanted: ItemSet,
        now: Generation,
        prefetch: impl Prefetch,
    ) -> ItemSet {
        let (mut rest, mut found) = (wanted, 0);
        while rest != 0 {
            let step = take_first(&mut rest, STEP_ITEMS);
            members(hashes, step).for_each(|(_, hash)| self.prefetch(hash, prefetch));
            found |= prefetch.run(ContainsEach { table: self, hashes, wanted: step, now });
        }
        found
    }

    /// Returns the bucket of an item, and its segment.
    #[inline(always)]
    pub(super) fn locate(&self, hash: ItemHash) -> Option<(BucketAddress, &Segment)> {
        let depth = depth_of(self.directory.len(), hash.h1 as usize);
        let number = (hash.h1 & low_bits(depth)) as usize;
        let segment = self.directory.get(number)?;
        let address_bits = depth.wrapping_add(segment.blocks_log());
        let address = BucketAddress {
            segment: number,
            address_bits,
            block: (hash.h1 >> (depth & 63)) as usize & segment.block_mask(),
            bucket: (hash.h2 >> (64 - BUCKET_BITS)) as u32,
            key: bits_above(hash, address_bits),
        };
        Some((address, segment))
    }

    /// Returns whether an item may be in the table. If entries are timed, it must be live at `now`.
    #[inline(always)]
    fn has(&self, hash: ItemHash, now: Generation, select: impl Select) -> bool {
        let Some((address, segment)) = self.locate(hash) else { return false };
        let header = segment.header(address.block);
        if !header.is_occupied(address.bucket) {
            return false;
        }
        let start = segment.run_start(address.block, &header, address.bucket, select);
        match self.kind() {
            EntryKind::Plain => segment.run_has(start, |slot| matches(slot, address.key)),
            EntryKind::Counted => {
                let mut counts = CountReader::default();
                segment.run_has(start, |slot| {
                    counts.is_entry(EntryKind::Counted, slot) && matches(slot, address.key)
                })
            }
            EntryKind::Timed => {
                let entry_bits = segment.width().wrapping_sub(GENERATION_BITS);
                segment.run_has(start, |slot| {
                    matches(slot & low_bits(entry_bits), address.key)
                        && is_live(segment.generation(slot), now)
                })
            }
        }
    }

    /// Prefetches the memory of an item's entries for a lookup.
    #[inline(always)]
    fn prefetch(&self, hash: ItemHash, prefetch: impl Prefetch) {
        if let Some((address, segment)) = self.locate(hash) {
            segment.prefetch(address.block, prefetch);
        }
    }

    /// Prefetches the memory of an item's entries for a change.
    #[inline(always)]
    pub(super) fn prefetch_change(&self, hash: ItemHash, prefetch: impl Prefetch) {
        if let Some((address, segment)) = self.locate(hash) {
            segment.prefetch(address.block, prefetch);
            // An insertion reads the offset of the next block to find the free slots of this one.
            segment.prefetch_header(address.block.wrapping_add(1), prefetch);
        }
    }

    /// Calls `visit` for the slots of a block in the order of its buckets, with the bucket, the value, and whether the
    /// slot is an entry. A slot that is not an entry belongs to the count of the entry before it.
    #[inline(always)]
    pub(super) fn visit_slots(&self, segment: &Segment, block: usize, mut visit: impl FnMut(u32, u64, bool)) {
        let (kind, mut counts) = (self.kind(), CountReader::default());
        segment.visit_block(block, |bucket, value| visit(bucket, value, counts.is_entry(kind, value)));
    }

    /// Returns the number of bits of an entry in a segment: those of a slot without the generation.
    #[inline(always)]
    pub(super) fn entry_bits(&self, segment: &Segment) -> u32 {
        segment.width().wrapping_sub(self.kind().generation_bits())
    }
}

impl Segment {
    /// Returns the run of an item's bucket. If the run is empty, its start is the slot where it would begin.
    #[inline(always)]
    pub(super) fn run(&self, address: &BucketAddress, select: impl Select) -> BucketRun {
        let header = self.header(address.block);
        let is_empty = !header.is_occupied(address.bucket);
        BucketRun { start: self.run_start(address.block, &header, address.bucket, select), is_empty }
    }

    /// Returns the slots of a run.
    pub(super) fn slots_of(&self, run: BucketRun) -> RunSlots {
        let mut slots = RunSlots::new();
        if !run.is_empty {
            self.visit_run(run.start, |_, value| {
                slots.push(value);
                true
            });
        }
        slots
    }

    /// Returns the generation of the slot of a timed entry.
    #[inline(always)]
    pub(super) fn generation(&self, slot: u64) -> Generation {
        generation_of(slot >> (self.width().wrapping_sub(GENERATION_BITS) & 63), self.stamp)
    }
}

/// Returns the 64 bits of a hash that follow the address bits.
#[inline(always)]
fn bits_above(hash: ItemHash, address_bits: u32) -> u64 {
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

/// Returns the generation that a code stands for in a segment with this stamp. No entry of a segment is more than one
/// generation newer than the stamp.
#[inline(always)]
pub(super) fn generation_of(code: u64, stamp: Generation) -> Generation {
    let newest = stamp.wrapping_add(1);
    newest.wrapping_sub(newest.wrapping_sub(code) % CODES)
}

/// Returns the codes whose generations are live at `now` in a segment with this stamp. Bit `c` of the result stands for
/// code `c`.
pub(super) fn live_codes(stamp: Generation, now: Generation) -> u64 {
    let live = |code: &u64| is_live(generation_of(*code, stamp), now);
    (0..CODES).filter(live).fold(0, |codes, code| codes | 1 << code)
}

struct Contains<'t> {
    table: &'t Table,
    hash: ItemHash,
    now: Generation,
}

impl Task for Contains<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self, select: impl Select) -> bool {
        self.table.has(self.hash, self.now, select)
    }
}

struct ContainsEach<'t> {
    table: &'t Table,
    hashes: &'t [ItemHash],
    wanted: ItemSet,
    now: Generation,
}

impl Task for ContainsEach<'_> {
    type Output = ItemSet;

    #[inline(always)]
    fn run(self, select: impl Select) -> ItemSet {
        let Self { table, hashes, wanted, now } = self;
        members(hashes, wanted).fold(0, |found, (index, hash)| {
            found | ItemSet::from(table.has(hash, now, select)).wrapping_shl(index)
        })
    }
}
