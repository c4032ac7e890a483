//! When a table grows, shrinks or frees expired entries, and by how much. Each change is planned first, with all its
//! memory, and then made as a whole.
//!
//! A table of fewer than 64 blocks is one segment, and grows by doubling the number of blocks. In a larger table all
//! segments have 64 blocks, and one segment after another is split, in the order of their numbers: segment `i` of 2^`d`
//! becomes the segments `i` and `i + 2^d`. A round of splits splits each of the 2^`d` segments once. A round starts at
//! 1.4 slots per bucket and ends at 1.6, both counted over the buckets before the round. Rounds are this short because
//! segments that are split have half the load of the others, and uneven loads take more memory.
//!
//! A table shrinks in the reverse order. It shrinks when the slots in use are fewer than 0.7 of the number at which it
//! grew to its size. So adds and removals at the boundary do not make it grow and shrink in turn.
//!
//! Expired entries are freed by adds. An add of an entry compacts the segment of its item if the last compaction is too
//! old. Every 256th add also compacts another segment, or joins two.

use smallvec::SmallVec;

use super::changes::{Changes, Undo};
use super::entry::{EntryKind, RUN_MAX};
use super::rewrite::{Rewriter, Rule};
use super::segment::{RewriteError, Segment};
use super::size::{BLOCKS_LOG_MAX, SEGMENT_BUCKETS, SegmentShape, TableSize, USED_MAX};
use super::source::{EntrySource, Target};
use super::state::Table;
use super::totals::EntrySums;
use crate::generation::{Generation, Steps};
use crate::growth_budget::GrowthBudget;
use crate::hash::ItemHash;
use crate::memory::OutOfMemory;
use crate::outcome::ReserveError;

/// The number of adds between two sweeps. A sweep compacts the next segment in turn, or joins two segments. So the
/// memory of expired entries becomes free also in segments to which no items are added.
const SWEEP_ENTRIES: u64 = 256;

/// Slots of void entries count towards the load of a table only up to this share of the other slots. The constant is
/// the divisor. Honest tables have fewer. A split copies void entries, so without this bound crafted ones would make a
/// table grow for ever.
const VOID_SHARE: u64 = 8;

/// A table grows early for a bucket that gets full if it has fewer buckets than this for each full one. An item has to
/// be crafted for each of the [`RUN_MAX`] slots of a full bucket, and a bucket without entries takes 0.4 bytes. So growth
/// takes some 25 bytes per crafted item, and some 100 once the segments have honest items.
const SPREAD_BUCKETS: u64 = 2000;
/// A table grows early for a segment that gets full if it has fewer segments than this.
const SPREAD_SEGMENTS: u64 = 80;
/// A segment gets full if fewer than this number of slots are left to the largest shape. Among honest segments, whose
/// loads differ by some 80 slots, none is as full.
const TIGHT_SLOTS: usize = 64;

/// A demand for free slots in the bucket of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotDemand {
    pub(super) hash: ItemHash,
    /// How many more slots will come into use.
    pub(super) slots: usize,
    /// Whether the bucket will be [full](RUN_MAX).
    pub(super) fills_bucket: bool,
    /// The current generation, if entries are timed.
    pub(super) now: Generation,
}

/// Returns the load of a table: its used slots, without those of void entries beyond the share of [`VOID_SHARE`].
pub(super) fn load_of(used: u64, void: u64) -> u64 {
    // A removal may free slots of void entries, which still count as such.
    let others = used.saturating_sub(void);
    others + void.min(used).min(others / VOID_SHARE)
}

impl Table {
    /// Returns whether a table of this size has to grow when `slots` more slots come into use.
    #[inline(always)]
    pub(super) fn must_grow(&self, slots: usize) -> bool {
        let used = self.used_slots() + slots as u64;
        used > self.size().slots_before_growth() && self.load(used) > self.size().slots_before_growth()
    }

    /// Returns the load if `used` slots are in use: see [`load_of`]. A table of one segment counts all of its slots.
    #[inline(always)]
    pub(super) fn load(&self, used: u64) -> u64 {
        load_of(
            used,
            self.directory.match_all_counts().map_or(0, |match_all_counts| match_all_counts.void_slots),
        )
    }

    /// Returns whether room must be made before `slots` more slots of a segment can be used: the segment is full, or
    /// the table has to grow.
    #[inline(always)]
    pub(super) fn needs_room(&self, segment: &Segment, slots: usize) -> bool {
        segment.used() + slots > segment.used_max() || self.must_grow(slots)
    }

