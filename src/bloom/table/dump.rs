//! The segments of a table outside of it: how a table is saved, dumped and loaded.

use smallvec::SmallVec;

use super::directory::Directory;
use super::entry::{EntryKind, remainder_bits, visit_entries};
use super::reshape::{Changes, load_of, most_segments};
use super::rewrite::{Rewriter, Rule};
use super::segment::{RewriteError, Segment, SlotList};
use super::size::{SEGMENTS_MAX_LOG, SegmentShape, TableSize, depth};
use super::source::{EntrySource, Placed, Target};
use super::state::Table;
use super::totals::{EntrySums, History, ItemCounts, Loading, TableCounts, Tally};
use super::validate::LoadError;
use crate::bloom::generation::Generation;
use crate::bloom::growth_budget::GrowthBudget;
use crate::bloom::hash::ItemHash;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::words::low_bits;

/// The number of positions in a dump. The position of an item is the low 32 bits of its hash, in reverse order of bits.
///
/// So the items of a segment have consecutive positions. If the segment is split, its low half has the first half of
/// these positions and its high half the second. A dump in the order of positions misses no item, even if segments are
/// split or joined meanwhile.
pub const POSITIONS: u64 = 1 << 32;

/// A table grows to the size of dumped segments at once, but at most to the size for this multiple of its slots: those
/// that it has, or those that the dumped table had when its header was written. Beyond that, entries lose bits.
const LOADED_GROWTH_MAX: u64 = 4;
/// If entries do not fit that size, a table that is not sparse may grow further while each of its segments still has as
/// many slots on average.
const LOADED_SLOTS_MIN: u64 = 16;
/// The slots that copies of entries may always take if dumped segments are of a smaller table. They may take as many
/// more as the table has other slots. The copies of an honest table take far fewer.
const COPIED_SLOTS_FREE: u64 = 1 << 14;

/// A segment outside of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpedSegment {
    /// The number of the segment.
    pub number: usize,
    /// How many low bits of the hash choose the segment.
    pub depth: u32,
    /// The logarithm of the number of its blocks.
    pub blocks_log: u32,
    /// The generation of its last compaction, if entries are timed; otherwise 0.
    pub stamp: Generation,
    /// The words of the segment; empty if it has no entries.
    pub words: Box<[u64]>,
}

impl From<RewriteError> for LoadError {
    fn from(error: RewriteError) -> Self {
        match error {
            RewriteError::OutOfMemory => OutOfMemory.into(),
            RewriteError::TooFull => Self::Invalid("counts"),
        }
    }
}

/// A dumped segment that was checked, with the sums over its entries.
#[derive(Debug)]
struct CheckedSegment {
    number: usize,
    depth: u32,
    segment: Segment,
    sums: EntrySums,
    /// The newest generation of the stamp and the entries.
    newest: Generation,
}

impl CheckedSegment {
    /// Returns the smallest size of a table that has a segment with this number and depth.
    fn least_size(&self) -> TableSize {
        let segments = match self.depth.checked_sub(1) {
            Some(depth) => (1usize << depth).saturating_add(self.number % (1 << depth)).saturating_add(1),
            None => 1,
        };
        TableSize { blocks_log: self.segment.blocks_log(), segments }
    }

    fn load(&self) -> u64 {
        load_of(self.segment.used() as u64, self.sums.match_all_counts.void_slots)
    }

    const fn placed(&self) -> Placed<'_> {
        Placed { segment: &self.segment, number: self.number, depth: self.depth }
    }
}

impl TableCounts {
    /// Checks that a table with `used_slots` used slots can have these counts.
    ///
    /// # Errors
    /// [`LoadError::Invalid`].
    fn check(&self, kind: EntryKind, used_slots: u64) -> Result<(), LoadError> {
        let rule = |is_kept: bool, rule| if is_kept { Ok(()) } else { Err(LoadError::Invalid(rule)) };
        self.schedule.validate(kind).map_err(LoadError::Invalid)?;
        let size = TableSize { segments: self.segments, blocks_log: self.blocks_log };
        rule(size.is_possible(), "segments")?;
        let most_slots = SegmentShape::most_slots(self.blocks_log) as u64;
        rule(used_slots <= most_slots.saturating_mul(self.segments as u64), "used slots")?;
        let counts = ItemCounts::of(kind, self);
        let mut settled = counts.clone();
        settled.settle(used_slots);
        rule(settled == counts, "the number of items does not fit the entries")
    }
}

