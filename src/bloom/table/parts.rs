//! The parts of a table: to save, dump and load it, to copy it, and to move its memory.

use std::ops::Range;

use thiserror::Error;

use super::directory::Directory;
use super::entry::EntrySums;
use super::merge::{COPIES_MAX, Counting};
use super::segment::Segment;
use super::size::{BLOCKS_LOG_MAX, SEGMENTS_MAX_LOG, SegmentShape, TableSize, USED_MAX};
use super::{EntryKind, GENERATIONS, History, ItemCounts, Schedule, Table};
use crate::bloom::generation::{CODES, Generation, is_live};
use crate::bloom::hash::ItemHash;
use crate::bloom::memory::{BlockMover, BlockVisitor, OutOfMemory};
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::room::Room;

/// Least bytes that a segment of several is taken for when the size of a table is checked before its segments are
/// known.
const SEGMENT_LEAST_BYTES: u64 = 2048;

/// Most bytes by which a table grows for the entries of a part, as a multiple of the bytes of that part: slots may be
/// wider, and segments are enlarged in steps.
const GROWTH_MAX: u64 = 3;
/// Most bytes by which it grows besides.
const SPLIT_MAX_BYTES: u64 = 64 << 10;
/// Most segments that a table may have to get for the parts of a call, whatever its size is, and as a multiple of its
/// segments: the dumped table may have grown since the header.
const PLACES_MAX: usize = 1 << 12;
const PLACES_GROWTH_MAX: usize = 16;
/// Slots in use of a segment from which on it is too full for a load: some less than there can be.
const CROWDED_SLOTS: u64 = USED_MAX as u64 / 16 * 15;
/// A table is made larger for a part only while it has at least this part of the slots in use with which it grows.
const CROWDED_MIN_SHARE: u64 = 4;

/// The positions of a table in a dump: [0, 2^32). An item is at the low 32 bits of its hash in reverse order.
///
/// So the items of a segment are at consecutive positions, and those of the two segments that it is split into are at
/// the first and the second half of them. A dump that goes through the positions in order misses nothing while segments
/// are split or joined.
pub const POSITIONS: u64 = 1 << 32;

/// What a table has besides its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableCounts {
    /// The lengths of its remainders.
    pub schedule: Schedule,
    /// Items that were added and not removed; 0 if entries are timed.
    pub items: u64,
    /// Entries that were added and not removed, if they are counted. Entries that were stored, if they are timed.
    pub entries: u64,
    /// How many items were added in each generation, if entries are timed.
    pub history: History,
    /// The number of segments.
    pub segments: usize,
    /// The logarithm of the number of blocks of a segment.
    pub blocks_log: u32,
    /// Whether the last part of a dump was not added yet.
    pub loading: Loading,
}

impl TableCounts {
    /// Returns those of an empty table.
    pub(super) fn initial(schedule: Schedule) -> Self {
        let TableSize { blocks_log, segments } = schedule.initial_size();
        let (history, loading) = (History::default(), Loading::default());
        Self { schedule, items: 0, entries: 0, history, segments, blocks_log, loading }
    }

    /// Checks that there is such a table, and that it may take as many bytes as it has to.
    ///
    /// # Errors
    /// [`PartsError`].
    fn check(&self, kind: EntryKind, room: &Room<'_>) -> Result<(), PartsError> {
        self.schedule.validate(kind).map_err(PartsError::Invalid)?;
        let size = TableSize { segments: self.segments, blocks_log: self.blocks_log };
        if !size.is_possible() || size < self.schedule.initial_size() {
            return Err(PartsError::Invalid("segments"));
        }
        let is_one = self.segments == 1;
        Ok(room.check(if is_one { 0 } else { self.segments as u64 * SEGMENT_LEAST_BYTES })?)
    }
}

/// Whether the table was made by the header of a dump whose last part was not added yet. If so, it has the low bits of
/// the number of slots that the dumped table used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loading(u32);

impl Loading {
    /// Set while a table is loaded.
    const ACTIVE: u32 = 1 << 31;

    /// Returns the state of a table that is loaded from one with as many used slots.
    fn of(used_slots: u64) -> Self {
        Self(used_slots as u32 | Self::ACTIVE)
    }

