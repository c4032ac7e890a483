//! Changing the slots of a bucket, and the sums over the entries with them.

use crate::generation::Generation;
use crate::hash::ItemHash;
use crate::table::entry::Entry;
use crate::table::segment::BucketRun;
use crate::table::size::{BUCKETS, TooFull};
use crate::table::state::{BucketAddress, Table};
use crate::table::totals::{EntrySums, weight};
use crate::words::{PortableSelect, low_bits};

impl Table {
    /// Adds an entry with the longest remainder. `code` is that of its generation; 0 if entries are not timed.
    ///
    /// # Errors
    /// [`TooFull`] if the segment has no free slot. Nothing has changed.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        address: &BucketAddress,
        run: BucketRun,
        code: u64,
    ) -> Result<(), TooFull> {
        let kind = self.kind();
        let (segment, all_used) = self.directory.get_mut(address.segment);
        let bits = kind.entry_bits(segment) - 1;
        let entry = 1 << bits | address.key & low_bits(bits);
        segment.insert(run, code << 1 << (bits & 63) | entry)?;
        if let Some(all_used) = all_used {
            *all_used += 1;
        }
        self.add_weight(weight(address.address_bits, entry));
        Ok(())
    }

    /// Adds an entry of an item unless its bucket has become saturated.
    ///
    /// # Errors
    /// [`TooFull`] if the segment has no free slot.
    pub(super) fn insert_unless_saturated(&mut self, hash: ItemHash, code: u64) -> Result<(), TooFull> {
        let (address, segment) = self.locate(hash);
        let run = segment.run(address.block, address.bucket, PortableSelect);
        let entry_mask = low_bits(self.kind().entry_bits(segment));
        if run.is_empty || !segment.run_has(run.start, |value| value & entry_mask == 0) {
            return self.insert(&address, run, code);
        }
        Ok(())
    }

    /// Makes a bucket saturated: one slot that matches every item replaces its entries. The slot has the generation
    /// `number` if entries are timed.
    pub(super) fn saturate_bucket(
        &mut self,
        address: &BucketAddress,
        number: Generation,
    ) -> Result<(), TooFull> {
        let (kind, segment) = (self.kind(), self.directory.get(address.segment));
        let run = segment.run(address.block, address.bucket, PortableSelect);
        let (slots, entry_bits) = (segment.slots_of(run), kind.entry_bits(segment));
        let mut change = EntrySums::default();
        for slot in &slots {
            change.remove(kind, address.address_bits, Entry::of_slot(kind, entry_bits, segment.stamp, *slot));
        }
        let saturated = Entry { value: 0, copies: 0, number };
        change.add(kind, address.address_bits, saturated);
        let mut slot = 0;
        saturated.write(kind, entry_bits, |written| slot = written);
        self.directory.edit(address.segment, |segment| segment.replace_run(run, slots.len(), &[slot]))?;
        self.add_sums(change);
        Ok(())
    }

    /// Makes every occupied bucket of the fullest block of a segment saturated. This frees slots in a segment of the
    /// largest size that is full, which happens only if items are crafted.
    #[cold]
    pub(super) fn saturate_fullest_block(
        &mut self,
        address: &BucketAddress,
        number: Generation,
    ) -> Result<(), TooFull> {
        let segment = self.directory.get(address.segment);
        let block = (0..segment.blocks()).max_by_key(|block| segment.length(*block)).ok_or(TooFull)?;
        let header = segment.header(block);
        let mut occupied = (0..BUCKETS).filter(|bucket| header.is_occupied(*bucket));
        occupied
            .try_for_each(|bucket| self.saturate_bucket(&BucketAddress { block, bucket, ..*address }, number))
    }
}