/// Loading.
impl Table {
    /// Creates a table of a size that a decoder has read, with its counts but without entries. The saved table had
    /// `used_slots` slots in use. O(segments / 512).
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn try_of_counts(
        kind: EntryKind,
        counts: TableCounts,
        used_slots: u64,
        room: &GrowthBudget<'_>,
    ) -> Result<Self, LoadError> {
        counts.check(kind, used_slots)?;
        // The least bytes of the saved table.
        let width = |bits| counts.schedule.slot_width(kind, bits);
        let bits = depth(counts.segments).saturating_add(counts.blocks_log);
        let slot_bits = width(bits).min(width(bits.saturating_add(1))).saturating_add(1);
        let slot_bytes = used_slots.saturating_mul(slot_bits.into()) / 8;
        let other_bytes = Directory::blank_bytes(counts.segments).saturating_add(History::bytes(kind));
        room.check(other_bytes.saturating_add(slot_bytes))?;
        Ok(Self::try_blank(kind, counts)?)
    }

    /// Replaces a segment without entries by the words and the stamp that a decoder has read. The stamp is the
    /// generation of the last compaction. O(bytes).
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn set_segment(
        &mut self,
        number: usize,
        words: Box<[u64]>,
        stamp: Generation,
    ) -> Result<(), LoadError> {
        let (blocks_log, depth) = (self.size().blocks_log, self.size().depth_of(number));
        let checked = self.checked(DumpedSegment { number, depth, blocks_log, stamp, words })?;
        if !self.has_place_for(&checked) {
            return Err(LoadError::Invalid("segments"));
        }
        self.directory.try_reserve(number)?;
        self.directory.replace(number, checked.segment);
        self.counts.advance(checked.newest);
        self.add_sums(checked.sums);
        Ok(())
    }

    /// Begins to load the segments of a dump. The dumped table had `used_slots` slots in use. The table does not shrink
    /// until [`end_loading`](Self::end_loading).
    pub fn begin_loading(&mut self, used_slots: u64) {
        *self.counts.loading_mut() = Loading::of(used_slots);
    }

    /// Adds the entries of segments of another table with the same parameters. Existing entries stay. If an entry
    /// exists in both, the larger count remains. If any entry is newer than the generation `latest`, or two segments have
    /// the same items, all are refused. O(bytes); O(entries of both) if the tables have different sizes or both have
    /// entries.
    ///
    /// # Errors
    /// [`LoadError`]. Nothing has changed.
    pub fn add_segments(
        &mut self,
        dumped: Vec<DumpedSegment>,
        latest: Generation,
        room: &GrowthBudget<'_>,
    ) -> Result<(), LoadError> {
        self.try_add_segments(dumped, latest, room).map(drop)
    }

    /// Does [`add_segments`](Self::add_segments) with the last segments of a dump, and [ends](Self::end_loading) the load.
    ///
    /// # Errors
    /// [`LoadError`]. Nothing has changed.
    pub fn add_last_segments(
        &mut self,
        dumped: Vec<DumpedSegment>,
        latest: Generation,
        room: &GrowthBudget<'_>,
    ) -> Result<(), LoadError> {
        let capacity = self.directory.list_capacity();
        let (changes, counts) = self.try_add_segments(dumped, latest, room)?;
        if let Err(error) = self.end_loading() {
            self.take_back(changes);
            self.counts = counts;
            self.directory.give_back(capacity);
            return Err(error.into());
        }
        Ok(())
    }

    /// Does [`add_segments`](Self::add_segments). Returns the changes that take this back, and the counts before.
    fn try_add_segments(
        &mut self,
        dumped: Vec<DumpedSegment>,
        latest: Generation,
        room: &GrowthBudget<'_>,
    ) -> Result<(Changes, ItemCounts), LoadError> {
        let mut checked = Vec::new();
        checked.try_reserve_exact(dumped.len()).map_err(|_| OutOfMemory)?;
        for dumped in dumped.into_iter().filter(|dumped| !dumped.words.is_empty()) {
            checked.push(self.checked(dumped)?);
        }
        checked.sort_unstable_by_key(|one| one.placed().position());
        if !checked.is_sorted_by(|one, next| one.placed().last_position() < next.placed().position()) {
            return Err(LoadError::Invalid("two segments for the same items"));
        }
        let newest = checked.iter().map(|one| one.newest).max().unwrap_or(0);
        if newest > latest {
            return Err(LoadError::Ahead);
        }
        let now = newest.max(self.newest());
        let changes = if checked.iter().all(|one| self.has_place_for(one)) {
            self.plan_replacement(checked)?
        } else {
            self.plan_addition(&checked, now, room)?
        };
        self.check(&changes, room)?;
        let (mut before, mut after) = (Tally::default(), Tally::default());
        // During a load, the counts come from the header of the dump.
        for (number, segment) in changes.replaced.iter().filter(|_| !self.is_loading()) {
            self.existing(*number).into_iter().for_each(|segment| before.count(self.kind(), segment, now));
            after.count(self.kind(), segment, now);
        }
        let counts = self.counts.clone();
        let undo = self.apply(changes)?;
        self.counts.advance(now);
        self.counts.add_change(&before, &after);
        self.counts.settle(self.used_slots());
        Ok((undo, counts))
    }

