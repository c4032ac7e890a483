//! The rules of cuckoo filters: adds, growth, lookups, deletions and compaction.

mod adding;
mod compaction;
mod parameters;
mod rooms;

use std::ops::Deref;

pub use parameters::{ARRAYS_MAX, CuckooParameters};
use rooms::searched;

use super::array::{BucketArray, CuckooHash, CuckooRelease};
use crate::memory::{BlockMover, BlockVisitor, Blocks, OutOfMemory};
use crate::outcome::{ByteLimit, ReserveError};
use crate::prefetch::Prefetch;
use crate::work::count_slots;

/// Most arrays that a compaction searches for one fingerprint. RedisBloom's arrays grow by a power of two, so it is at most
/// 57 of them.
const SEARCHED_MAX: usize = 64;
/// The share of the items that may be deleted before a deletion compacts the filter.
const DELETED_SHARE_MAX: f64 = 0.10;
/// Bytes that RedisBloom counts for a filter, and for an array, besides the slots.
const FILTER_BYTES: u64 = 40;
const ARRAY_BYTES: u64 = 16;

/// A cuckoo filter of RedisBloom.
#[derive(Debug)]
pub struct CuckooFilter {
    parameters: CuckooParameters,
    release: CuckooRelease,
    /// The number of fingerprints, by the filter's own count: a file may have any number.
    items: u64,
    /// Deletions since the last compaction.
    deletes: u64,
    /// The arrays, the oldest first; at least one.
    arrays: Vec<BucketArray>,
}

impl CuckooFilter {
    /// Creates an empty filter.
    ///
    /// # Errors
    /// [`ReserveError`] if it exceeds `limit` or the available memory.
    pub fn reserve(parameters: CuckooParameters, limit: &dyn ByteLimit) -> Result<Self, ReserveError> {
        parameters.check(1).map_err(|_| ReserveError::TooLong)?;
        let mut filter =
            Self { parameters, release: CuckooRelease::Current, items: 0, deletes: 0, arrays: Vec::new() };
        filter.grow(limit)?;
        Ok(filter)
    }

