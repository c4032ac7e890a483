//! Finding the entries of an item, one item or a group of them with their memory prefetched.

use super::entry::{CountReader, GENERATION_BITS, generation_of, matches};
use super::segment::{Segment, SlotIndex};
use super::size::{BUCKET_BITS, depth_of};
use super::{EntryKind, Table};
use crate::bloom::generation::{Generation, is_live};
use crate::bloom::group::{ItemSet, members, take_first};
use crate::bloom::hash::ItemHash;
use crate::bloom::prefetch::{Prefetch, Task};
use crate::bloom::words::{Select, low_bits};

/// Items whose memory is prefetched before the first of them is looked up.
pub(super) const STEP_ITEMS: usize = 32;

/// The bucket of an item, and what its entries there are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketAddress {
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
pub(super) struct BucketRun {
    pub(super) start: SlotIndex,
    pub(super) is_empty: bool,
}

impl Table {
    /// Returns whether an item may be in the table; at `now`, if entries are timed. O(1).
    #[inline(always)]
    pub fn contains(&self, hash: ItemHash, now: Generation, prefetch: impl Prefetch) -> bool {
        self.prefetch(hash, prefetch);
        prefetch.run(Contains { table: self, hash, now })
    }

    /// Returns which of the `wanted` items may be in the table; at `now`, if entries are timed. O(items).
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

    /// Returns whether an item may be in the table, and if its entries are timed, live at `now`.
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
                let mut counts = CountReader::new(EntryKind::Counted);
                segment.run_has(start, |slot| counts.is_entry(slot) && matches(slot, address.key))
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
            // Where the free slots of a block begin depends on the next block.
            segment.prefetch_header(address.block.wrapping_add(1), prefetch);
        }
    }

    /// Returns the bits of an entry in a segment.
    #[inline(always)]
    pub(super) fn entry_bits(&self, segment: &Segment) -> u32 {
        segment.width().wrapping_sub(self.kind().generation_bits())
    }
}

impl Segment {
    /// Returns the run of an item's bucket; if it is empty, with the slot where it would begin.
    #[inline(always)]
    pub(super) fn run(&self, address: &BucketAddress, select: impl Select) -> BucketRun {
        let header = self.header(address.block);
        let is_empty = !header.is_occupied(address.bucket);
        BucketRun { start: self.run_start(address.block, &header, address.bucket, select), is_empty }
    }

    /// Returns the generation of the slot of a timed entry.
    #[inline(always)]
    pub(super) fn generation(&self, slot: u64) -> Generation {
        generation_of(slot >> (self.width().wrapping_sub(GENERATION_BITS) & 63), self.stamp)
    }
}

/// Returns the bits of a hash above the address.
#[inline(always)]
fn bits_above(hash: ItemHash, address_bits: u32) -> u64 {
    let bits = address_bits & 63;
    hash.h1 >> bits | hash.h2 << 1 << 63u32.wrapping_sub(bits)
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
