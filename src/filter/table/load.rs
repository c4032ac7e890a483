//! The load of a dumped table: the segments that have come, and the table that they make.
//!
//! Nothing is allocated for the size that a header names. The segments may come in any order, and may be of different
//! depths, because the dumped table may have grown or shrunk between two chunks. So several of them may have entries of
//! one item.

use std::collections::BTreeMap;

use super::dump::{CheckedSegment, DumpedSegment};
use super::entry::EntryKind;
use super::reshape::load_of;
use super::rewrite::{Rewriter, Rule};
use super::segment::{RewriteError, Segment};
use super::size::{SEGMENTS_MAX_LOG, TableSize};
use super::source::{EntrySource, Placed, Target};
use super::state::Table;
use super::totals::{EntrySums, TableCounts};
use super::validate::LoadError;
use crate::generation::Generation;
use crate::growth_budget::GrowthBudget;
use crate::memory::{BlockMover, BlockVisitor, OutOfMemory, try_collect};

/// A loaded table keeps the size that the header names if that is at most the size for this multiple of its slots, or if
/// it has at most [`SPARE_SEGMENTS`]. Honest tables are no larger, unless their items expire.
const SPARE_MAX: u64 = 8;
const SPARE_SEGMENTS: usize = 400;
/// If the entries do not fit the size for their number, because the table has grown while it was dumped, the loaded table
/// may become larger while each of its segments still has as many slots on average, or up to [`SPARE_SEGMENTS`].
const SEGMENT_SLOTS_MIN: u64 = 512;

/// The depth of a segment, and its [position](Placed::position). The segments of one depth have different items.
type Place = (u32, u64);

/// What takes the last segments back.
#[derive(Debug)]
pub struct Replaced {
    parts: Vec<(Place, Option<CheckedSegment>)>,
    size_bytes: u64,
}

impl Replaced {
    /// Returns whether nothing has changed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// A table that is being loaded.
#[derive(Debug)]
pub struct TableLoad {
    kind: EntryKind,
    /// What the header says.
    counts: TableCounts,
    used_slots: u64,
    parts: BTreeMap<Place, CheckedSegment>,
    /// The bytes of the parts.
    size_bytes: u64,
}

impl TableLoad {
    /// Begins the load of a table with the counts of a header. The dumped table had `used_slots` slots in use.
    ///
    /// # Errors
    /// [`LoadError::Invalid`].
    pub fn new(kind: EntryKind, counts: TableCounts, used_slots: u64) -> Result<Self, LoadError> {
        counts.checked_bytes(kind, used_slots)?;
        Ok(Self { kind, counts, used_slots, parts: BTreeMap::new(), size_bytes: 0 })
    }

    /// Returns the bytes of the parts: those that they will take in the table. O(1).
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the newest generation of all parts; 0 without parts. O(parts).
    #[must_use]
    pub fn newest(&self) -> Generation {
        self.parts.values().map(|one| one.newest).fold(0, Generation::max)
    }

    /// Returns the number of parts.
    #[must_use]
    pub fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// Returns the parts, in the order of their depths and positions.
    pub fn parts(&self) -> impl Iterator<Item = DumpedSegment<&[u64]>> {
        self.placed().map(|Placed { segment, number, depth }| DumpedSegment {
            number,
            depth,
            blocks_log: segment.blocks_log(),
            stamp: segment.stamp,
            words: segment.words(),
        })
    }

    fn placed(&self) -> impl Iterator<Item = Placed<'_>> {
        self.parts.values().map(CheckedSegment::placed)
    }

