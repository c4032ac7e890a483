//! Changes of a table. Each is planned with all its memory, checked against the limit, and made as a whole. An operation of
//! several changes is made as a whole too.

use smallvec::SmallVec;

use super::directory::Directory;
use super::entry::RunSlots;
use super::segment::Segment;
use super::size::SegmentShape;
use super::state::{BucketAddress, Table};
use super::totals::{EntrySums, ItemCounts};
use crate::growth_budget::GrowthBudget;
use crate::memory::OutOfMemory;
use crate::outcome::ReserveError;
use crate::words::PortableSelect;

/// New segments of a table, which replace others.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The number of segments after the change.
    pub(super) segments: usize,
    /// The new segments, with their numbers. Those whose number the table will not have are empty.
    pub(super) replaced: SmallVec<[(usize, Segment); 2]>,
    /// The change of the sums over all entries.
    pub(super) sums: EntrySums,
}

/// What takes back an operation that is refused after it has changed the table.
#[derive(Default)]
pub(super) struct Undo {
    /// The changes that take back those that were made, in the order in which those were made.
    changes: SmallVec<[Changes; 4]>,
    /// The slots of a run before the operation.
    run: Option<(BucketAddress, RunSlots)>,
    /// The stored sums and the counts before the operation.
    totals: Option<(EntrySums, ItemCounts)>,
}

impl Undo {
    /// Returns whether no segment was replaced.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

impl Table {
    /// Does an operation. Either all of it is done, or nothing if it fails.
    pub(super) fn do_whole<R, E>(
        &mut self,
        operation: impl FnOnce(&mut Self, &mut Undo) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut undo = Undo::default();
        let result = operation(self, &mut undo);
        let is_changed = !undo.is_empty();
        if result.is_err() {
            self.take_back(undo);
        }
        // The directory keeps its memory while changes can be taken back.
        if is_changed {
            self.directory.trim();
        }
        result
    }

    /// Makes changes, which were planned with all memory of their segments. Only the directory may need more, before
    /// anything changes.
    pub(super) fn make(&mut self, changes: Changes, undo: &mut Undo) -> Result<(), OutOfMemory> {
        if changes.segments > self.directory.len() {
            let match_all_counts = self.match_all_counts();
            let reserved = self.directory.try_reserve(changes.segments, match_all_counts);
            reserved.inspect_err(|OutOfMemory| self.directory.trim())?;
        }
        let before = self.exchange(changes);
        undo.changes.push(before);
        Ok(())
    }

    /// Makes changes, if there are any.
    pub(super) fn make_all(&mut self, changes: Option<Changes>, undo: &mut Undo) -> Result<(), OutOfMemory> {
        changes.map_or(Ok(()), |changes| self.make(changes, undo))
    }

    /// Makes changes for which the directory has memory. Returns those that take them back.
    fn exchange(&mut self, mut changes: Changes) -> Changes {
        let before = self.directory.len();
        self.directory.set_len(before.max(changes.segments));
        for (number, segment) in &mut changes.replaced {
            *segment = self.directory.replace(*number, std::mem::take(segment));
        }
        self.directory.set_len(changes.segments);
        self.add_sums(changes.sums);
        self.counts.settle(self.used_slots());
        Changes { segments: before, sums: EntrySums::default().minus(changes.sums), ..changes }
    }

    /// Checks the limit of bytes for changes of which some segments are known.
    pub(super) fn check(&self, changes: &Changes, room: &GrowthBudget<'_>) -> Result<(), ReserveError> {
        let shapes = changes.replaced.iter().map(|(number, segment)| (*number, segment.shape()));
        self.check_shapes(changes.segments, shapes, room)
    }

    /// Checks the limit of bytes for a table of this many segments, of which some get other shapes.
    pub(super) fn check_shapes(
        &self,
        segments: usize,
        shapes: impl Iterator<Item = (usize, SegmentShape)>,
        room: &GrowthBudget<'_>,
    ) -> Result<(), ReserveError> {
        let mut bytes =
            self.size_bytes() - Directory::bytes_of(self.directory.len()) + Directory::bytes_of(segments);
        for (number, shape) in shapes {
            let before =
                if number < self.directory.len() { self.directory.get(number).shape().bytes() } else { 0 };
            bytes = bytes + shape.bytes() - before;
        }
        room.check(bytes)
    }

    pub(super) fn replacing(&self, number: usize, segment: Segment, sums: EntrySums) -> Changes {
        Changes { segments: self.directory.len(), replaced: [(number, segment)].into_iter().collect(), sums }
    }

    /// Keeps what an add to this bucket changes besides the segments that are replaced. The operation makes at most one more
    /// change after it, as its last step.
    pub(super) fn keep(&mut self, address: BucketAddress, undo: &mut Undo) -> Result<(), OutOfMemory> {
        let (number, segment) = (address.segment, self.directory.get(address.segment));
        if segment.used() < segment.used_max() {
            let run = segment.run(address.block, address.bucket, PortableSelect);
            undo.run = Some((address, segment.slots_of(run)));
        } else {
            // Several buckets become saturated.
            let copy = self.replacing(number, segment.try_clone()?, EntrySums::default());
            self.make(copy, undo)?;
        }
        undo.totals = Some((self.stored_sums(), self.counts.clone()));
        Ok(())
    }

    /// Takes back what an operation has changed.
    #[cold]
    #[expect(clippy::expect_used, reason = "the segment had these slots before")]
    fn take_back(&mut self, undo: Undo) {
        let Undo { changes, run, totals } = undo;
        if let Some((address, slots)) = run {
            self.directory
                .edit(address.segment, |segment| {
                    let run = segment.run(address.block, address.bucket, PortableSelect);
                    segment.replace_run(run, segment.slots_of(run).len(), &slots)
                })
                .expect("the slots of a run");
        }
        if let Some((sums, counts)) = totals {
            self.add_sums(sums.minus(self.stored_sums()));
            self.counts = counts;
        }
        changes.into_iter().rev().for_each(|changes| _ = self.exchange(changes));
    }
}
