//! One array of buckets of a cuckoo filter.

use crate::bloom::hash::murmur2::{murmur2, murmur64a};
use crate::bloom::memory::OutOfMemory;
use crate::bloom::work::count_slots;

/// The hash of an item: its fingerprint, and the two numbers that choose its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuckooHash {
    /// 1 to 255. 0 is a free slot.
    pub fingerprint: u8,
    /// The number that chooses the first bucket, before it is reduced.
    pub first: u64,
    /// The number that chooses the second bucket.
    pub second: u64,
}

impl CuckooHash {
    /// Returns the hash of an item. O(length).
    #[must_use]
    #[inline]
    pub fn of(item: &[u8]) -> Self {
        let first = murmur64a(item, 0);
        let fingerprint = (first % 255) as u8 + 1;
        Self { fingerprint, first, second: other(fingerprint, first) }
    }
}

/// The hash that a release of RedisBloom gives to items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CuckooRelease {
    /// RedisBloom 2.2 and later.
    #[default]
    Current,
    /// RedisBloom 1.1 to 2.0: 32 bits. Its filters can be read, and items can be deleted from them.
    Old,
}

impl CuckooRelease {
    /// Returns the hash of an item. O(length).
    #[must_use]
    #[inline]
    pub fn hash(self, item: &[u8]) -> CuckooHash {
        match self {
            Self::Current => CuckooHash::of(item),
            Self::Old => {
                let hash = murmur2(item, 0);
                let [.., high] = hash.to_le_bytes();
                let fingerprint = if high == 0 { 7 } else { high };
                let second = hash ^ u32::from(fingerprint).wrapping_mul(0x5bd1_e995);
                CuckooHash { fingerprint, first: hash.into(), second: second.into() }
            }
        }
    }
}

/// Returns the number that chooses the other bucket of a fingerprint, from the number of one bucket.
#[inline(always)]
pub(super) fn other(fingerprint: u8, number: u64) -> u64 {
    number ^ u64::from(fingerprint).wrapping_mul(0x5bd1_e995)
}

/// The buckets of a filter of one size, in one block of bytes: bucket after bucket.
#[derive(Debug)]
pub struct BucketArray {
    buckets: u64,
    bucket_size: u8,
    bytes: Vec<u8>,
}

impl BucketArray {
    /// Returns the bytes of an array; `None` if they cannot be addressed.
    #[must_use]
    pub fn size_bytes(buckets: u64, bucket_size: u8) -> Option<u64> {
        buckets.checked_mul(bucket_size.into()).filter(|bytes| *bytes <= i64::MAX.cast_unsigned())
    }

    /// Creates an array of free slots, whose memory is zeroed when it is first used.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_new(buckets: u64, bucket_size: u8) -> Result<Self, OutOfMemory> {
        let size_bytes = Self::size_bytes(buckets, bucket_size).and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytemuck::try_zeroed_vec(size_bytes.ok_or(OutOfMemory)?).map_err(|()| OutOfMemory)?;
        Ok(Self { buckets, bucket_size, bytes })
    }

    /// Returns an array with these bytes; `None` if their number is another one, or if there are no slots.
    #[must_use]
    pub fn of_bytes(buckets: u64, bucket_size: u8, bytes: Vec<u8>) -> Option<Self> {
        let size_bytes = Self::size_bytes(buckets, bucket_size)?;
        (size_bytes > 0 && size_bytes == bytes.len() as u64).then_some(Self { buckets, bucket_size, bytes })
    }

    /// Makes a copy with its own memory. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let mut copy = Self::try_new(self.buckets, self.bucket_size)?;
        copy.bytes.copy_from_slice(&self.bytes);
        Ok(copy)
    }

    /// Returns the number of buckets, at least 1.
    #[must_use]
    pub const fn buckets(&self) -> u64 {
        self.buckets
    }

    /// Returns the slots, bucket after bucket.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the mutable block of the slots, for a loader and for relocation. Its length must not change.
    pub const fn block_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Returns the number of the bucket that a number chooses.
    #[inline(always)]
    pub(super) fn bucket_of(&self, number: u64) -> u64 {
        if self.buckets.is_power_of_two() {
            number & self.buckets.wrapping_sub(1)
        } else {
            number % self.buckets
        }
    }

    /// Returns the position of the bucket that a number chooses, for all but the kick-out. RedisBloom keeps it in 32
    /// bits, so the bucket of an array above 4 GiB is another one than that of the kick-out.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "as in RedisBloom")]
    pub(super) fn position(&self, number: u64) -> usize {
        self.bucket_of(number).wrapping_mul(self.bucket_size.into()) as u32 as usize
    }

    /// Returns the slots of the bucket at a position.
    #[inline(always)]
    pub(super) fn slots_at(&self, position: usize) -> &[u8] {
        count_slots(|| self.bucket_size.into());
        let end = position.saturating_add(self.bucket_size.into());
        self.bytes.get(position..end).unwrap_or_default()
    }

    /// Returns the place of the first slot with this value in the two buckets of an item.
    #[inline(always)]
    pub(super) fn find(&self, first: u64, second: u64, value: u8) -> Option<usize> {
        [first, second].into_iter().find_map(|number| {
            let position = self.position(number);
            let place = self.slots_at(position).iter().position(|slot| *slot == value);
            place.map(|place| position.saturating_add(place))
        })
    }

    /// Returns whether one of the two buckets of an item has its fingerprint.
    #[inline(always)]
    pub(super) fn contains(&self, hash: CuckooHash) -> bool {
        self.find(hash.first, hash.second, hash.fingerprint).is_some()
    }

    /// Returns how many slots of the two buckets of an item have its fingerprint. If both are the same bucket, its slots
    /// count twice, as in RedisBloom, except before release 2.2.
    pub(super) fn count(&self, hash: CuckooHash, release: CuckooRelease) -> u64 {
        let count_in = |number| {
            let slots = self.slots_at(self.position(number));
            slots.iter().filter(|slot| **slot == hash.fingerprint).count() as u64
        };
        let is_counted =
            release == CuckooRelease::Old && self.position(hash.first) == self.position(hash.second);
        count_in(hash.first).saturating_add(if is_counted { 0 } else { count_in(hash.second) })
    }

    /// Sets a slot.
    #[inline(always)]
    pub(super) fn set(&mut self, place: usize, value: u8) {
        if let Some(slot) = self.bytes.get_mut(place) {
            *slot = value;
        }
    }

    /// Sets a slot. Returns its former value.
    #[inline(always)]
    pub(super) fn replace(&mut self, place: usize, value: u8) -> u8 {
        self.bytes.get_mut(place).map_or(value, |slot| std::mem::replace(slot, value))
    }

    /// Returns the place of the first slot of a bucket.
    #[inline(always)]
    pub(super) fn place_of(&self, bucket: u64) -> usize {
        usize::try_from(bucket.wrapping_mul(self.bucket_size.into())).unwrap_or(usize::MAX)
    }

    /// Returns a byte of the memory that a lookup of an item reads, to prefetch it.
    pub(super) fn words(&self, hash: CuckooHash) -> [Option<&u8>; 2] {
        [hash.first, hash.second].map(|number| self.bytes.get(self.position(number)))
    }
}