    /// Returns a dumped segment with its sums, if it keeps all rules.
    fn checked(&self, dumped: DumpedSegment) -> Result<CheckedSegment, LoadError> {
        let DumpedSegment { number, depth, blocks_log, stamp, words } = dumped;
        let is_possible = |depth: u32| TableSize { segments: 1 << depth, blocks_log }.is_possible();
        if depth > SEGMENTS_MAX_LOG || number >> depth != 0 || !is_possible(depth) {
            return Err(LoadError::Invalid("segment number"));
        }
        if self.kind() != EntryKind::Timed && stamp != 0 {
            return Err(LoadError::Invalid("stamp"));
        }
        let address_bits = depth.saturating_add(blocks_log);
        let width = self.schedule.slot_width(self.kind(), address_bits);
        let shape = SegmentShape::of_words(blocks_log, width, words.len());
        if shape.words != words.len() || !shape.is_possible() {
            return Err(LoadError::Invalid("segment size"));
        }
        let segment = Segment::of_words(shape, words, stamp);
        let (sums, newest) = self.check_segment(address_bits, &segment)?;
        Ok(CheckedSegment { number, depth, segment, sums, newest })
    }

    fn existing(&self, number: usize) -> Option<&Segment> {
        (number < self.segment_count()).then(|| self.directory.get(number))
    }

    /// Returns whether the table has a segment of the same number and size, without entries.
    fn has_place_for(&self, checked: &CheckedSegment) -> bool {
        let size = self.size();
        self.existing(checked.number).is_some_and(Segment::is_empty)
            && size.blocks_log == checked.segment.blocks_log()
            && size.depth_of(checked.number) == checked.depth
    }

    /// Plans to put each segment in its place.
    fn plan_replacement(&self, checked: Vec<CheckedSegment>) -> Result<Changes, OutOfMemory> {
        let (mut replaced, mut sums) = (SmallVec::new(), EntrySums::default());
        replaced.try_reserve(checked.len()).map_err(|_| OutOfMemory)?;
        for one in checked {
            sums = sums.plus(one.sums);
            replaced.push((one.number, one.segment));
        }
        Ok(Changes { segments: self.segment_count(), replaced, sums })
    }

    /// Plans to add the entries of segments to those of the table, which may grow for them.
    fn plan_addition(
        &self,
        checked: &[CheckedSegment],
        now: Generation,
        room: &GrowthBudget<'_>,
    ) -> Result<Changes, LoadError> {
        let mut placed = Vec::new();
        placed.try_reserve_exact(checked.len()).map_err(|_| OutOfMemory)?;
        placed.extend(checked.iter().map(CheckedSegment::placed));
        let load =
            checked.iter().fold(self.load(self.used_slots()), |sum, one| sum.saturating_add(one.load()));
        let plan = ChunkUnion { table: self, placed: &placed, load, now };
        // Segments that come again change nothing, and make no table larger.
        if !plan.has_new_entries()? {
            return Ok(Changes { segments: self.segment_count(), ..Changes::default() });
        }
        let slots = load.max(self.counts.loading().slots());
        let most = TableSize::for_slots(slots.saturating_mul(LOADED_GROWTH_MAX));
        let wanted = checked.iter().map(CheckedSegment::least_size).max().unwrap_or(most);
        let wanted = TableSize { segments: wanted.segments.min(most.segments), ..wanted };
        let most_segments = most.segments.max(most_segments(load).min((load / LOADED_SLOTS_MIN) as usize));
        let mut size = wanted.max(TableSize::for_slots(load)).max(self.size());
        loop {
            // Items that were added during a dump are in its later segments only, which may be too full for this size.
            if let Some(changes) = plan.make(size, room)? {
                return Ok(changes);
            }
            if size.segments >= most_segments {
                return Err(LoadError::Invalid("entries"));
            }
            size = size.doubled();
        }
    }