    /// Returns the state as a number; 0 if the table is not being loaded.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the state with this number.
    #[must_use]
    pub const fn of_number(number: u32) -> Option<Self> {
        if number == 0 || number & Self::ACTIVE != 0 { Some(Self(number)) } else { None }
    }
}

/// A segment outside of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePart {
    /// The number of the segment.
    pub number: usize,
    /// How many low bits of the hash are its number.
    pub depth: u32,
    /// The logarithm of the number of its blocks.
    pub blocks_log: u32,
    /// The generation of its last compaction, if entries are timed; otherwise 0.
    pub stamp: Generation,
    /// Its words; none if it has no entries.
    pub words: Box<[u64]>,
}

/// A part whose segment keeps the rules, with the sums of its entries.
#[derive(Debug)]
struct CheckedPart {
    number: usize,
    depth: u32,
    segment: Segment,
    sums: EntrySums,
}

/// What the entries of some segments count.
#[derive(Default)]
struct EntryCounts {
    items: u64,
    entries: u64,
    by_generation: [u64; GENERATIONS],
}

impl ItemCounts {
    /// Counts nothing any more.
    fn clear(&mut self) {
        match self {
            Self::Plain { items, .. } => *items = 0,
            Self::Counted { items, entries, .. } => (*items, *entries) = (0, 0),
            Self::Timed { history, .. } => history.items = [0; GENERATIONS],
        }
    }

    /// Counts entries.
    fn add(&mut self, counts: &EntryCounts) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        match self {
            Self::Plain { items, .. } => add(items, counts.items),
            Self::Counted { items, entries, .. } => {
                add(items, counts.items);
                add(entries, counts.entries);
            }
            Self::Timed { history, .. } => {
                history.items.iter_mut().zip(counts.by_generation).for_each(|(sum, more)| add(sum, more));
            }
        }
    }
}

impl CheckedPart {
    /// Returns how many segments a table has at least that has a segment of this number and depth.
    fn least_segments(&self) -> usize {
        match self.depth.checked_sub(1) {
            Some(depth) => (1usize << depth).saturating_add(self.number % (1 << depth)).saturating_add(1),
            None => 1,
        }
    }
}

