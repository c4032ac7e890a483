//! The rules of cuckoo filters: adds, growth, lookups, deletions and compaction.

use super::array::{BucketArray, CuckooHash, CuckooRelease, other};
use super::rooms::{Rooms, searched};
use crate::bloom::memory::{BlockMover, BlockVisitor, Blocks, OutOfMemory};
use crate::bloom::outcome::{AddError, ByteLimit, ReserveError};
use crate::bloom::prefetch::Prefetch;
use crate::bloom::work::count_slots;

/// Most arrays of a filter.
pub const ARRAYS_MAX: usize = 65_535;
/// Most arrays that a compaction searches for one fingerprint. RedisBloom's arrays grow by a power of two, so it is at most
/// 57 of them.
const SEARCHED_MAX: usize = 64;
/// Most buckets of an array, as in RedisBloom.
pub const BUCKETS_MAX: u64 = (1 << 56) - 1;
/// Largest expansion.
pub const EXPANSION_MAX: u16 = 32_768;
/// The share of the items that may be deleted before a deletion compacts the filter.
const DELETED_SHARE_MAX: f64 = 0.10;
/// Bytes that RedisBloom counts for a filter, and for an array, besides the slots.
const FILTER_BYTES: u64 = 40;
const ARRAY_BYTES: u64 = 16;

/// The parameters of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuckooParameters {
    /// The buckets of the first array, at least 1.
    pub buckets: u64,
    /// Slots of a bucket, 1 to 255.
    pub bucket_size: u8,
    /// Most fingerprints that an add moves.
    pub max_iterations: u16,
    /// The factor from the buckets of one array to those of the next; 0 for a filter of fixed size.
    pub expansion: u16,
}

impl CuckooParameters {
    /// Returns the parameters of CF.RESERVE. The buckets and the expansion become powers of two.
    #[must_use]
    pub fn reserved(capacity_items: u64, bucket_size: u8, max_iterations: u16, expansion: u16) -> Self {
        let buckets = (capacity_items / u64::from(bucket_size.max(1))).max(1);
        Self {
            buckets: buckets.checked_next_power_of_two().unwrap_or(BUCKETS_MAX),
            bucket_size: bucket_size.max(1),
            max_iterations,
            expansion: if expansion == 0 {
                0
            } else {
                expansion.checked_next_power_of_two().unwrap_or(EXPANSION_MAX)
            },
        }
    }

