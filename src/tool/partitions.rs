//! Distributes a filter over partitions on all nodes of a cluster: the partition of an item, the capacity of a
//! partition, and batches for each. docs/clusters.md has the rule that every client follows.

use std::sync::{Mutex, PoisonError};
use std::thread;

use everbloom::{BloomFilter, Tally};

use super::build::{PART_BYTES, empty, threads_of};
use super::failure::Failure;
use super::input;
use super::options::{self, items};
use super::output::{Output, per_second};
use super::packing::{Batch, Moment};
use super::sending::too_long;

/// The largest number of partitions: the slots of a cluster.
const PARTITIONS_MAX: u32 = 16_384;

/// Returns the key of a partition.
pub(crate) fn key(name: &str, number: u32) -> String {
    format!("{name}:{{{number}}}")
}

/// Returns the keys of all partitions in order.
///
/// # Errors
/// The name contains a brace. The slot would then depend on the name and not on the number of the partition.
pub(crate) fn keys(name: &str, count: u32) -> Result<Vec<Vec<u8>>, Failure> {
    if name.contains('{') {
        return Err(Failure::usage(
            "the key contains a brace, so all partitions would be in one slot: use a key without {",
        ));
    }
    Ok((0..count).map(|number| key(name, number).into_bytes()).collect())
}

/// Returns the name and the number of a partition from its key; `None` if the key is not that of a partition.
pub(crate) fn of_key(key: &str) -> Option<(&str, u32)> {
    let (name, number) = key.strip_suffix('}')?.rsplit_once(":{")?;
    let parsed: u32 = number.parse().ok().filter(|number| *number < PARTITIONS_MAX)?;
    // Refuses 07 and +7, which are keys of no partition.
    (parsed.to_string() == number && !name.contains('{')).then_some((name, parsed))
}

/// Returns the partition of an item.
#[inline]
pub(crate) fn partition_of(item: &[u8], count: u32) -> usize {
    (crc32fast::hash(item) % count.max(1)) as usize
}

/// Returns the capacity of each partition, at least 1. It is the share of the items plus four standard deviations,
/// `share + 4 sqrt(share)`, rounded up, so that no partition grows.
pub(crate) fn capacity_items(all_items: u64, count: u32) -> u64 {
    let (items, count) = (u128::from(all_items), u128::from(count.max(1)));
    // 4 sqrt(items / count) is sqrt(16 items count) / count.
    let square = 16 * items * count;
    let root = square.isqrt();
    let root = if root * root == square { root } else { root + 1 };
    u64::try_from((items + root).div_ceil(count)).unwrap_or(u64::MAX).max(1)
}

/// Parses a number of partitions.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    let number = items(text).ok().and_then(|number| number.try_into().ok());
    let number = number.filter(|number| *number <= PARTITIONS_MAX);
    number.ok_or_else(|| format!("a number of partitions is between 1 and {PARTITIONS_MAX}"))
}

/// Approximate sum of the bytes of all partitions' batches.
const KEPT_BYTES: usize = 32 << 20;

/// Distributes items to a batch for each partition.
pub(crate) struct Spreader {
    count: u32,
    batch_bytes: usize,
    batches: Vec<Batch>,
    /// The time of the items in the batches.
    moment: Option<Moment>,
}

impl Spreader {
    /// Returns a spreader whose batches have about `batch_bytes` bytes, or fewer if there are many partitions.
    pub(crate) fn new(count: u32, batch_bytes: usize) -> Self {
        let fair_bytes = KEPT_BYTES / usize::try_from(count.max(1)).unwrap_or(usize::MAX);
        Self { batch_bytes: batch_bytes.min(fair_bytes), ..Self::gathering(count) }
    }

    /// Returns a spreader whose batches grow until they are added.
    fn gathering(count: u32) -> Self {
        let batches = (0..count).map(|_| Batch::prefixed(0)).collect();
        Self { count, batch_bytes: usize::MAX, batches, moment: None }
    }