    /// Adds segments, none of which has an entry that is newer than the generation `latest`. Segments that have come
    /// before change nothing. Of an item with two counts, the larger one remains. O(bytes); O(entries of both) for a
    /// segment that has come before with other entries.
    ///
    /// # Errors
    /// [`LoadError`]. Nothing has changed.
    pub fn add(
        &mut self,
        dumped: Vec<DumpedSegment>,
        latest: Generation,
        room: &GrowthBudget<'_>,
    ) -> Result<Replaced, LoadError> {
        let (mut added, mut bytes) = (BTreeMap::new(), self.size_bytes);
        for dumped in dumped.into_iter().filter(|dumped| !dumped.words.is_empty()) {
            let mut checked = CheckedSegment::of(self.kind, self.counts.schedule, dumped)?;
            if checked.newest > latest {
                return Err(LoadError::Ahead);
            }
            let place = (checked.depth, checked.placed().position());
            if added.contains_key(&place) {
                return Err(LoadError::Invalid("two segments for the same items"));
            }
            if let Some(before) = self.parts.get(&place) {
                if before.is_same(&checked) {
                    continue;
                }
                bytes -= before.size_bytes();
                checked = self.united(before, &checked)?;
            }
            bytes += checked.size_bytes();
            added.insert(place, checked);
        }
        room.check(bytes)?;
        let mut parts = Vec::new();
        parts.try_reserve_exact(added.len()).map_err(|_| OutOfMemory)?;
        let size_bytes = std::mem::replace(&mut self.size_bytes, bytes);
        parts.extend(added.into_iter().map(|(place, one)| (place, self.parts.insert(place, one))));
        Ok(Replaced { parts, size_bytes })
    }

    /// Takes the last segments back.
    pub fn take_back(&mut self, replaced: Replaced) {
        self.size_bytes = replaced.size_bytes;
        for (place, before) in replaced.parts {
            match before {
                Some(before) => self.parts.insert(place, before),
                None => self.parts.remove(&place),
            };
        }
    }

    /// Returns a segment with the entries of two of the same place.
    fn united(&self, one: &CheckedSegment, other: &CheckedSegment) -> Result<CheckedSegment, LoadError> {
        let (number, depth, newest) = (one.number, one.depth, one.newest.max(other.newest));
        let blocks_log = one.segment.blocks_log().max(other.segment.blocks_log());
        let [one, other] = [[one.placed()], [other.placed()]];
        let sources = [EntrySource::of_segments(&one), EntrySource::of_segments(&other)];
        let target = Target { number, depth, blocks_log };
        let written = self.write(&mut self.rewriter(newest), target, &sources);
        let (segment, sums) = written.map_err(|error| match error {
            RewriteError::OutOfMemory => OutOfMemory.into(),
            RewriteError::TooFull => LoadError::Overlapping,
        })?;
        Ok(CheckedSegment { number, depth, segment, sums, newest })
    }

    fn rewriter(&self, now: Generation) -> Rewriter {
        Rewriter::new(self.kind, self.counts.schedule, Rule::Larger, now)
    }

    /// Writes the entries that the sources have for a segment.
    fn write(
        &self,
        rewriter: &mut Rewriter,
        target: Target,
        sources: &[EntrySource<'_>],
    ) -> Result<(Segment, EntrySums), RewriteError> {
        let used = rewriter.collect(target, sources)?;
        let segment = rewriter.write_smallest(target, sources, used)?;
        let sums = EntrySums::of_segment(self.kind, target.address_bits(), &segment);
        Ok((segment, sums))
    }

    /// Makes the table of all segments. If each has its place in a table of the size that the header names, they are moved
    /// out of here: O(segments). Otherwise the table gets a size for its entries: O(entries). Without further work the counts
    /// are those of the header, if the dumped table `was_still`, or if it uses as many slots as the header says and
    /// its entries [agree](Table::has_counts_of_entries). Otherwise the entries are counted: O(entries).
    ///
    /// # Errors
    /// [`LoadError`]. Nothing has changed.
    pub fn make_table(&mut self, was_still: bool, room: &GrowthBudget<'_>) -> Result<Table, LoadError> {
        let sums = self.parts.values().fold(EntrySums::default(), |sums, one| sums.plus(one.sums));
        let used = self.placed().map(|one| one.segment.used() as u64).sum::<u64>();
        let load = load_of(used, sums.match_all_counts.void_slots);
        let size = TableSize { segments: self.counts.segments, blocks_log: self.counts.blocks_log };
        let has_place = |placed: Placed<'_>| {
            let Placed { segment, number, depth } = placed;
            number < size.segments
                && Target::of(size, number) == Target { number, depth, blocks_log: segment.blocks_log() }
        };
        let mut table = if is_proportionate(size, load) && self.placed().all(has_place) {
            self.moved(size, sums, room)?
        } else {
            self.rewritten(load, room)?
        };
        if table.used_slots() != self.used_slots || !was_still && !table.has_counts_of_entries() {
            table.recount();
        }
        table.counts.settle(table.used_slots());
        Ok(table)
    }

