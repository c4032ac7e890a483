//! Where a compaction finds free slots: in the oldest array that has one.

use std::ops::Range;

use super::array::BucketArray;

/// A run of at most this many arrays is scanned from its first array on.
const SCANNED_MAX: usize = 8;

/// For each bucket, the oldest array that may have a free slot in it.
///
/// A compaction fills the buckets of older arrays and frees none of them, so a bucket that was full stays full. So each
/// bucket of each array is found full once only, however many fingerprints have no place.
pub(super) struct Rooms {
    /// The arrays by their size, the oldest first.
    runs: Vec<EqualArrays>,
}

/// Adjacent arrays of one size.
struct EqualArrays {
    buckets: u64,
    /// The positions of the arrays in the filter.
    arrays: Range<usize>,
    /// For each bucket, how many of the arrays, from the first one on, are known to be full in it. Empty if there are few
    /// arrays, or too little memory: then each search starts at the first array.
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
    /// Returns the rooms of these arrays. Takes at most a quarter of their memory. O(arrays).
    pub(super) fn of(arrays: &[BucketArray]) -> Self {
        let mut start = 0usize;
        let runs = runs(arrays).map(|run| {
            let buckets = run.first().map_or(1, BucketArray::buckets);
            let arrays = start..start.saturating_add(run.len());
            start = arrays.end;
            let known = if run.len() > SCANNED_MAX { usize::try_from(buckets).unwrap_or(0) } else { 0 };
            EqualArrays { buckets, arrays, full: bytemuck::try_zeroed_vec(known).unwrap_or_default() }
        });
        Self { runs: runs.collect() }
    }

    /// Returns the oldest of the `older` arrays with a free slot in one of two buckets, and the place of the slot.
    pub(super) fn find(&mut self, older: &[BucketArray], first: u64, second: u64) -> Option<(usize, usize)> {
        self.runs.iter_mut().find_map(|run| {
            if run.full.is_empty() {
                return run.arrays.clone().find_map(|index| {
                    let place = older.get(index)?.find(first, second, 0)?;
                    Some((index, place))
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
        for index in self.arrays.clone().skip((*full).into()) {
            if let Some(place) = older.get(index)?.find(number, number, 0) {
                return Some((index, place));
            }
            *full = full.saturating_add(1);
        }
        None
    }
}
