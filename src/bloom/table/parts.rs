//! The parts of a table: to save, dump and load it.

use std::ops::Range;

use thiserror::Error;

use super::merge::{COPIES_MAX, Counting};
use super::segment::Segment;
use super::size::{BLOCKS_LOG_MAX, SEGMENTS_MAX_LOG, SegmentShape, TableSize, USED_MAX};
use super::totals::{AddedEntry, EntrySums, Loading, TableCounts};
use super::{EntryKind, Table};
use crate::bloom::generation::{CODES, Generation, is_live};
use crate::bloom::hash::ItemHash;
use crate::bloom::memory::OutOfMemory;
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

impl TableCounts {
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
        *self.counts.loading_mut() = Loading::of(used_slots);
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
        self.counts.advance(newest);
        if self.has_place_for(&part) {
            self.put(part)?;
            if is_counted {
                self.count_entries(number..number.saturating_add(1));
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
            let added = self.add_copies(entry, Counting::Larger, now, &room);
            let added = added.map_err(|error| match error {
                AddError::CannotGrow(error) => error.into(),
                _ => PartsError::Invalid("counts"),
            })?;
            if is_counted {
                self.counts.add(added, entry.generation);
            }
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
        self.counts.advance(segment.stamp);
        self.directory.replace(number, segment);
        self.apply(sums);
        Ok(())
    }

    /// Notes that the last part of a dump was added. If the table or the dumped one has changed since the dump began,
    /// this counts the entries again. O(1); O(entries) then.
    pub fn end_loading(&mut self) {
        let loading = std::mem::take(self.counts.loading_mut());
        let is_as_dumped = loading == Loading::of(self.used_slots()) && self.check_counts().is_ok();
        if loading != Loading::default() && !is_as_dumped {
            self.counts.clear();
            self.count_entries(0..self.segment_count());
        }
    }

    /// Counts the entries of some segments. One that is in several segments counts several times.
    fn count_entries(&mut self, segments: Range<usize>) {
        let mut counts = self.counts.clone();
        let newest = self.history().map_or(0, |history| history.newest);
        for number in segments {
            self.visit_segment(number, |entry| {
                // The code of an older generation is that of another one.
                if entry.generation.saturating_add(CODES) > newest {
                    let added = AddedEntry { is_new: true, times: entry.count, moved_from: None };
                    counts.add(added, entry.generation);
                }
            });
        }
        self.counts = counts;
    }

    pub(super) fn is_loading(&self) -> bool {
        self.counts.loading() != Loading::default()
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
}