    /// Returns whether crafted items fill a bucket or the segment of a table that is small for it, if `slots` more slots
    /// are used. The table then grows, so that the bucket or segment is a small part of it.
    #[inline(always)]
    pub(super) fn must_spread(&self, segment: &Segment, slots: usize, fills_bucket: bool) -> bool {
        let is_tight = segment.used() + slots > USED_MAX - TIGHT_SLOTS;
        (fills_bucket || is_tight) && self.is_small_for(fills_bucket)
    }

    #[cold]
    fn is_small_for(&self, fills_bucket: bool) -> bool {
        let saturated = self.match_all_counts().saturated_buckets;
        let full = match self.kind() {
            _ if !fills_bucket => return self.size().buckets() < SPREAD_SEGMENTS * SEGMENT_BUCKETS,
            // Full buckets are not counted. If each had twice its slots, all slots would be in this many.
            EntryKind::Counted => self.used_slots() / (2 * RUN_MAX as u64),
            EntryKind::Plain | EntryKind::Timed(_) => saturated + 1,
        };
        self.size().buckets() < full * SPREAD_BUCKETS
    }

    /// Makes room for the demanded slots. The item may then belong to another segment. Its segment has free slots
    /// afterwards, unless it has the largest shape and entries are not counted. If it fails, the caller takes back what was
    /// done. O(slots of a segment).
    pub(super) fn make_room(
        &mut self,
        demand: SlotDemand,
        room: &GrowthBudget<'_>,
        undo: &mut Undo,
    ) -> Result<(), ReserveError> {
        let (_, segment) = self.locate(demand.hash);
        // After a refusal nothing grows in this command. But removing expired entries makes room without growth.
        if let Some(error) = room.refused()
            && self.needs_room(segment, demand.slots)
            && !(segment.stamp < self.full_before(demand.now) && room.may_free())
        {
            return Err(error);
        }
        self.try_make_room(demand, room, undo).inspect_err(|error| room.refuse(*error))
    }

    fn try_make_room(
        &mut self,
        demand: SlotDemand,
        room: &GrowthBudget<'_>,
        undo: &mut Undo,
    ) -> Result<(), ReserveError> {
        // Expired entries are removed first. They then no longer count as slots in use.
        if self.kind().is_timed() {
            let (address, segment) = self.locate(demand.hash);
            let is_full = self.needs_room(segment, demand.slots);
            let before = if is_full { self.full_before(demand.now) } else { self.due_before(demand.now) };
            self.make_all(self.plan_compaction(address.segment, demand.slots, demand.now, before)?, undo)?;
        }
        let (_, segment) = self.locate(demand.hash);
        if demand.slots > 0
            && (self.must_grow(demand.slots) || self.must_spread(segment, demand.slots, demand.fills_bucket))
        {
            self.make(self.plan_growth(demand, room)?, undo)?;
        }
        self.make_all(self.plan_enlargement(demand, room)?, undo)?;
        let (_, segment) = self.locate(demand.hash);
        let is_full = segment.used() + demand.slots > segment.used_max();
        if is_full && self.kind() == EntryKind::Counted { Err(ReserveError::TooLong) } else { Ok(()) }
    }

    /// Plans to double the only segment, or to split the next one. Each resulting segment has room for the demanded
    /// slots, if possible.
    fn plan_growth(&self, demand: SlotDemand, room: &GrowthBudget<'_>) -> Result<Changes, ReserveError> {
        let (size, grown) = (self.size(), self.size().after_growth());
        if !grown.is_possible() {
            return Err(ReserveError::TooLong);
        }
        let number = size.next_to_grow();
        let is_split = grown.segments > size.segments;
        let mut numbers = SmallVec::<[usize; 2]>::from_slice(&[number]);
        numbers.extend(is_split.then_some(size.segments));
        let width = self.schedule.slot_width(self.kind(), grown.address_bits(number));
        let shape = |used: usize| {
            let demanded = SegmentShape::for_slots(grown.blocks_log, width, used + demand.slots);
            demanded.or_else(|| SegmentShape::for_slots(grown.blocks_log, width, used))
        };
        // The limit is checked before the work, with estimated shapes that are almost never too small.
        let used = self.directory.get(number).used();
        let likely = used / numbers.len() + if is_split { 2 * used.isqrt() } else { 0 };
        if let Some(likely) = shape(likely.min(used)) {
            self.check_shapes(grown.segments, numbers.iter().map(|number| (*number, likely)), room)?;
        }
        let mut rewriter = self.rewriter(demand.now);
        let mut changes =
            Changes { segments: grown.segments, replaced: SmallVec::new(), sums: EntrySums::default() };
        for number in numbers {
            let sources = [EntrySource::Table(&self.directory)];
            let target = Target::of(grown, number);
            let used = rewriter.collect_saturating(target, &sources)?;
            changes.replaced.push((number, rewriter.write(target, &sources, shape(used))?));
        }
        changes.sums = rewriter.sums().change();
        self.check(&changes, room)?;
        Ok(changes)
    }