    /// Moves the segments to a table of this size, in which each has its place.
    fn moved(
        &mut self,
        size: TableSize,
        sums: EntrySums,
        room: &GrowthBudget<'_>,
    ) -> Result<Table, LoadError> {
        let segment_bytes = self.placed().map(|one| one.segment.shape().bytes()).sum::<u64>();
        let mut table = self.blank(size, segment_bytes, room)?;
        for one in std::mem::take(&mut self.parts).into_values() {
            table.directory.replace(one.number, one.segment);
        }
        table.add_sums(sums);
        Ok(table)
    }

    /// Writes the entries of all segments to a new table.
    fn rewritten(&self, load: u64, room: &GrowthBudget<'_>) -> Result<Table, LoadError> {
        let placed = try_collect(self.placed())?;
        let of_depths = placed.chunk_by(|one, other| one.depth == other.depth);
        let sources = try_collect(of_depths.map(EntrySource::of_segments))?;
        // At the size that the dumped table had last, each part goes to one segment or to two.
        let last =
            self.parts.values().map(CheckedSegment::least_size).max().unwrap_or(TableSize::of_blocks(0));
        let least = TableSize::for_slots(load);
        let mut size = last.at_most_for(load).max(least);
        loop {
            match self.written(size, &sources, room) {
                // Items that were added during a dump are in its later segments only, which may be too full for this
                // size.
                Err(LoadError::Invalid(_))
                    if size.segments < SPARE_SEGMENTS || size.segments as u64 * SEGMENT_SLOTS_MIN < load =>
                {
                    size = size.doubled();
                }
                written => return written,
            }
        }
    }

    fn written(
        &self,
        size: TableSize,
        sources: &[EntrySource<'_>],
        room: &GrowthBudget<'_>,
    ) -> Result<Table, LoadError> {
        let mut table = self.blank(size, 0, room)?;
        let mut rewriter = self.rewriter(table.newest());
        for number in 0..size.segments {
            let target = Target::of(size, number);
            let (segment, sums) = match self.only_part_of(target) {
                Some(part) => (part.segment.try_clone()?, part.sums),
                None => self.write(&mut rewriter, target, sources)?,
            };
            if !segment.is_empty() {
                table.try_put(number, segment, sums, room)?;
            }
        }
        Ok(table)
    }

    /// Returns the part with all entries for a segment, if it has the place of that segment and no other part has such
    /// entries.
    fn only_part_of(&self, target: Target) -> Option<&CheckedSegment> {
        let position = (target.number as u64).reverse_bits();
        let last = position | u64::MAX >> target.depth;
        let own = self.parts.get(&(target.depth, position))?;
        let mut depths = 0..=SEGMENTS_MAX_LOG;
        let is_alone = depths.all(|depth| {
            // The part before the position may end after it.
            let before = self.parts.range((depth, 0)..(depth, position)).next_back();
            let overlaps = before.is_some_and(|(_, one)| one.placed().last_position() >= position);
            let mut others = self.parts.range((depth, position)..=(depth, last)).map(|(_, one)| one);
            !overlaps && others.all(|one| std::ptr::eq(one, own))
        });
        (is_alone && own.segment.blocks_log() == target.blocks_log).then_some(own)
    }

    /// Returns a table of this size without entries, for segments of at least `segment_bytes`.
    fn blank(
        &self,
        size: TableSize,
        segment_bytes: u64,
        room: &GrowthBudget<'_>,
    ) -> Result<Table, LoadError> {
        let TableSize { blocks_log, segments } = size;
        let counts = TableCounts { blocks_log, segments, ..self.counts };
        let mut table = Table::try_blank(self.kind, counts, segment_bytes, room)?;
        table.counts.advance(self.newest());
        Ok(table)
    }

    /// Checks all rules of the parts and their entries. O(bytes).
    ///
    /// # Errors
    /// The rule that is broken.
    #[cfg(feature = "inspection")]
    pub fn internal_validate(&self) -> Result<(), &'static str> {
        for (place, one) in &self.parts {
            let of_entries = one.checked_again(self.kind, self.counts.schedule)?;
            if *place != (one.depth, one.placed().position()) || of_entries != (one.sums, one.newest) {
                return Err("the place or the sums of a part are wrong");
            }
        }
        if self.parts.values().map(CheckedSegment::size_bytes).sum::<u64>() != self.size_bytes {
            return Err("the bytes of the parts are wrong");
        }
        Ok(())
    }