    /// Creates a filter from what a decoder has read.
    ///
    /// # Errors
    /// The name of what breaks a rule.
    pub fn from_parts(
        parameters: CuckooParameters,
        release: CuckooRelease,
        items: u64,
        deletes: u64,
        arrays: Vec<BucketArray>,
    ) -> Result<Self, &'static str> {
        parameters.check(arrays.len())?;
        if searched(&arrays) > SEARCHED_MAX {
            return Err("filters");
        }
        // The second bucket of an old filter is computed from the first one, which needs powers of two.
        if release == CuckooRelease::Old && !arrays.iter().all(BucketArray::is_exact) {
            return Err("buckets");
        }
        Ok(Self { parameters, release, items, deletes, arrays })
    }

    /// Creates an empty filter with the arrays that a header describes, to be filled by chunks. The parameters must have passed
    /// [`check_header`](CuckooParameters::check_header). O(arrays).
    ///
    /// # Errors
    /// [`ReserveError`] if the arrays exceed `limit` or the available memory, or cannot exist.
    pub fn of_header(
        parameters: CuckooParameters,
        items: u64,
        deletes: u64,
        arrays: usize,
        limit: &dyn ByteLimit,
    ) -> Result<Self, ReserveError> {
        let mut filter =
            Self { parameters, release: CuckooRelease::Current, items, deletes, arrays: Vec::new() };
        // The sizes are checked before the first array is allocated.
        let mut needed_bytes = 0u64;
        for index in 0..arrays {
            let buckets = filter.parameters.buckets_of(index).ok_or(ReserveError::TooLong)?;
            let array_bytes = BucketArray::needed_bytes(buckets, parameters.bucket_size);
            needed_bytes = needed_bytes.saturating_add(array_bytes.ok_or(ReserveError::TooLong)?);
        }
        check(needed_bytes, limit)?;
        filter.arrays.try_reserve_exact(arrays).map_err(|_| ReserveError::OutOfMemory)?;
        for _ in 0..arrays {
            filter.append()?;
        }
        Ok(filter)
    }

    /// Returns the parameters.
    #[must_use]
    pub const fn parameters(&self) -> &CuckooParameters {
        &self.parameters
    }

    /// Returns the releases of RedisBloom that hash items as this filter does. An old filter takes no more items.
    #[must_use]
    pub const fn release(&self) -> CuckooRelease {
        self.release
    }

    /// Returns the number of fingerprints.
    #[must_use]
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// Returns the number of deletions since the last compaction.
    #[must_use]
    pub const fn deletes(&self) -> u64 {
        self.deletes
    }

    /// Returns the arrays, the oldest first.
    #[must_use]
    pub fn arrays(&self) -> &[BucketArray] {
        &self.arrays
    }

    /// Returns the mutable arrays, for a loader.
    pub fn arrays_mut(&mut self) -> &mut [BucketArray] {
        &mut self.arrays
    }

    /// Returns whether a header describes the filter: its parameters are those of a header, and each array has the buckets
    /// that follow from them. O(arrays).
    #[must_use]
    pub fn has_header(&self) -> bool {
        let mut arrays = self.arrays.iter().enumerate();
        self.release == CuckooRelease::Current
            && self.parameters.check_header(self.arrays.len()).is_ok()
            && arrays.all(|(index, array)| self.parameters.buckets_of(index) == Some(array.buckets()))
    }

    /// Returns the bytes of the slots of all arrays. O(arrays).
    #[must_use]
    pub fn slots_bytes(&self) -> u64 {
        self.sum(BucketArray::slots)
    }

    /// Returns the bytes of the structs of all arrays, and of the pages of their slots that may have a fingerprint. Memory
    /// that was never written to does not count. O(arrays + bytes that may have a fingerprint).
    #[cfg(feature = "inspection")]
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.sum(|array| array.stored_bytes().saturating_add(size_of::<BucketArray>() as u64))
    }

    /// Returns the sum of a number of all arrays. O(arrays).
    fn sum(&self, of: impl Fn(&BucketArray) -> u64) -> u64 {
        count_slots(|| self.arrays.len());
        self.arrays.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Returns the size that RedisBloom shows: `Size` of CF.INFO. O(arrays).
    #[must_use]
    pub fn reported_size_bytes(&self) -> u64 {
        let structs = ARRAY_BYTES.saturating_mul(self.arrays.len() as u64).saturating_add(FILTER_BYTES);
        self.slots_bytes().saturating_add(structs)
    }

    /// Returns whether the item may be in the filter. O(arrays).
    #[must_use]
    pub fn contains(&self, item: &[u8], prefetch: impl Prefetch) -> bool {
        let hash = self.release.hash(item);
        self.prefetch(Arrays::All, hash, prefetch);
        self.has(hash)
    }

    fn has(&self, hash: CuckooHash) -> bool {
        self.arrays.iter().any(|array| array.contains(hash))
    }

    /// Prefetches the buckets of an item in `arrays`.
    #[inline]
    fn prefetch(&self, arrays: Arrays, hash: CuckooHash, prefetch: impl Prefetch) {
        if prefetch.is_needed() {
            let prefetched = arrays.prefetched().min(self.arrays.len());
            for array in self.arrays.iter().rev().take(prefetched) {
                array.words(hash).into_iter().flatten().for_each(|word| prefetch.prefetch(word));
            }
        }
    }

    /// Calls `visit` with each item's hash, while its buckets in `arrays` and those of the items after it are prefetched.
    pub fn for_each_hash<B: Deref<Target = Self>>(
        mut filter: B,
        items: &[&[u8]],
        arrays: Arrays,
        prefetch: impl Prefetch,
        mut visit: impl FnMut(&mut B, CuckooHash),
    ) {
        let group_items = GROUP_ARRAYS / arrays.prefetched().min(filter.arrays.len()).max(1);
        for group in items.chunks(group_items.clamp(1, GROUP_ITEMS)) {
            let hashes = group
                .iter()
                .map(|item| filter.release.hash(item))
                .collect::<smallvec::SmallVec<[_; GROUP_ITEMS]>>();
            hashes.iter().for_each(|hash| filter.prefetch(arrays, *hash, prefetch));
            hashes.into_iter().for_each(|hash| visit(&mut filter, hash));
        }
    }

    /// Returns whether an item with this hash may be in the filter. O(arrays).
    #[must_use]
    pub fn contains_hash(&self, hash: CuckooHash) -> bool {
        self.has(hash)
    }

    /// Returns how many slots have the fingerprint of the item in one of its buckets. O(arrays).
    #[must_use]
    pub fn count(&self, item: &[u8], prefetch: impl Prefetch) -> u64 {
        let hash = self.release.hash(item);
        self.prefetch(Arrays::All, hash, prefetch);
        self.arrays.iter().fold(0, |sum, array| sum.saturating_add(array.count(hash, self.release)))
    }

    /// Deletes one fingerprint of an item, from the newest array that has one; from the oldest one if the filter is old.
    /// Returns whether there was one. May compact the filter. O(arrays), or as [`compact`](Self::compact).
    pub fn delete(&mut self, item: &[u8]) -> bool {
        let (hash, count) = (self.release.hash(item), self.arrays.len());
        let is_old = self.release == CuckooRelease::Old;
        for turn in 0..count {
            let index = if is_old { turn } else { count.wrapping_sub(1).wrapping_sub(turn) };
            let Some(array) = self.arrays.get_mut(index) else { return false };
            if array.remove(hash) {
                self.items = self.items.wrapping_sub(1);
                self.deletes = self.deletes.wrapping_add(1);
                if !is_old && count > 1 && self.deletes as f64 > self.items as f64 * DELETED_SHARE_MAX {
                    self.compact(false);
                }
                return true;
            }
        }
        false
    }

    /// Makes a copy with its own memory. O(arrays + bytes that may have a fingerprint).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let mut arrays = Vec::new();
        arrays.try_reserve_exact(self.arrays.len()).map_err(|_| OutOfMemory)?;
        for array in &self.arrays {
            arrays.push(array.try_clone()?);
        }
        Ok(Self { arrays, ..Self { arrays: Vec::new(), ..*self } })
    }

    /// Checks that the arrays count their fingerprints, and know where they are. O(bytes).
    ///
    /// # Errors
    /// The rule that is broken.
    #[cfg(feature = "inspection")]
    pub fn internal_validate(&self) -> Result<(), &'static str> {
        self.parameters.check(self.arrays.len())?;
        self.arrays.iter().try_for_each(BucketArray::internal_validate)
    }
}

