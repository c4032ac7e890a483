//! One array of buckets of a cuckoo filter.

mod hash;
mod slots;

pub(in crate::cuckoo) use hash::other;
pub use hash::{CuckooHash, CuckooRelease};

use crate::bits::occupancy::Occupancy;
use crate::limits::CUCKOO_ARRAY_MAX_BYTES;
use crate::memory::OutOfMemory;
use crate::work::count_slots;

/// The buckets of a filter of one size, in one block of memory: bucket after bucket.
///
/// Memory is zeroed when it is first used. The array knows how many fingerprints it has, and which pages of its memory may
/// have some. So a walk through the fingerprints does not read memory that was never written to.
#[derive(Debug)]
pub struct BucketArray {
    buckets: u64,
    bucket_size: u8,
    /// Whether the number of buckets is a power of two.
    is_exact: bool,
    /// The slots as bytes, and zeros up to a whole word.
    words: Vec<u64>,
    /// The number of slots that are not free.
    fingerprints: u64,
    /// The pages of the words that may have a fingerprint.
    occupancy: Occupancy,
}

/// Why bytes are not the slots of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotsError {
    /// Their number is not that of the slots, or there are none.
    Length,
    /// An allocation failed.
    OutOfMemory,
}

impl BucketArray {
    /// Returns the bytes of the slots of an array; `None` if they cannot be addressed.
    #[must_use]
    pub fn size_bytes(buckets: u64, bucket_size: u8) -> Option<u64> {
        buckets.checked_mul(bucket_size.into()).filter(|bytes| *bytes <= i64::MAX.cast_unsigned())
    }

    /// Returns the bytes of memory that an array needs: its slots and its own struct; `None` if they cannot be addressed.
    #[must_use]
    pub fn needed_bytes(buckets: u64, bucket_size: u8) -> Option<u64> {
        let words = Self::size_bytes(buckets, bucket_size)?.div_ceil(8);
        let structs = (size_of::<Self>() as u64).saturating_add(Occupancy::noted_bytes(words));
        Some(words.saturating_mul(8).saturating_add(structs))
    }