    /// Plans to give the segment of an item more slots, if it needs them and there is a larger shape. The entries are
    /// copied.
    fn plan_enlargement(
        &self,
        demand: SlotDemand,
        room: &GrowthBudget<'_>,
    ) -> Result<Option<Changes>, ReserveError> {
        let (address, segment) = self.locate(demand.hash);
        let wanted = segment.used() + demand.slots;
        if wanted <= segment.used_max() {
            return Ok(None);
        }
        let width = self.schedule.slot_width(self.kind(), address.address_bits);
        let Some(shape) = SegmentShape::for_slots(segment.blocks_log(), width, wanted) else {
            return Ok(None);
        };
        let number = address.segment;
        self.check_shapes(self.directory.len(), std::iter::once((number, shape)), room)?;
        let is_first = segment.is_empty() && self.kind().is_timed();
        let stamp = if is_first { demand.now } else { segment.stamp };
        Ok(Some(self.replacing(number, segment.try_reshaped(shape, stamp)?, EntrySums::default())))
    }

    /// Returns a writer of segments of this table.
    fn rewriter(&self, now: Generation) -> Rewriter {
        Rewriter::new(self.kind(), self.schedule, Rule::Keep, now)
    }

    /// Plans to shrink the table or the segment if that is due when `slots` slots of the segment become free. The caller
    /// frees them afterwards. O(slots of a segment).
    pub(super) fn plan_shrinkage(&self, number: usize, slots: usize) -> Result<Option<Changes>, OutOfMemory> {
        if self.is_too_large(slots) {
            return self.plan_join(0);
        }
        let segment = self.directory.get(number);
        match reduced(segment, slots).map(|shape| segment.try_reshaped(shape, segment.stamp)) {
            Some(Ok(smaller)) => Ok(Some(self.replacing(number, smaller, EntrySums::default()))),
            Some(Err(RewriteError::OutOfMemory)) => Err(OutOfMemory),
            Some(Err(RewriteError::TooFull)) | None => Ok(None),
        }
    }

    /// Returns whether the table or the segment may shrink when `slots` slots of the segment become free.
    #[inline(always)]
    pub(super) fn is_shrinkage_due(&self, segment: &Segment, slots: usize) -> bool {
        reduced(segment, slots).is_some() || self.is_too_large(slots)
    }

    /// Returns whether the table should shrink when `freed` slots are no longer in use.
    #[inline(always)]
    fn is_too_large(&self, freed: usize) -> bool {
        let Some(smaller) = self.size().before_growth() else { return false };
        let due = smaller.slots_before_growth() / 10 * 7;
        self.load(self.used_slots() - freed as u64) < due && self.may_become(smaller)
    }

    /// Returns whether a table with this load may shrink to a smaller size.
    #[cold]
    fn may_become(&self, smaller: TableSize) -> bool {
        // A table that has grown for saturated buckets keeps its size.
        let saturated = self
            .directory
            .match_all_counts()
            .map_or(0, |match_all_counts| match_all_counts.saturated_buckets);
        smaller >= self.schedule.least_size() && smaller.buckets() >= saturated * SPREAD_BUCKETS
    }

    /// Plans to join the last segment with the one that it was split from, or to halve the number of blocks of the only
    /// segment. Plans nothing if the result or a bucket would be too full, which happens only if items are crafted.
    fn plan_join(&self, now: Generation) -> Result<Option<Changes>, OutOfMemory> {
        let size = self.size();
        let Some(smaller) = size.before_growth() else { return Ok(None) };
        let (number, last) = (smaller.next_to_grow(), size.segments - 1);
        let used = self.directory.get(number).used() + self.directory.get(last).used();
        // Expired entries may be left out. All others stay, so the work would be in vain.
        if last > 0 && used > USED_MAX && !self.kind().is_timed() {
            return Ok(None);
        }
        let mut rewriter = self.rewriter(now);
        let target = Target::of(smaller, number);
        let mut join = || {
            let sources = [EntrySource::Table(&self.directory)];
            let used = rewriter.collect(target, &sources)?;
            rewriter.write_smallest(target, &sources, used)
        };
        let joined = match join() {
            Ok(joined) => joined,
            Err(RewriteError::TooFull) => return Ok(None),
            Err(RewriteError::OutOfMemory) => return Err(OutOfMemory),
        };
        // A bucket would become saturated. The table has grown so that crafted items do not do this.
        if rewriter.sums().has_others {
            return Ok(None);
        }
        let mut changes = self.replacing(number, joined, rewriter.sums().change());
        changes.segments = smaller.segments;
        if last > 0 {
            changes.replaced.push((last, Segment::blank(BLOCKS_LOG_MAX)));
        }
        Ok(Some(changes))
    }