    /// Makes a copy with its own memory. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        // Collecting a map makes a list of all its entries first, and ends the server if there is no memory for that.
        let mut parts = BTreeMap::new();
        for (place, one) in &self.parts {
            parts.insert(*place, CheckedSegment { segment: one.segment.try_clone()?, ..*one });
        }
        Ok(Self { parts, ..*self })
    }

    /// Visits the blocks of the allocator that the parts own. O(parts).
    pub fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        self.placed().for_each(|placed| visitor.visit(placed.segment.words()));
    }

    /// Moves the blocks of the allocator that `count` parts own, from part `first` on. O(first + count).
    pub fn move_parts(&mut self, first: usize, count: usize, mover: &impl BlockMover) {
        let parts = self.parts.values_mut().skip(first).take(count);
        parts.for_each(|one| one.segment.relocate(|words| mover.move_vec(words)));
    }
}

/// A table of timed entries may have this number of segments whatever its load is: it shrinks when items are added, so one
/// whose items have all expired is still large. A window of 240 million items has 65,536 segments,
/// which take 2 MiB if all are empty.
const QUIET_SEGMENTS: usize = 1 << 16;

impl TableCounts {
    /// Returns whether a client may bring a table of this size: it is not far too large for its `used_slots`. O(1).
    #[must_use]
    pub fn is_proportionate(&self, kind: EntryKind, used_slots: u64) -> bool {
        let Self { segments, blocks_log, .. } = *self;
        let is_quiet = kind.is_timed() && segments <= QUIET_SEGMENTS;
        is_quiet || is_proportionate(TableSize { segments, blocks_log }, used_slots)
    }
}

/// Returns whether a table with this load may have this size.
fn is_proportionate(size: TableSize, load: u64) -> bool {
    size.segments <= SPARE_SEGMENTS || size <= TableSize::for_slots(load * SPARE_MAX)
}

impl CheckedSegment {
    fn is_same(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.segment.shape(), one.segment.stamp);
        of(self) == of(other) && self.segment.words() == other.segment.words()
    }

    /// Returns the smallest size of a table that has a segment with this number and depth.
    fn least_size(&self) -> TableSize {
        let segments = match self.depth.checked_sub(1) {
            Some(depth) => (1 << depth) + self.number % (1 << depth) + 1,
            None => 1,
        };
        TableSize { blocks_log: self.segment.blocks_log(), segments }
    }

    /// Returns the bytes of the part: those that it will take in the table.
    fn size_bytes(&self) -> u64 {
        self.segment.shape().bytes() + size_of::<Segment>() as u64
    }
}
