//! The hash of items in cuckoo filters.

use crate::hash::murmur2::{murmur2, murmur64a};

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
pub(in crate::cuckoo) fn other(fingerprint: u8, number: u64) -> u64 {
    number ^ u64::from(fingerprint).wrapping_mul(0x5bd1_e995)
}