    /// Creates an array of free slots, whose memory is zeroed when it is first used.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_new(buckets: u64, bucket_size: u8) -> Result<Self, OutOfMemory> {
        let size_bytes = Self::size_bytes(buckets, bucket_size).and_then(|bytes| usize::try_from(bytes).ok());
        let words = size_bytes.ok_or(OutOfMemory)?.div_ceil(8);
        let occupancy = Occupancy::of_clear(words)?;
        let words = bytemuck::try_zeroed_vec(words).map_err(|()| OutOfMemory)?;
        let is_exact = buckets.is_power_of_two();
        Ok(Self { buckets, bucket_size, is_exact, words, fingerprints: 0, occupancy })
    }

    /// Returns the number of buckets, at least 1.
    #[must_use]
    pub const fn buckets(&self) -> u64 {
        self.buckets
    }

    /// Returns whether the number of buckets is a power of two. Then each bucket of a fingerprint follows from the other.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.buckets.wrapping_mul(self.bucket_size.into())
    }

    /// Returns the number of fingerprints: of slots that are not free.
    #[must_use]
    #[inline(always)]
    pub const fn fingerprints(&self) -> u64 {
        self.fingerprints
    }

    /// Returns whether no slot is free.
    pub(in crate::cuckoo) fn is_full(&self) -> bool {
        self.fingerprints >= self.slots()
    }

    /// Returns the number of free slots.
    pub(in crate::cuckoo) fn free_slots(&self) -> u64 {
        self.slots().saturating_sub(self.fingerprints)
    }

    /// Returns whether RedisBloom's positions of 32 bits address every slot.
    pub(in crate::cuckoo) fn is_addressed(&self) -> bool {
        self.slots() <= CUCKOO_ARRAY_MAX_BYTES
    }

    /// Returns the bytes of memory that the array needs: those of [`needed_bytes`](Self::needed_bytes).
    pub(in crate::cuckoo) fn allocated_bytes(&self) -> u64 {
        let blocks = self.blocks().map(|block| size_of_val(block) as u64);
        blocks.into_iter().fold(size_of::<Self>() as u64, u64::saturating_add)
    }

    /// Returns the slots, bucket after bucket.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let slots = usize::try_from(self.slots()).ok();
        slots.and_then(|slots| self.padded_bytes().get(..slots)).unwrap_or_default()
    }

    /// Returns the slots, and zeros up to a whole word.
    #[inline(always)]
    fn padded_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// Returns the blocks of the allocator.
    pub(in crate::cuckoo) fn blocks(&self) -> [&[u64]; 2] {
        [&self.words, self.occupancy.allocation()]
    }

    /// Returns the mutable block of the slots, for relocation. Its words must not change.
    pub(in crate::cuckoo) const fn block_mut(&mut self) -> &mut Vec<u64> {
        &mut self.words
    }

    /// Returns the number of the bucket that a number chooses.
    #[inline(always)]
    pub(in crate::cuckoo) fn bucket_of(&self, number: u64) -> u64 {
        if self.is_exact { number & self.buckets.wrapping_sub(1) } else { number % self.buckets }
    }

    /// Returns the place of the first slot of a bucket, in 32 bits as in RedisBloom.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "as in RedisBloom, in arrays that are not addressed")]
    pub(in crate::cuckoo) fn place_of(&self, bucket: u64) -> usize {
        bucket.wrapping_mul(self.bucket_size.into()) as u32 as usize
    }

    /// Returns the place of the first slot of the bucket that a number chooses.
    #[inline(always)]
    fn position(&self, number: u64) -> usize {
        self.place_of(self.bucket_of(number))
    }

    /// Returns the places of the first slots of the buckets that two numbers choose, with one branch for both.
    #[inline(always)]
    fn positions(&self, first: u64, second: u64) -> [usize; 2] {
        let buckets = if self.is_exact {
            let mask = self.buckets.wrapping_sub(1);
            [first & mask, second & mask]
        } else {
            [first % self.buckets, second % self.buckets]
        };
        buckets.map(|bucket| self.place_of(bucket))
    }

    /// Returns the slots of the bucket at a place.
    #[inline(always)]
    pub(in crate::cuckoo) fn slots_at(&self, place: usize) -> &[u8] {
        count_slots(|| self.bucket_size.into());
        // Places have 32 bits.
        self.padded_bytes().get(place..place.wrapping_add(self.bucket_size.into())).unwrap_or_default()
    }

    /// Returns the place of the first slot with this value in the bucket that a number chooses.
    #[inline(always)]
    pub(in crate::cuckoo) fn find_in(&self, number: u64, value: u8) -> Option<usize> {
        let position = self.position(number);
        let slot = self.slots_at(position).iter().position(|slot| *slot == value);
        slot.map(|slot| position.wrapping_add(slot))
    }

    /// Returns the place of the first slot with this value in the two buckets that numbers choose.
    #[inline(always)]
    pub(in crate::cuckoo) fn find(&self, first: u64, second: u64, value: u8) -> Option<usize> {
        self.positions(first, second).into_iter().find_map(|position| {
            let slot = self.slots_at(position).iter().position(|slot| *slot == value);
            slot.map(|slot| position.wrapping_add(slot))
        })
    }

    /// Sets the first slot with one value, in the bucket at a place, to another value. Returns its place.
    #[inline(always)]
    fn replace_at(&mut self, place: usize, from: u8, to: u8) -> Option<usize> {
        count_slots(|| self.bucket_size.into());
        let end = place.wrapping_add(self.bucket_size.into());
        let slots = bytemuck::cast_slice_mut(&mut self.words).get_mut(place..end)?;
        let (index, slot) = slots.iter_mut().enumerate().find(|(_, slot)| **slot == from)?;
        *slot = to;
        Some(place.wrapping_add(index))
    }

    /// Puts the fingerprint of an item into the first free slot of its two buckets. Returns whether there was one.
    #[inline(always)]
    pub(in crate::cuckoo) fn put(&mut self, hash: CuckooHash) -> bool {
        // The first bucket mostly has a free slot.
        let in_first = self.replace_at(self.position(hash.first), 0, hash.fingerprint);
        let place = in_first.or_else(|| self.replace_at(self.position(hash.second), 0, hash.fingerprint));
        if let Some(place) = place {
            self.fingerprints = self.fingerprints.wrapping_add(1);
            self.occupancy.note(place / 8);
        }
        place.is_some()
    }

    /// Removes the first fingerprint of an item from its two buckets. Returns whether there was one.
    #[inline(always)]
    pub(in crate::cuckoo) fn remove(&mut self, hash: CuckooHash) -> bool {
        if self.fingerprints == 0 {
            return false;
        }
        let [first, second] = self.positions(hash.first, hash.second);
        let in_first = self.replace_at(first, hash.fingerprint, 0);
        let place = in_first.or_else(|| self.replace_at(second, hash.fingerprint, 0));
        self.fingerprints = self.fingerprints.wrapping_sub(place.is_some().into());
        place.is_some()
    }

    /// Returns whether one of the two buckets of an item has its fingerprint.
    #[inline(always)]
    pub(in crate::cuckoo) fn contains(&self, hash: CuckooHash) -> bool {
        self.fingerprints > 0 && self.find(hash.first, hash.second, hash.fingerprint).is_some()
    }

    /// Returns how many slots of the two buckets of an item have its fingerprint. If both are the same bucket, its slots
    /// count twice, as in RedisBloom, except before release 2.2.
    pub(in crate::cuckoo) fn count(&self, hash: CuckooHash, release: CuckooRelease) -> u64 {
        if self.fingerprints == 0 {
            return 0;
        }
        let count_in = |number| {
            let slots = self.slots_at(self.position(number));
            slots.iter().filter(|slot| **slot == hash.fingerprint).count() as u64
        };
        let is_counted =
            release == CuckooRelease::Old && self.position(hash.first) == self.position(hash.second);
        count_in(hash.first).saturating_add(if is_counted { 0 } else { count_in(hash.second) })
    }

    /// Puts a fingerprint into a free slot.
    #[inline(always)]
    pub(in crate::cuckoo) fn fill(&mut self, place: usize, fingerprint: u8) {
        self.swap(place, fingerprint);
        self.fingerprints = self.fingerprints.wrapping_add(1);
        self.occupancy.note(place / 8);
    }

    /// Removes a fingerprint from its slot.
    #[inline(always)]
    pub(in crate::cuckoo) fn free(&mut self, place: usize) {
        self.swap(place, 0);
        self.fingerprints = self.fingerprints.wrapping_sub(1);
    }

    /// Sets a slot, free or not, to a fingerprint or to 0. Returns its former value.
    pub(in crate::cuckoo) fn set(&mut self, place: usize, value: u8) -> u8 {
        let former = self.swap(place, value);
        let (added, removed) = (u64::from(value != 0), u64::from(former != 0));
        self.fingerprints = self.fingerprints.wrapping_add(added).wrapping_sub(removed);
        if value != 0 {
            self.occupancy.note(place / 8);
        }
        former
    }

    /// Puts a fingerprint in the place of another one. Returns the other one.
    #[inline(always)]
    pub(in crate::cuckoo) fn swap(&mut self, place: usize, fingerprint: u8) -> u8 {
        let slot = bytemuck::cast_slice_mut(&mut self.words).get_mut(place);
        slot.map_or(fingerprint, |slot| std::mem::replace(slot, fingerprint))
    }

    /// Returns a byte of the memory that a lookup of an item reads, to prefetch it.
    pub(in crate::cuckoo) fn words(&self, hash: CuckooHash) -> [Option<&u8>; 2] {
        [hash.first, hash.second].map(|number| self.padded_bytes().get(self.position(number)))
    }
}