impl Blocks for CuckooFilter {
    fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        visitor.visit(&self.arrays);
        self.arrays.iter().flat_map(BucketArray::blocks).for_each(|block| visitor.visit(block));
    }

    fn block_count(&self) -> usize {
        self.arrays.len()
    }

    fn move_structs(&mut self, mover: &impl BlockMover) {
        mover.move_vec(&mut self.arrays);
    }

    fn move_block(&mut self, number: usize, mover: &impl BlockMover) {
        self.arrays.get_mut(number).into_iter().for_each(|array| mover.move_vec(array.block_mut()));
    }
}

/// The arrays that are read for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrays {
    /// All, for a lookup.
    All,
    /// The newest one, in which most adds find a free slot.
    Newest,
}

impl Arrays {
    /// Returns in how many arrays, from the newest one on, the buckets of an item are prefetched.
    const fn prefetched(self) -> usize {
        match self {
            Self::All => GROUP_ARRAYS,
            Self::Newest => 1,
        }
    }
}

/// Most items whose buckets are prefetched together.
const GROUP_ITEMS: usize = 16;
/// Most arrays in which buckets are prefetched together, over all items: two lines each, half of a cache of 32 KiB.
const GROUP_ARRAYS: usize = 128;

/// Checks the bytes of all arrays.
fn check(needed_bytes: u64, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
    limit.permits(needed_bytes).map_err(|limit| ReserveError::TooLarge { needed_bytes, limit })
}
