//! Adds to cuckoo filters, and their growth.

use super::rooms::searched;
use super::{ARRAYS_MAX, CuckooFilter, SEARCHED_MAX, check};
use crate::cuckoo::array::{BucketArray, CuckooHash, other};
use crate::limits::CUCKOO_ARRAY_MAX_BYTES;
use crate::memory::OutOfMemory;
use crate::outcome::{AddError, ByteLimit, Limit, ReserveError};

impl CuckooFilter {
    /// Adds the fingerprint of an item. O(arrays + iterations).
    ///
    /// # Errors
    /// [`AddError::Full`] if the filter has a fixed size and no place, or [`AddError::CannotGrow`]. The filter is then
    /// unchanged.
    pub fn add(&mut self, hash: CuckooHash, limit: &dyn ByteLimit) -> Result<(), AddError> {
        while !self.put(hash) {
            let newest = self.arrays.len().saturating_sub(1);
            let is_full = self.arrays.last().is_none_or(BucketArray::is_full);
            let mut writes = Vec::new();
            // No move finds a slot in a full array, so nothing is moved in it before the filter has grown.
            if !is_full {
                self.reserve_writes(&mut writes).map_err(AddError::CannotGrow)?;
                if self.kick_out(newest, hash, |place, former| writes.push((place, former))) {
                    break;
                }
            }
            let grown = match self.parameters.expansion {
                0 => Err(AddError::Full),
                _ => self.grow(limit).map_err(AddError::CannotGrow),
            };
            if let (Err(error), Some(array)) = (grown, self.arrays.last_mut()) {
                for (place, former) in writes.iter().rev() {
                    array.set(*place, *former);
                }
                return Err(error);
            }
            if is_full {
                self.kick_out(newest, hash, |_, _| {});
            }
        }
        self.items = self.items.wrapping_add(1);
        Ok(())
    }

    /// Puts a fingerprint into a free slot, of the newest array that has one.
    fn put(&mut self, hash: CuckooHash) -> bool {
        self.arrays.iter_mut().rev().any(|array| array.put(hash))
    }

    /// Reserves memory for the writes of a kick-out that may have to be taken back: of one in the newest array, if its number
    /// of buckets is no power of two.
    fn reserve_writes(&self, writes: &mut Vec<(usize, u8)>) -> Result<(), ReserveError> {
        if self.arrays.last().is_none_or(BucketArray::is_exact) {
            return Ok(());
        }
        let most = usize::from(self.parameters.max_iterations).saturating_mul(2);
        writes.try_reserve_exact(most).map_err(|_| ReserveError::OutOfMemory)
    }

    /// Puts a fingerprint into its first bucket of an array, and moves the fingerprint that was there to its other bucket,
    /// until one finds a free slot. If none does, takes everything back as RedisBloom does. With a number of buckets that is
    /// no power of two, that does not restore the array: `record` then gets each place and its former value.
    fn kick_out(&mut self, index: usize, hash: CuckooHash, mut record: impl FnMut(usize, u8)) -> bool {
        let (iterations, size) = (self.parameters.max_iterations, usize::from(self.parameters.bucket_size));
        let Some(array) = self.arrays.get_mut(index) else { return false };
        let is_exact = array.is_exact();
        // All moves would be taken back. RedisBloom loses what it moves in an array that it does not address.
        if is_exact && array.is_full() || !array.is_addressed() {
            return false;
        }
        let mut replace = |array: &mut BucketArray, bucket, slot, fingerprint| {
            let place = array.place_of(bucket).saturating_add(slot);
            // The moves and their reversal reach no free slot.
            if is_exact {
                return array.swap(place, fingerprint);
            }
            let former = array.set(place, fingerprint);
            record(place, former);
            former
        };
        let (mut fingerprint, mut bucket, mut slot) = (hash.fingerprint, array.bucket_of(hash.first), 0usize);
        for _ in 0..iterations {
            fingerprint = replace(array, bucket, slot, fingerprint);
            bucket = array.bucket_of(other(fingerprint, bucket));
            let place = array.place_of(bucket);
            if let Some(free) = array.slots_at(place).iter().position(|slot| *slot == 0) {
                array.fill(place.saturating_add(free), fingerprint);
                return true;
            }
            slot = (slot.wrapping_add(1)) % size.max(1);
        }
        for _ in 0..iterations {
            slot = (slot.wrapping_add(size).wrapping_sub(1)) % size.max(1);
            bucket = array.bucket_of(other(fingerprint, bucket));
            fingerprint = replace(array, bucket, slot, fingerprint);
        }
        false
    }

    /// Appends an array within the limit. Refuses one that RedisBloom does not address, and one with which the filter could
    /// not be loaded again. O(arrays).
    pub(super) fn grow(&mut self, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        if self.arrays.len() >= ARRAYS_MAX {
            return Err(ReserveError::TooLong);
        }
        let buckets = self.parameters.buckets_of(self.arrays.len()).ok_or(ReserveError::TooLong)?;
        let bucket_size = self.parameters.bucket_size;
        let size_bytes = BucketArray::size_bytes(buckets, bucket_size).ok_or(ReserveError::TooLong)?;
        if size_bytes > CUCKOO_ARRAY_MAX_BYTES {
            return Err(ReserveError::TooLarge { needed_bytes: size_bytes, limit: Limit::ARRAY });
        }
        let array_bytes = BucketArray::needed_bytes(buckets, bucket_size).ok_or(ReserveError::TooLong)?;
        check(self.sum(BucketArray::allocated_bytes).saturating_add(array_bytes), limit)?;
        self.append()?;
        if searched(&self.arrays) > SEARCHED_MAX {
            self.arrays.pop();
            return Err(ReserveError::TooLong);
        }
        Ok(())
    }

    /// Appends an array of the size that follows from the parameters. O(1).
    pub(super) fn append(&mut self) -> Result<(), ReserveError> {
        let buckets = self.parameters.buckets_of(self.arrays.len()).ok_or(ReserveError::TooLong)?;
        self.arrays.try_reserve(1).map_err(|_| ReserveError::OutOfMemory)?;
        let array = BucketArray::try_new(buckets, self.parameters.bucket_size);
        self.arrays.push(array.map_err(|OutOfMemory| ReserveError::OutOfMemory)?);
        Ok(())
    }
}
