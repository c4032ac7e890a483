//! Items of a file to the partitions that they belong to.

use std::sync::{Mutex, PoisonError};
use std::thread;

use everbloom::{BloomFilter, Tally};

use super::build::{PART_BYTES, empty, threads_of};
use super::failure::Failure;
use super::input;
use super::options;
use super::output::{Output, Unit, per_second};
use super::packing::Batch;
use super::partitions::partition_of;

/// Bytes that all partitions keep back together, about.
const KEPT_BYTES: usize = 32 << 20;

/// Gathers a batch for each partition.
pub(crate) struct Spreader {
    count: u32,
    batch_bytes: usize,
    batches: Vec<Batch>,
}

impl Spreader {
    /// With batches of at most about so many bytes, and of fewer where there are many partitions.
    pub(crate) fn new(count: u32, batch_bytes: usize) -> Self {
        let fair_bytes = KEPT_BYTES / usize::try_from(count.max(1)).unwrap_or(usize::MAX);
        Self { batch_bytes: batch_bytes.min(fair_bytes), ..Self::gathering(count) }
    }

    /// With batches that grow until they are taken.
    fn gathering(count: u32) -> Self {
        Self { count, batch_bytes: usize::MAX, batches: (0..count).map(|_| Batch::prefixed(0)).collect() }
    }

    /// Spreads the items of a batch; what is then large enough is given on.
    pub(crate) fn spread(
        &mut self,
        batch: &Batch,
        mut emit: impl FnMut(usize, Batch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for item in batch {
            let number = partition_of(item, self.count);
            let Some(theirs) = self.batches.get_mut(number) else { continue };
            if !theirs.push(item) {
                return Err(Failure::new("an item is longer than any server takes"));
            }
            if theirs.data.len() >= self.batch_bytes {
                let next = Batch::prefixed(theirs.data.len());
                emit(number, std::mem::replace(theirs, next))?;
            }
        }
        Ok(())
    }

    /// Gives on what is left.
    pub(crate) fn finish(
        self,
        mut emit: impl FnMut(usize, Batch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let left = self.batches.into_iter().enumerate().filter(|(_, batch)| batch.items > 0);
        left.into_iter().try_for_each(|(number, batch)| emit(number, batch))
    }

    /// Adds all to the filters, each of which one thread takes at a time, and keeps none.
    fn add_to(&mut self, filters: &mut [BloomFilter], threads: usize) -> Result<Tally, Failure> {
        let work = Mutex::new(filters.iter_mut().zip(&self.batches));
        let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
        let add = || {
            let mut tally = Tally::default();
            while let Some((filter, batch)) = next() {
                let added = filter.add_parts(vec![batch]);
                tally = tally.plus(added.map_err(|error| Failure::new(error.to_string()))?);
            }
            Ok(tally)
        };
        let tallies: Vec<Result<Tally, Failure>> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(add)).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked"))))
                .collect()
        });
        for batch in &mut self.batches {
            batch.data.clear();
            batch.items = 0;
        }
        tallies.into_iter().try_fold(Tally::default(), |sum, tally| Ok(sum.plus(tally?)))
    }
}

/// Builds the filters of all partitions, each of a capacity, without a server: with what came of it, and the seconds
/// that it took.
pub(crate) fn build_partitions(
    input: &input::Arguments,
    options: &options::Arguments,
    (capacity_items, count): (u64, u32),
    threads: Option<usize>,
    output: &Output,
) -> Result<(Vec<BloomFilter>, Tally, f64), Failure> {
    let threads = threads_of(threads);
    let filters = (0..count).map(|_| empty(options, capacity_items));
    let mut filters: Vec<BloomFilter> = filters.collect::<Result<_, Failure>>()?;
    let batches = input.batches(PART_BYTES)?;
    let progress = output.progress("building", batches.total_bytes, Unit::Bytes);
    let mut tally = Tally::default();
    // So much at a time that the threads seldom wait for one another.
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
            return Ok((filters, tally, progress.seconds()));
        }
    }
}
