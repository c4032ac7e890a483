//! The compaction of cuckoo filters.

use super::CuckooFilter;
use super::rooms::Rooms;
use crate::cuckoo::array::{BucketArray, CuckooRelease, other};
use crate::work::count_slots;

impl CuckooFilter {
    /// Moves fingerprints of newer arrays to free slots of older ones, from the newest array on, and drops the last array
    /// if it is empty then. Stops at the first array that cannot be emptied, unless it `goes_on`. Returns whether the filter
    /// has changed. Does nothing to an old filter, and moves nothing if RedisBloom does not address an array. O(arrays +
    /// bytes that may have a fingerprint + fingerprints * sizes of arrays).
    pub fn compact(&mut self, goes_on: bool) -> bool {
        if self.release == CuckooRelease::Old {
            return false;
        }
        let mut has_changed = std::mem::take(&mut self.deletes) > 0;
        if !self.arrays.iter().all(BucketArray::is_addressed) {
            return has_changed;
        }
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
        let bucket_size = u64::from(self.parameters.bucket_size.max(1));
        let (older, newer) = self.arrays.split_at_mut(index);
        let Some(array) = newer.first_mut() else { return true };
        rooms.leave(array);
        let (mut left, mut start) = (array.fingerprints(), 0usize);
        // The walk ends when all fingerprints are found, or when no slot of an older array is free.
        while left > 0
            && rooms.has_free_slots()
            && let Some(words) = array.next_words(start)
        {
            start = words.end;
            count_slots(|| words.len());
            for word in words {
                let (mut slots, mut place) = (array.slots_of(word), word.wrapping_mul(8));
                while slots != 0 {
                    let [fingerprint, ..] = slots.to_le_bytes();
                    if fingerprint != 0 {
                        left = left.wrapping_sub(1);
                        let bucket = place as u64 / bucket_size;
                        if let Some((index, free)) = rooms.take(older, bucket, other(fingerprint, bucket))
                            && let Some(older) = older.get_mut(index)
                        {
                            older.fill(free, fingerprint);
                            array.free(place);
                            *has_changed = true;
                        }
                    }
                    slots >>= 8;
                    place = place.wrapping_add(1);
                }
            }
        }
        array.fingerprints() == 0
    }
}