/// Why parts do not make a table, or cannot be loaded into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PartsError {
    /// A rule is broken.
    #[error("{0}")]
    Invalid(&'static str),
    /// There is no room for the table.
    #[error(transparent)]
    NoRoom(#[from] ReserveError),
}

impl From<OutOfMemory> for PartsError {
    fn from(_: OutOfMemory) -> Self {
        Self::NoRoom(ReserveError::OutOfMemory)
    }
}

impl Table {
    /// Creates an empty table of a size that a decoder has read.
    ///
    /// # Errors
    /// [`PartsError`].
    pub fn try_of_counts(kind: EntryKind, counts: TableCounts, room: &Room<'_>) -> Result<Self, PartsError> {
        counts.check(kind, room)?;
        Ok(Self::of_size(kind, counts)?)
    }

    /// Sets a segment of a table that has no other entries in it, from the words and the stamp that a decoder has read.
    /// O(bytes).
    ///
    /// # Errors
    /// [`PartsError`].
    pub fn set_segment(
        &mut self,
        number: usize,
        words: Box<[u64]>,
        stamp: Generation,
    ) -> Result<(), PartsError> {
        let before = self.directory.get(number).ok_or(PartsError::Invalid("segments"))?;
        let (depth, blocks_log) = (self.directory.size().depth_of(number), before.blocks_log());
        let part = self.checked_part(TablePart { number, depth, blocks_log, stamp, words })?;
        if self.has_place_for(&part) { self.put(part) } else { Err(PartsError::Invalid("segments")) }
    }

    /// Begins to take the parts of a dump of a table with `used_slots` slots in use. Until
    /// [`end_loading`](Self::end_loading) the table does not shrink.
    pub fn begin_loading(&mut self, used_slots: u64) {
        *self.loading_mut() = Loading::of(used_slots);
    }

    /// Adds the entries of parts of another table with the same parameters. What is in this table stays; counts become
    /// the larger ones. O(entries).
    ///
    /// # Errors
    /// [`PartsError::Invalid`] if one is not a part of such a table, and [`PartsError::NoRoom`] if the room is too
    /// small: nothing changed. If memory runs out in between, some entries have been added.
    pub fn add_parts(&mut self, parts: Vec<TablePart>, room: &Room<'_>) -> Result<(), PartsError> {
        let (mut checked, mut more_bytes, mut copies) = (Vec::new(), 0u64, 0u64);
        let (segments, mut places) = (self.directory.len(), self.directory.len());
        checked.try_reserve_exact(parts.len()).map_err(|_| OutOfMemory)?;
        for part in parts {
            let part = self.checked_part(part)?;
            let bytes = part.segment.shape().bytes();
            more_bytes = more_bytes.saturating_add(bytes);
            if !self.has_place_for(&part) {
                more_bytes = more_bytes.saturating_add(bytes * GROWTH_MAX + SPLIT_MAX_BYTES);
                copies = copies.saturating_add(self.further_copies(&part));
                places = places.max(part.least_segments());
            }
            checked.push(part);
        }
        if copies > COPIES_MAX || places > PLACES_MAX.max(segments.saturating_mul(PLACES_GROWTH_MAX)) {
            return Err(PartsError::Invalid("parts for a table of another size"));
        }
        // A slot has at most 64 bits.
        more_bytes = more_bytes.saturating_add(copies * 8);
        more_bytes = more_bytes.saturating_add((places - segments) as u64 * SEGMENT_LEAST_BYTES);
        room.check(self.size_bytes().saturating_add(more_bytes))?;
        checked.into_iter().try_for_each(|part| self.add_part(part))
    }

    /// Returns the segment of a part, if it keeps the rules.
    fn checked_part(&self, part: TablePart) -> Result<CheckedPart, PartsError> {
        let TablePart { number, depth, blocks_log, stamp, words } = part;
        let is_possible = |depth: u32| TableSize { segments: 1 << depth, blocks_log }.is_possible();
        if depth > SEGMENTS_MAX_LOG || number >> depth != 0 || !is_possible(depth) {
            return Err(PartsError::Invalid("segment number"));
        }
        if self.kind() != EntryKind::Timed && stamp != 0 {
            return Err(PartsError::Invalid("stamp"));
        }
        let address_bits = depth.saturating_add(blocks_log);
        let width = self.schedule.slot_width(self.kind(), address_bits);
        let shape = if words.is_empty() {
            SegmentShape { blocks_log, slots: 0, width, words: 0 }
        } else {
            SegmentShape::of_words(blocks_log, width, words.len())
        };
        if shape.words != words.len() || !shape.is_possible() {
            return Err(PartsError::Invalid("segment size"));
        }
        let segment = Segment::of_words(shape, words, stamp);
        let sums = self.check_segment(address_bits, &segment)?;
        Ok(CheckedPart { number, depth, segment, sums })
    }

    /// Returns whether the table has an empty segment of the same number and size.
    fn has_place_for(&self, part: &CheckedPart) -> bool {
        self.directory.get(part.number).is_some_and(|place| {
            place.used() == 0
                && place.blocks_log() == part.segment.blocks_log()
                && self.directory.size().depth_of(part.number) == part.depth
        })
    }

    /// Returns how many further entries the table will have because entries of a part know less of the hash than its
    /// addresses.
    fn further_copies(&self, part: &CheckedPart) -> u64 {
        let mut copies = 0u64;
        self.visit_entries(&part.segment, part.number, part.depth, &mut |entry| {
            copies = copies.saturating_add(self.copies_besides(&entry));
        });
        copies
    }

    fn add_part(&mut self, part: CheckedPart) -> Result<(), PartsError> {
        // The header of the dump counts them until its last part was added. Others may come after that.
        let is_counted = !self.is_loading();
        let CheckedPart { number, depth, ref segment, .. } = part;
        let mut entries = Vec::new();
        entries.try_reserve_exact(segment.used()).map_err(|_| OutOfMemory)?;
        self.visit_entries(segment, number, depth, &mut |entry| entries.push(entry));
        let newest = entries.iter().fold(segment.stamp, |newest, entry| newest.max(entry.generation));
        self.advance(newest);
        if self.has_place_for(&part) {
            self.put(part)?;
            if is_counted {
                let counts = self.count_entries(number..number.saturating_add(1));
                self.counts.add(&counts);
            }
            return Ok(());
        }
        let now = self.history().map_or(0, |history| history.newest);
        entries.retain(|entry| self.kind() != EntryKind::Timed || is_live(entry.generation, now));
        // The limit was checked for all entries. They come in the order of their segments.
        let room = Room::new(&u64::MAX);
        // The entries of a smaller segment would fill a larger one, and then be lost.
        let address_bits = depth.wrapping_add(segment.blocks_log());
        while !entries.is_empty() && self.directory.size().address_bits(number) < address_bits {
            self.grow(now, &room)?;
        }
        let slots = entries
            .iter()
            .fold(0u64, |slots, entry| slots.saturating_add(self.slots_for(entry, now).unwrap_or(0)));
        if slots > 0 {
            self.grow_for(slots, now, &room)?;
            while self.is_crowded_by(number, depth, slots) {
                self.grow(now, &room)?;
            }
        }
        if self.kind() == EntryKind::Counted {
            self.unite_equal(&mut entries);
        }
        for entry in entries {
            let added = if is_counted {
                self.add_entry(entry, Counting::Larger, now, &room).map(|_| ())
            } else {
                self.add_uncounted(entry, Counting::Larger, now, &room)
            };
            added.map_err(|error| match error {
                AddError::CannotGrow(error) => error.into(),
                _ => PartsError::Invalid("counts"),
            })?;
        }
        Ok(())
    }

    /// Returns whether the segments that get the entries of a part would be too full, although the table is not: what
    /// was added while a dump went on is only in its later parts.
    fn is_crowded_by(&self, number: usize, depth: u32, slots: u64) -> bool {
        let size = self.directory.size();
        let used = self.used_slots().saturating_add(slots);
        // Parts that were crafted do not make a table very large.
        if size.blocks_log < BLOCKS_LOG_MAX || used < size.slots_before_growth() / CROWDED_MIN_SHARE {
            return false;
        }
        let step = 1usize << depth.min(size.depth_of(number));
        let (mut segments, mut used) = (0u64, slots);
        for number in (number & step.wrapping_sub(1)..size.segments).step_by(step) {
            segments = segments.saturating_add(1);
            used = used.saturating_add(self.directory.get(number).map_or(0, Segment::used) as u64);
        }
        used > segments.saturating_mul(CROWDED_SLOTS)
    }

    /// Puts a part in the place of an empty segment of the same number and size.
    fn put(&mut self, part: CheckedPart) -> Result<(), PartsError> {
        let CheckedPart { number, segment, sums, .. } = part;
        self.weight().checked_add(sums.weight).ok_or(PartsError::Invalid("entries"))?;
        self.advance(segment.stamp);
        self.directory.replace(number, segment);
        self.apply(sums);
        Ok(())
    }

    /// Makes a generation the newest one, unless there is a newer one.
    pub(super) fn advance(&mut self, generation: Generation) {
        if let ItemCounts::Timed { history, .. } = &mut self.counts {
            history.advance(generation);
        }
    }

    /// Notes that the last part of a dump was added. If the table or the dumped one has changed since the dump began,
    /// this counts the entries again. O(1); O(entries) then.
    pub fn end_loading(&mut self) {
        let loading = std::mem::take(self.loading_mut());
        let is_as_dumped = loading == Loading::of(self.used_slots()) && self.check_counts().is_ok();
        if loading != Loading::default() && !is_as_dumped {
            self.count_again();
        }
    }

    /// Counts all entries. One that is in several segments counts several times.
    fn count_again(&mut self) {
        let counts = self.count_entries(0..self.segment_count());
        self.counts.clear();
        self.counts.add(&counts);
    }

    /// Returns the counts of the entries of some segments.
    fn count_entries(&self, segments: Range<usize>) -> EntryCounts {
        let mut counts = EntryCounts::default();
        let newest = self.history().map_or(0, |history| history.newest);
        for number in segments {
            self.visit_segment(number, |entry| {
                // The code of an older generation is that of another one.
                if entry.generation.saturating_add(CODES) <= newest {
                    return;
                }
                counts.items = counts.items.saturating_add(entry.count);
                counts.entries = counts.entries.saturating_add(1);
                if let Some(items) = counts.by_generation.get_mut((entry.generation % CODES) as usize) {
                    *items = items.saturating_add(1);
                }
            });
        }
        counts
    }

    pub(super) fn is_loading(&self) -> bool {
        self.loading() != Loading::default()
    }

    fn loading(&self) -> Loading {
        match self.counts {
            ItemCounts::Plain { loading, .. }
            | ItemCounts::Counted { loading, .. }
            | ItemCounts::Timed { loading, .. } => loading,
        }
    }

    fn loading_mut(&mut self) -> &mut Loading {
        match &mut self.counts {
            ItemCounts::Plain { loading, .. }
            | ItemCounts::Counted { loading, .. }
            | ItemCounts::Timed { loading, .. } => loading,
        }
    }

    /// Returns what the table has besides its segments.
    #[must_use]
    pub fn counts(&self) -> TableCounts {
        let (items, entries, history) = match &self.counts {
            ItemCounts::Plain { items, .. } => (*items, 0, History::default()),
            ItemCounts::Counted { items, entries, .. } => (*items, *entries, History::default()),
            ItemCounts::Timed { history, stored, .. } => (0, *stored, **history),
        };
        let (schedule, loading) = (self.schedule, self.loading());
        let TableSize { blocks_log, segments } = self.directory.size();
        TableCounts { schedule, items, entries, history, segments, blocks_log, loading }
    }

    /// Returns the words of a segment, and the generation of its last compaction if entries are timed.
    #[must_use]
    pub fn segment(&self, number: usize) -> Option<(&[u64], Generation)> {
        self.directory.get(number).map(|segment| (segment.words(), segment.stamp))
    }

    /// Returns the part at a position of a dump, and the position after it: a segment, without the entries before the
    /// position if it was joined since the dump passed them. `None` from [`POSITIONS`] on. O(slots of a segment).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn part_at(&self, position: u64) -> Result<Option<(TablePart, u64)>, OutOfMemory> {
        let Ok(low) = u32::try_from(position) else { return Ok(None) };
        let hash = ItemHash { h1: low.reverse_bits().into(), h2: 0 };
        let Some((address, segment)) = self.locate(hash) else { return Ok(None) };
        let (number, depth) = (address.segment, self.directory.size().depth_of(address.segment));
        let first = u64::from((number as u32).reverse_bits());
        let part = if position == first {
            segment.try_clone()?
        } else {
            self.selected(
                segment,
                |_| segment.shape(),
                segment.stamp,
                |block, value| {
                    let entry = self.entry(segment, value, (number, depth), block);
                    // The last item that the entry matches has all unknown bits set.
                    let unknown = u32::MAX.checked_shl(entry.known_bits.into()).unwrap_or(0);
                    u64::from((entry.known as u32 | unknown).reverse_bits()) >= position
                },
            )?
        };
        let blocks_log = part.blocks_log();
        let part = TablePart { number, depth, blocks_log, stamp: part.stamp, words: part.into_words() };
        Ok(Some((part, first.saturating_add(POSITIONS >> depth))))
    }

    /// Makes a copy with its own memory. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let mut segments = self.directory.iter();
        let mut directory = Directory::One(segments.next().ok_or(OutOfMemory)?.try_clone()?);
        for segment in segments {
            directory.try_push(segment.try_clone()?)?;
        }
        directory.count_leftovers(self.directory.leftovers().unwrap_or_default());
        Ok(Self { directory, counts: self.counts.clone(), ..*self })
    }

    /// Visits the blocks of the allocator: the history, those of the directory, then those of the segments.
    /// O(segments).
    pub fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        if let ItemCounts::Timed { history, .. } = &self.counts {
            visitor.visit(std::slice::from_ref(&**history));
        }
        self.directory.visit_blocks(visitor);
        self.directory.iter().for_each(|segment| visitor.visit(segment.words()));
    }

    /// Moves the history and the blocks of the directory. O(pieces).
    pub fn move_structs(&mut self, mover: &impl BlockMover) {
        if let ItemCounts::Timed { history, .. } = &mut self.counts {
            mover.move_box(history);
        }
        self.directory.move_blocks(mover);
    }

    /// Moves the block of a segment.
    pub fn move_segment(&mut self, number: usize, mover: &impl BlockMover) {
        if let Some(segment) = self.directory.get_mut(number) {
            segment.relocate(|words| mover.move_vec(words));
        }
    }
}
