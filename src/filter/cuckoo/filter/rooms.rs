//! Where a compaction finds free slots: in the oldest array that has one.

use std::ops::Range;

use crate::cuckoo::array::BucketArray;
use crate::work::count_slots;

/// A run of at most this many arrays, with buckets of at most this many slots, is scanned from its first array on.
const SCANNED_MAX: usize = 8;

/// For each bucket, the oldest array that may have a free slot in it.
///
/// A compaction fills the buckets of older arrays and frees none of them, so a bucket that was full stays full. So each
/// bucket of each array is found full once only, however many fingerprints have no place.
pub(super) struct Rooms {
    /// The arrays by their size, the oldest first.
    runs: Vec<EqualArrays>,
    /// The free slots of all arrays that are older than the one that is emptied.
    free_slots: u64,
}

/// Adjacent arrays of one size.
struct EqualArrays {
    buckets: u64,
    /// The positions of the arrays in the filter.
    arrays: Range<usize>,
    /// For each bucket, how many of the arrays, from the first one on, are known to be full in it. Empty if few slots are
    /// scanned, or if there is too little memory: then each search starts at the first array.
    full: Vec<u16>,
}

/// Returns the runs of adjacent arrays of one size.
fn runs(arrays: &[BucketArray]) -> impl Iterator<Item = &[BucketArray]> {
    arrays.chunk_by(|a, b| a.buckets() == b.buckets())
}

/// Returns the most arrays that a search for a free slot looks at, besides those that it finds full for the first time.
/// O(arrays).
pub(super) fn searched(arrays: &[BucketArray]) -> usize {
    runs(arrays).map(|run| if run.len() > SCANNED_MAX { 1 } else { run.len() }).sum()
}

impl Rooms {
    /// Returns the rooms of these arrays. Takes at most a quarter of their memory, zeroed when it is first used. O(arrays).
    pub(super) fn of(arrays: &[BucketArray]) -> Self {
        let mut start = 0usize;
        let runs = runs(arrays).map(|run| {
            let (buckets, slots) = run.first().map_or((1, 1), |array| (array.buckets(), array.slots()));
            let arrays = start..start.saturating_add(run.len());
            start = arrays.end;
            let is_scanned = run.len() <= SCANNED_MAX && slots / buckets <= SCANNED_MAX as u64;
            let known = if is_scanned { 0 } else { usize::try_from(buckets).unwrap_or(0) };
            EqualArrays { buckets, arrays, full: bytemuck::try_zeroed_vec(known).unwrap_or_default() }
        });
        let free_slots = arrays.iter().map(BucketArray::free_slots).fold(0, u64::saturating_add);
        Self { runs: runs.collect(), free_slots }
    }

    /// Leaves an array out, which is emptied next. Those after it were left out before.
    pub(super) fn leave(&mut self, array: &BucketArray) {
        self.free_slots = self.free_slots.saturating_sub(array.free_slots());
    }

    /// Returns whether an older array has a free slot.
    pub(super) const fn has_free_slots(&self) -> bool {
        self.free_slots > 0
    }

    /// Returns the oldest of the `older` arrays with a free slot in one of two buckets, and the place of the slot, which the
    /// caller takes.
    pub(super) fn take(&mut self, older: &[BucketArray], first: u64, second: u64) -> Option<(usize, usize)> {
        let found = self.find(older, first, second)?;
        self.free_slots = self.free_slots.saturating_sub(1);
        Some(found)
    }

    fn find(&mut self, older: &[BucketArray], first: u64, second: u64) -> Option<(usize, usize)> {
        self.runs.iter_mut().find_map(|run| {
            if run.full.is_empty() {
                return run.arrays.clone().find_map(|index| {
                    let array = older.get(index).filter(|array| !array.is_full())?;
                    Some((index, array.find(first, second, 0)?))
                });
            }
            let rooms = [first, second].map(|number| run.find(older, number));
            rooms.into_iter().flatten().min_by_key(|(array, _)| *array)
        })
    }
}

impl EqualArrays {
    /// Returns the oldest of the `older` arrays of the run with a free slot in a bucket, and the place of the slot.
    fn find(&mut self, older: &[BucketArray], number: u64) -> Option<(usize, usize)> {
        let bucket = usize::try_from(number.checked_rem(self.buckets)?).ok()?;
        let full = self.full.get_mut(bucket)?;
        count_slots(|| 0);
        for index in self.arrays.clone().skip((*full).into()) {
            if let Some(place) = older.get(index)?.find_in(number, 0) {
                return Some((index, place));
            }
            *full = full.saturating_add(1);
        }
        None
    }
}