    /// Distributes the items of a batch and emits the batches that are large enough. Emits all batches first if the
    /// items are of another generation.
    pub(crate) fn spread(
        &mut self,
        batch: &Batch,
        mut emit: impl FnMut(usize, Batch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let generation = |moment: Option<Moment>| moment.map(|moment| moment.generation);
        if generation(self.moment) != generation(batch.moment) {
            self.flush(&mut emit)?;
            self.moment = batch.moment;
        }
        for item in batch {
            let number = partition_of(item, self.count);
            let Some(theirs) = self.batches.get_mut(number) else { continue };
            if !theirs.push(item) {
                return Err(too_long());
            }
            if theirs.data.len() >= self.batch_bytes {
                let next = Batch::prefixed(theirs.data.len());
                emit(number, std::mem::replace(theirs, next).at(self.moment))?;
            }
        }
        Ok(())
    }

    /// Emits all batches that have items.
    pub(crate) fn flush(
        &mut self,
        mut emit: impl FnMut(usize, Batch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for (number, batch) in self.batches.iter_mut().enumerate().filter(|(_, batch)| batch.items > 0) {
            emit(number, std::mem::replace(batch, Batch::prefixed(0)).at(self.moment))?;
        }
        Ok(())
    }

    /// Adds all items to the filters, each filter on one thread at a time, and clears the batches.
    fn add_to(&mut self, filters: &mut [BloomFilter], threads: usize) -> Result<Tally, Failure> {
        let work = Mutex::new(filters.iter_mut().zip(&self.batches));
        let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
        let add = || {
            let mut tally = Tally::default();
            while let Some((filter, batch)) = next() {
                let added = filter.add_parts(vec![batch]);
                tally = tally.plus(added.map_err(Failure::new)?);
            }
            Ok(tally)
        };
        let tallies: Vec<Result<Tally, Failure>> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(add)).collect();
            workers
                .into_iter()
                .map(|worker| {
                    worker.join().unwrap_or_else(|_| Err(Failure::new("internal error: a thread panicked")))
                })
                .collect()
        });
        for batch in &mut self.batches {
            batch.data.clear();
            batch.items = 0;
        }
        tallies.into_iter().try_fold(Tally::default(), |sum, tally| Ok(sum.plus(tally?)))
    }
}

/// Builds the filters of all partitions without a server. Returns the filters, the counts, and the seconds that it
/// took.
pub(crate) fn build_partitions(
    input: &input::Arguments,
    options: &options::Arguments,
    (capacity_items, count): (u64, u32),
    threads: Option<u16>,
    output: &Output,
) -> Result<(Vec<BloomFilter>, Tally, f64), Failure> {
    let threads = threads_of(threads);
    let filters = (0..count).map(|_| empty(options, capacity_items));
    let mut filters: Vec<BloomFilter> = filters.collect::<Result<_, Failure>>()?;
    let batches = input.batches(PART_BYTES, None)?;
    let progress = output.progress("building", batches.total_bytes);
    let mut tally = Tally::default();
    // Large enough that the threads seldom wait for each other.
    let mut gathered = Spreader::gathering(count);
    let mut source = &batches;
    loop {
        let mut has_ended = true;
        for batch in source.by_ref().take(threads.saturating_mul(2)) {
            has_ended = false;
            gathered.spread(&batch?, |_, _| Ok(()))?;
        }
        tally = tally.plus(gathered.add_to(&mut filters, threads)?);
        progress.set(
            batches.done_bytes(),
            format!("{} items, {} items/s", tally.items, per_second(tally.items, progress.seconds())),
        );
        if has_ended {
            let seconds = progress.finish();
            batches.note_line_ends(output);
            return Ok((filters, tally, seconds));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_the_partition_of_the_rule() {
        // CRC-32 of zlib: its check value.
        assert_eq!(partition_of(b"123456789", u32::MAX), 0xCBF4_3926);
        assert_eq!(partition_of(b"123456789", 24), 0xCBF4_3926 % 24);
        assert_eq!(partition_of(b"", 24), 0);
        assert_eq!(key("seen", 17), "seen:{17}");
        assert_eq!(of_key("a:b:{17}"), Some(("a:b", 17)));
        for other in
            ["seen", "seen:{}", "seen:{07}", "seen:{+7}", "seen:{16384}", "seen{7}", "{a}:{7}", "seen:{7}x"]
        {
            assert_eq!(of_key(other), None, "{other}");
        }
    }

    #[test]
    fn the_capacity_of_a_partition_is_its_share_and_four_deviations() {
        // The first value is the example of docs/clusters.md. The others are whole square roots and the limits.
        assert_eq!(capacity_items(2_000_000, 24), 84_489);
        assert_eq!(capacity_items(100, 1), 140);
        assert_eq!(capacity_items(400, 4), 140);
        assert_eq!(capacity_items(0, 24), 1);
        assert_eq!(capacity_items(1, 24), 1);
        assert_eq!(capacity_items(u64::MAX, 1), u64::MAX);
        for (items, count) in [(1_000_000u64, 24), (7, 3), (12_345_678, 64), (99, 100)] {
            let share = items as f64 / f64::from(count);
            let expected = (share + 4.0 * share.sqrt()).ceil();
            assert_eq!(capacity_items(items, count) as f64, expected, "{items} {count}");
        }
    }

    #[test]
    fn numbers_of_partitions_have_a_range() {
        assert_eq!((count("1"), count("16384")), (Ok(1), Ok(16_384)));
        assert!(["0", "16385", "-1", "many", ""].iter().all(|text| count(text).is_err()));
        assert!(keys("a{b}", 2).is_err());
    }
}