    /// Returns the buckets of array `index`; `None` if it would have too many.
    fn buckets_of(&self, index: usize) -> Option<u64> {
        let factor = u64::from(self.expansion).checked_pow(u32::try_from(index).ok()?)?;
        self.buckets.checked_mul(factor).filter(|buckets| (1..=BUCKETS_MAX).contains(buckets))
    }
}

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
        let is_possible = parameters.buckets > 0 && parameters.bucket_size > 0;
        if !is_possible {
            return Err("buckets");
        }
        if arrays.is_empty() || arrays.len() > ARRAYS_MAX || searched(&arrays) > SEARCHED_MAX {
            return Err("filters");
        }
        // The second bucket of an old filter is computed from the first one, which needs powers of two.
        let has_powers = || arrays.iter().all(|array| array.buckets().is_power_of_two());
        if release == CuckooRelease::Old && !has_powers() {
            return Err("buckets");
        }
        Ok(Self { parameters, release, items, deletes, arrays })
    }

    /// Creates an empty filter with the arrays that a header describes, to be filled by chunks.
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
        if arrays == 0 || arrays > ARRAYS_MAX {
            return Err(ReserveError::TooLong);
        }
        // The sizes are checked before the first array is allocated.
        let mut needed_bytes = 0u64;
        for index in 0..arrays {
            let buckets = filter.parameters.buckets_of(index).ok_or(ReserveError::TooLong)?;
            let array_bytes = BucketArray::size_bytes(buckets, filter.parameters.bucket_size);
            needed_bytes = needed_bytes.saturating_add(array_bytes.ok_or(ReserveError::TooLong)?);
        }
        check(needed_bytes, limit)?;
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

    /// Returns the mutable arrays, for a loader and for relocation.
    pub fn arrays_mut(&mut self) -> &mut [BucketArray] {
        &mut self.arrays
    }

    /// Returns whether each array has the buckets that follow from the parameters. O(arrays).
    #[must_use]
    pub fn has_sizes_of_parameters(&self) -> bool {
        let mut arrays = self.arrays.iter().enumerate();
        self.parameters.buckets.is_power_of_two()
            && arrays.all(|(index, array)| self.parameters.buckets_of(index) == Some(array.buckets()))
    }

    /// Returns the bytes of all arrays. O(arrays).
    #[must_use]
    pub fn slots_bytes(&self) -> u64 {
        count_slots(|| self.arrays.len());
        self.arrays.iter().fold(0, |sum, array| sum.saturating_add(array.bytes().len() as u64))
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
        self.prefetch(hash, prefetch);
        self.has(hash)
    }

    fn has(&self, hash: CuckooHash) -> bool {
        self.arrays.iter().any(|array| array.contains(hash))
    }

    /// Prefetches the buckets of an item in the newest array, where most items are.
    fn prefetch(&self, hash: CuckooHash, prefetch: impl Prefetch) {
        if prefetch.is_needed()
            && let Some(array) = self.arrays.last()
        {
            array.words(hash).into_iter().flatten().for_each(|word| prefetch.prefetch(word));
        }
    }

    /// Calls `visit` with each item's hash, while the buckets of the items after it are prefetched.
    pub fn for_each_hash(
        &mut self,
        items: &[&[u8]],
        prefetch: impl Prefetch,
        mut visit: impl FnMut(&mut Self, CuckooHash),
    ) {
        for group in items.chunks(GROUP_ITEMS) {
            let hashes = group
                .iter()
                .map(|item| self.release.hash(item))
                .collect::<smallvec::SmallVec<[_; GROUP_ITEMS]>>();
            hashes.iter().for_each(|hash| self.prefetch(*hash, prefetch));
            hashes.into_iter().for_each(|hash| visit(self, hash));
        }
    }

    /// Returns whether an item with this hash may be in the filter. O(arrays).
    #[must_use]
    pub fn contains_hash(&self, hash: CuckooHash) -> bool {
        self.has(hash)
    }

    /// Returns how many slots have the fingerprint of the item in one of its buckets. O(arrays).
    #[must_use]
    pub fn count(&self, item: &[u8]) -> u64 {
        let hash = self.release.hash(item);
        self.arrays.iter().fold(0, |sum, array| sum.saturating_add(array.count(hash, self.release)))
    }

    /// Adds the fingerprint of an item. O(arrays + iterations).
    ///
    /// # Errors
    /// [`AddError::Full`] if the filter has a fixed size and no place, or [`AddError::CannotGrow`]. The filter is then
    /// unchanged.
    pub fn add(&mut self, hash: CuckooHash, limit: &dyn ByteLimit) -> Result<(), AddError> {
        loop {
            let mut writes = Vec::new();
            if self.put(hash) || self.kick_out(hash, &mut writes).map_err(AddError::CannotGrow)? {
                self.items = self.items.wrapping_add(1);
                return Ok(());
            }
            let grown = match self.parameters.expansion {
                0 => Err(AddError::Full),
                _ => self.grow(limit).map_err(AddError::CannotGrow),
            };
            if let (Err(error), Some(array)) = (grown, self.arrays.last_mut()) {
                writes.iter().rev().for_each(|(place, former)| array.set(*place, *former));
                return Err(error);
            }
        }
    }

    /// Puts a fingerprint into a free slot, of the newest array that has one.
    fn put(&mut self, hash: CuckooHash) -> bool {
        for array in self.arrays.iter_mut().rev() {
            if let Some(place) = array.find(hash.first, hash.second, 0) {
                array.set(place, hash.fingerprint);
                return true;
            }
        }
        false
    }

    /// Puts a fingerprint into its first bucket of the newest array, and moves the fingerprint that was there to its other
    /// bucket, until one finds a free slot. If none does, takes everything back as RedisBloom does. With a number of buckets
    /// that is no power of two, that does not restore the array: `writes` then gets each place and its former value.
    fn kick_out(&mut self, hash: CuckooHash, writes: &mut Vec<(usize, u8)>) -> Result<bool, ReserveError> {
        let (iterations, size) = (self.parameters.max_iterations, usize::from(self.parameters.bucket_size));
        let Some(array) = self.arrays.last_mut() else { return Ok(false) };
        let is_exact = array.buckets().is_power_of_two();
        if !is_exact {
            let most = usize::from(iterations).saturating_mul(2);
            writes.try_reserve_exact(most).map_err(|_| ReserveError::OutOfMemory)?;
        }
        let mut replace = |array: &mut BucketArray, bucket, slot, fingerprint| {
            let place = array.place_of(bucket).saturating_add(slot);
            let former = array.replace(place, fingerprint);
            if !is_exact {
                writes.push((place, former));
            }
            former
        };
        let (mut fingerprint, mut bucket, mut slot) = (hash.fingerprint, array.bucket_of(hash.first), 0usize);
        for _ in 0..iterations {
            fingerprint = replace(array, bucket, slot, fingerprint);
            bucket = array.bucket_of(other(fingerprint, bucket));
            let place = array.place_of(bucket);
            if let Some(free) = array.slots_at(place).iter().position(|slot| *slot == 0) {
                array.set(place.saturating_add(free), fingerprint);
                return Ok(true);
            }
            slot = (slot.wrapping_add(1)) % size.max(1);
        }
        for _ in 0..iterations {
            slot = (slot.wrapping_add(size).wrapping_sub(1)) % size.max(1);
            bucket = array.bucket_of(other(fingerprint, bucket));
            fingerprint = replace(array, bucket, slot, fingerprint);
        }
        Ok(false)
    }

    /// Appends an array within the limit. Refuses one with which the filter could not be loaded again. O(arrays).
    fn grow(&mut self, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        if self.arrays.len() >= ARRAYS_MAX {
            return Err(ReserveError::TooLong);
        }
        let buckets = self.parameters.buckets_of(self.arrays.len()).ok_or(ReserveError::TooLong)?;
        let size_bytes = BucketArray::size_bytes(buckets, self.parameters.bucket_size);
        check(self.slots_bytes().saturating_add(size_bytes.ok_or(ReserveError::TooLong)?), limit)?;
        self.append()?;
        if searched(&self.arrays) > SEARCHED_MAX {
            self.arrays.pop();
            return Err(ReserveError::TooLong);
        }
        Ok(())
    }

    /// Appends an array of the size that follows from the parameters. O(1).
    fn append(&mut self) -> Result<(), ReserveError> {
        let buckets = self.parameters.buckets_of(self.arrays.len()).ok_or(ReserveError::TooLong)?;
        self.arrays.try_reserve(1).map_err(|_| ReserveError::OutOfMemory)?;
        let array = BucketArray::try_new(buckets, self.parameters.bucket_size);
        self.arrays.push(array.map_err(|OutOfMemory| ReserveError::OutOfMemory)?);
        Ok(())
    }

    /// Deletes one fingerprint of an item, from the newest array that has one; from the oldest one if the filter is old.
    /// Returns whether there was one. May compact the filter. O(arrays), or as [`compact`](Self::compact).
    pub fn delete(&mut self, item: &[u8]) -> bool {
        let (hash, count) = (self.release.hash(item), self.arrays.len());
        let is_old = self.release == CuckooRelease::Old;
        for turn in 0..count {
            let index = if is_old { turn } else { count.wrapping_sub(1).wrapping_sub(turn) };
            let Some(array) = self.arrays.get_mut(index) else { return false };
            if let Some(place) = array.find(hash.first, hash.second, hash.fingerprint) {
                array.set(place, 0);
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

    /// Moves fingerprints of newer arrays to free slots of older ones, from the newest array on, and drops the last array
    /// if it is empty then. Stops at the first array that cannot be emptied, unless it `goes_on`. Returns whether the filter
    /// has changed. Does nothing to an old filter. O(bytes * sizes of arrays).
    pub fn compact(&mut self, goes_on: bool) -> bool {
        if self.release == CuckooRelease::Old {
            return false;
        }
        let mut has_changed = std::mem::take(&mut self.deletes) > 0;
        let mut rooms = Rooms::of(&self.arrays);
        for index in (1..self.arrays.len()).rev() {
            let is_emptied = self.empty(index, &mut rooms, &mut has_changed);
            if is_emptied && index.wrapping_add(1) == self.arrays.len() {
                self.arrays.pop();
                has_changed = true;
            }
            if !is_emptied && !goes_on {
                break;
            }
        }
        has_changed
    }

    /// Moves the fingerprints of an array to older ones. Returns whether none is left.
    fn empty(&mut self, index: usize, rooms: &mut Rooms, has_changed: &mut bool) -> bool {
        let (older, newer) = self.arrays.split_at_mut(index);
        let Some(array) = newer.first_mut() else { return true };
        let mut is_emptied = true;
        for bucket in 0..array.buckets() {
            let place = array.place_of(bucket);
            for place in place..place.saturating_add(self.parameters.bucket_size.into()) {
                let fingerprint = array.bytes().get(place).copied().unwrap_or(0);
                if fingerprint == 0 {
                    continue;
                }
                if let Some((index, free)) = rooms.find(older, bucket, other(fingerprint, bucket))
                    && let Some(older) = older.get_mut(index)
                {
                    older.set(free, fingerprint);
                    array.set(place, 0);
                    *has_changed = true;
                } else {
                    is_emptied = false;
                }
            }
        }
        is_emptied
    }

    /// Makes a copy with its own memory. O(bytes).
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
}

impl Blocks for CuckooFilter {
    fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        visitor.visit(&self.arrays);
        self.arrays.iter().for_each(|array| visitor.visit(array.bytes()));
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

/// Items whose buckets are prefetched together.
const GROUP_ITEMS: usize = 16;

/// Checks the bytes of all arrays.
fn check(needed_bytes: u64, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
    limit.permits(needed_bytes).map_err(|limit| ReserveError::TooLarge { needed_bytes, limit })
}