    /// Returns whether a segment of timed entries is compacted before an entry of the generation `now` is stored in it.
    #[inline(always)]
    pub(super) fn is_stale(kind: EntryKind, segment: &Segment, now: Generation) -> bool {
        // The clock may be behind the stamp.
        kind.steps().is_some_and(|steps| now.saturating_sub(segment.stamp) > steps.rest())
    }

    /// Returns the generation before which a segment of timed entries was last compacted that is due at `now`.
    fn due_before(&self, now: Generation) -> Generation {
        // Generation 0 is before all others.
        now.saturating_sub(self.kind().steps().map_or(0, Steps::rest))
    }

    /// Returns the same as [`due_before`](Self::due_before) for a segment that is full: one generation later.
    fn full_before(&self, now: Generation) -> Generation {
        now.saturating_sub(self.kind().steps().map_or(0, |steps| steps.rest() - 1))
    }

    /// Returns whether the next add that stores an entry sweeps.
    #[inline(always)]
    pub(super) fn is_sweep_next(&self) -> bool {
        self.counts.timed_adds().is_some_and(|adds| adds % SWEEP_ENTRIES == SWEEP_ENTRIES - 1)
    }

    /// Frees the memory of expired entries in segments to which no items are added: joins two segments, or compacts the
    /// next segment of the sweep. O(slots of a segment).
    ///
    /// A sweep never makes the table larger, so it asks for no limit. Only an add sweeps, never a union or a load: these
    /// write segments of a size that was chosen before.
    #[cold]
    pub(super) fn sweep(&mut self, now: Generation, undo: &mut Undo) -> Result<(), OutOfMemory> {
        self.make_all(self.plan_sweep(now)?, undo)
    }

    fn plan_sweep(&self, now: Generation) -> Result<Option<Changes>, OutOfMemory> {
        if self.is_too_large(0)
            && let Some(joined) = self.plan_join(now)?
        {
            return Ok(Some(joined));
        }
        let Some(adds) = self.counts.timed_adds() else { return Ok(None) };
        let number = (adds / SWEEP_ENTRIES % self.directory.len() as u64) as usize;
        self.plan_compaction(number, 0, now, self.due_before(now))
    }

    /// Plans to replace a segment by one without its expired entries. The new segment is smaller if the live entries
    /// and `slots` more slots fit a smaller shape. Plans nothing if the last compaction was in the generation `before`
    /// or later.
    fn plan_compaction(
        &self,
        number: usize,
        slots: usize,
        now: Generation,
        before: Generation,
    ) -> Result<Option<Changes>, OutOfMemory> {
        let segment = self.directory.get(number);
        if segment.is_empty() || segment.stamp >= before {
            return Ok(None);
        }
        let mut rewriter = self.rewriter(now);
        let target = Target::of(self.size(), number);
        let mut compact = || {
            let sources = [EntrySource::Table(&self.directory)];
            let used = rewriter.collect(target, &sources)? + slots;
            let shape = segment.shape();
            let smaller = if used > segment.used_max() { None } else { shape.reduced_for(used, used) };
            rewriter.write(target, &sources, Some(smaller.unwrap_or(shape)))
        };
        let compacted = compact().map_err(|_| OutOfMemory)?;
        Ok(Some(self.replacing(number, compacted, rewriter.sums().change())))
    }
}

/// Returns the smaller shape that a segment gets when `slots` of its slots become free.
#[inline(always)]
fn reduced(segment: &Segment, slots: usize) -> Option<SegmentShape> {
    let used = segment.used() - slots;
    // Mostly known without the shape.
    if SegmentShape::is_least_for(SegmentShape::reduced_slots(used), segment.used_max()) {
        return None;
    }
    segment.shape().reduced_for(used, segment.used())
}

impl From<RewriteError> for ReserveError {
    fn from(error: RewriteError) -> Self {
        match error {
            RewriteError::OutOfMemory => Self::OutOfMemory,
            RewriteError::TooFull => Self::TooLong,
        }
    }
}