    /// Ends a load after the last part of a dump. The counts of the header stay if this table uses as many slots as the
    /// header says. Otherwise this table or the dumped one has changed since the dump began, and the entries are
    /// counted again. The load does not end if most of the dump is missing. O(slots), or O(1) if the counts stay.
    ///
    /// # Errors
    /// [`OutOfMemory`]. Nothing has changed.
    pub fn end_loading(&mut self) -> Result<(), OutOfMemory> {
        let loading = self.counts.loading();
        let is_as_dumped = loading == Loading::of(self.used_slots());
        if !self.is_loading() || !self.condense(self.newest())? {
            return Ok(());
        }
        *self.counts.loading_mut() = Loading::default();
        if !is_as_dumped {
            self.recount();
        }
        self.counts.settle(self.used_slots());
        Ok(())
    }
}

/// The addition of the entries of dumped segments to those of a table.
struct ChunkUnion<'t> {
    table: &'t Table,
    placed: &'t [Placed<'t>],
    /// The load of the table with them.
    load: u64,
    now: Generation,
}

impl ChunkUnion<'_> {
    fn rewriter(&self) -> Rewriter {
        Rewriter::new(self.table.kind(), self.table.schedule, Rule::Larger, self.now)
    }

    fn sources(&self) -> [EntrySource<'_>; 2] {
        [EntrySource::Table(&self.table.directory), EntrySource::of_segments(self.placed)]
    }

    /// Returns the segments of a table of this size that get entries of others.
    fn targets(&self, size: TableSize) -> Result<Targets, LoadError> {
        let copies_left = self.load.saturating_add(COPIED_SLOTS_FREE);
        let mut targets = Targets { size, numbers: Vec::new(), copies_left };
        self.placed.iter().try_for_each(|one| targets.add(self.table.kind(), *one))?;
        Ok(targets)
    }

    /// Returns whether the table lacks an entry of the segments, or has a smaller count.
    fn has_new_entries(&self) -> Result<bool, LoadError> {
        let (size, mut rewriter, sources) = (self.table.size(), self.rewriter(), self.sources());
        for number in self.targets(size)?.sorted() {
            rewriter.gather_all(Target::of(size, number), &sources)?;
            if rewriter.take_has_others() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Plans the addition to the table, which gets this size. Returns `None` if a segment would be too full.
    fn make(&self, size: TableSize, room: &GrowthBudget<'_>) -> Result<Option<Changes>, LoadError> {
        let Self { table, .. } = self;
        let kind = table.kind();
        let is_reshaped = |number| {
            number >= table.segment_count() || Target::of(table.size(), number) != Target::of(size, number)
        };
        let mut targets = self.targets(size)?;
        for (number, segment) in table.directory.stored().filter(|(number, _)| is_reshaped(*number)) {
            targets.add(kind, Placed { segment, number, depth: table.size().depth_of(number) })?;
            targets.push(number)?;
        }
        let (mut rewriter, sources, mut bytes) = (self.rewriter(), self.sources(), table.size_bytes());
        let mut changes = Changes { segments: size.segments, ..Changes::default() };
        for number in targets.sorted() {
            let target = Target::of(size, number);
            let used = match rewriter.collect(target, &sources) {
                Err(RewriteError::TooFull) => return Ok(None),
                used => used?,
            };
            if !rewriter.take_has_others() && !is_reshaped(number) {
                continue;
            }
            let width = table.schedule.slot_width(kind, target.address_bits());
            let shape = SegmentShape::for_slots(target.blocks_log, width, used);
            let segment = rewriter.write(target, &sources, shape)?;
            let sums = EntrySums::of_segment(kind, target.address_bits(), &segment);
            changes.sums = changes.sums.plus(sums);
            bytes = bytes.saturating_add(segment.shape().bytes());
            if let Some(existing) = table.existing(number) {
                let bits = table.size().address_bits(number);
                changes.sums = changes.sums.minus(EntrySums::of_segment(kind, bits, existing));
                bytes = bytes.saturating_sub(existing.shape().bytes());
            }
            room.check(bytes)?;
            changes.replaced.try_reserve(1).map_err(|_| OutOfMemory)?;
            changes.replaced.push((number, segment));
        }
        Ok(Some(changes))
    }
}

/// The segments of a table that get entries of other segments.
struct Targets {
    /// The size of the table.
    size: TableSize,
    numbers: Vec<usize>,
    /// How many more copies of entries the blocks of the table may get, besides the entries themselves.
    copies_left: u64,
}

impl Targets {
    /// Returns the numbers of the segments, in order.
    fn sorted(mut self) -> Vec<usize> {
        self.numbers.sort_unstable();
        self.numbers.dedup();
        self.numbers
    }

    fn push(&mut self, number: usize) -> Result<(), OutOfMemory> {
        self.numbers.try_reserve(1).map_err(|_| OutOfMemory)?;
        self.numbers.push(number);
        Ok(())
    }

    /// Adds the segments that get entries of a segment. O(entries and copies).
    ///
    /// # Errors
    /// [`LoadError`]. There are too many copies only if the entries are crafted.
    fn add(&mut self, kind: EntryKind, placed: Placed<'_>) -> Result<(), LoadError> {
        let Placed { segment, number, depth } = placed;
        let from_bits = depth.saturating_add(segment.blocks_log());
        let (bits, depth_max) = (self.size.address_bits(0), self.size.depth_of(0));
        let mut result = Ok(());
        for block in 0..segment.blocks() {
            let address = number as u64 | (block as u64) << depth;
            visit_entries(kind, segment, block, |_, entry| {
                let entry_bits = remainder_bits(entry.value);
                let known_bits = from_bits.saturating_add(entry_bits);
                // Only the lowest bits choose a segment.
                let known = address | (entry.value & low_bits(entry_bits)) << from_bits;
                let copies = (1u64 << bits.saturating_sub(known_bits)) - 1;
                let Some(left) = self.copies_left.checked_sub(copies) else {
                    result = Err(LoadError::Invalid("void entries"));
                    return;
                };
                self.copies_left = left;
                for high in 0..1u64 << depth_max.saturating_sub(known_bits) {
                    let known = known | high << known_bits.min(depth_max);
                    let number = known & low_bits(self.size.depth_of(known as usize));
                    if result.is_ok() && self.numbers.last() != Some(&(number as usize)) {
                        result = self.push(number as usize).map_err(LoadError::from);
                    }
                }
            });
        }
        result
    }
}

/// Dumping.
impl Table {
    /// Returns the segments that have entries, in order: their numbers, their words, and the generations of their last
    /// compaction if entries are timed.
    pub fn segments(&self) -> impl Iterator<Item = (usize, &[u64], Generation)> {
        let stored = self.directory.stored().filter(|(_, segment)| !segment.is_empty());
        stored.map(|(number, segment)| (number, segment.words(), segment.stamp))
    }

    /// Returns the segment at a position of a dump, and the position after it. If segments were joined during the dump,
    /// the segment lacks the entries before the position, which the dump has already. Returns `None` from
    /// [`POSITIONS`] on. O(slots of a segment).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn segment_at(&self, position: u64) -> Result<Option<(DumpedSegment, u64)>, OutOfMemory> {
        let Ok(low) = u32::try_from(position) else { return Ok(None) };
        let (address, segment) = self.locate(ItemHash { h1: low.reverse_bits().into(), h2: 0 });
        let (number, depth) = (address.segment, self.size().depth_of(address.segment));
        let first = u64::from((number as u32).reverse_bits());
        let placed = Placed { segment, number, depth };
        let dumped = if position == first {
            segment.try_clone()?
        } else {
            // A part of the entries always fits.
            self.rest_of(placed, position).map_err(|_| OutOfMemory)?
        };
        let (blocks_log, stamp) = (dumped.blocks_log(), dumped.stamp);
        let dumped = DumpedSegment { number, depth, blocks_log, stamp, words: dumped.into_words() };
        Ok(Some((dumped, first.saturating_add(POSITIONS >> depth))))
    }

    /// Returns a segment without the entries of which all items are before a position.
    fn rest_of(&self, placed: Placed<'_>, position: u64) -> Result<Segment, RewriteError> {
        let (kind, mut list) = (self.kind(), SlotList::new());
        let Placed { segment, number, depth } = placed;
        let (address_bits, entry_bits) = (depth + segment.blocks_log(), kind.entry_bits(segment));
        list.try_reserve(segment.used())?;
        for block in 0..segment.blocks() {
            let address = number as u64 | (block as u64) << depth;
            visit_entries(kind, segment, block, |bucket, entry| {
                let bits = remainder_bits(entry.value);
                let known = address | (entry.value & low_bits(bits)) << address_bits;
                // At the last position of an entry, all unknown bits are set.
                let unknown = u32::MAX.checked_shl(address_bits.saturating_add(bits)).unwrap_or(0);
                if u64::from((known as u32 | unknown).reverse_bits()) >= position {
                    entry.write(kind, entry_bits, |slot| list.push(bucket, slot));
                }
            });
            list.end_block()?;
        }
        if list.len() == 0 {
            return Ok(Segment::blank(segment.blocks_log()));
        }
        list.write(segment.shape(), segment.stamp, None)
    }
}
