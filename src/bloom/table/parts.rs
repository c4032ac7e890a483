//! The parts of a table, by which it is saved, dumped and loaded. A part is a segment.

use std::ops::Range;

use thiserror::Error;

use super::merge::{COPIES_MAX, Counting, unite_equal};
use super::segment::Segment;
use super::size::{BLOCKS_LOG_MAX, SEGMENTS_MAX_LOG, SegmentShape, TableSize, USED_MAX};
use super::totals::{AddedEntry, EntrySums, Loading, TableCounts};
use super::{EntryKind, Table};
use crate::bloom::generation::{CODES, Generation, is_live};
use crate::bloom::hash::ItemHash;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::room::Room;

/// The bytes that are assumed for each segment of a table of several segments when its size is checked before the
/// segments are known.
const SEGMENT_LEAST_BYTES: u64 = 2048;

/// A table grows by at most this multiple of a part's bytes when it takes the part's entries. Slots may be wider, and
/// segments are enlarged in steps.
const GROWTH_MAX: u64 = 3;
/// The most bytes that a table takes for a part besides `GROWTH_MAX` times its bytes. A segment may be split.
const SPLIT_MAX_BYTES: u64 = 64 << 10;
/// The number of segments that the parts of one call may always require, however small the table is. The table grows to
/// take them: the dumped table may have grown since its header was written.
const PLACES_MAX: usize = 1 << 12;
/// The parts of one call may also require this multiple of the table's segments.
const PLACES_GROWTH_MAX: usize = 16;
/// If the segments that get the entries of a part would have more slots in use than this on average, the table grows
/// first. It is 15/16 of the maximum.
const CROWDED_SLOTS: u64 = USED_MAX as u64 / 16 * 15;
/// A table grows for crowded segments only if its slots in use are at least 1/4 of the number at which it would grow
/// anyway. The constant is the divisor.
const CROWDED_MIN_SHARE: u64 = 4;

/// The number of positions in a dump. The position of an item is the low 32 bits of its hash, in reverse order of bits.
///
/// So the items of a segment have consecutive positions. If the segment is split, its low half has the first half of
/// these positions and its high half the second. A dump in the order of positions misses no item, even if segments are
/// split or joined meanwhile.
pub const POSITIONS: u64 = 1 << 32;

/// A segment outside of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePart {
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

/// A part whose segment was checked, with the sums over its entries.
#[derive(Debug)]
struct CheckedPart {
    number: usize,
    depth: u32,
    segment: Segment,
    sums: EntrySums,
    /// The newest generation of the stamp and the entries.
    newest: Generation,
}

impl TableCounts {
    /// Checks that a table can have these counts, and that the limit allows its size.
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
    /// Returns the smallest number of segments of a table that has a segment with this number and depth.
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

    /// Replaces an empty segment by the words and the stamp that a decoder has read. The stamp is the generation of the
    /// last compaction. O(bytes).
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
        if !self.has_place_for(&part) {
            return Err(PartsError::Invalid("segments"));
        }
        self.put(part);
        Ok(())
    }

    /// Begins to load the parts of a dump. The dumped table had `used_slots` slots in use. The table does not shrink
    /// until [`end_loading`](Self::end_loading).
    pub fn begin_loading(&mut self, used_slots: u64) {
        *self.counts.loading_mut() = Loading::of(used_slots);
    }

    /// Adds the entries of parts of another table with the same parameters. Existing entries stay. If an entry exists
    /// in both, the larger count remains. O(entries).
    ///
    /// # Errors
    /// [`PartsError::Invalid`] if a part does not belong to such a table, and [`PartsError::NoRoom`] if the limit is
    /// too small. Nothing has changed then. If there is no memory, some entries may have been added.
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

    /// Returns a part with its sums if its segment keeps all rules.
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
        let (sums, newest) = self.check_segment(address_bits, &segment)?;
        Ok(CheckedPart { number, depth, segment, sums, newest })
    }

    /// Returns whether the table has an empty segment of the same number and size.
    fn has_place_for(&self, part: &CheckedPart) -> bool {
        self.directory.get(part.number).is_some_and(|place| {
            place.used() == 0
                && place.blocks_log() == part.segment.blocks_log()
                && self.directory.size().depth_of(part.number) == part.depth
        })
    }

    /// Returns how many copies this table needs of the part's entries, besides the entries themselves. An entry that
    /// has fewer bits of the hash than an address of this table is copied to each address that it matches.
    fn further_copies(&self, part: &CheckedPart) -> u64 {
        let mut copies = 0u64;
        self.visit_entries(&part.segment, part.number, part.depth, &mut |entry| {
            copies = copies.saturating_add(self.copies_besides(&entry));
        });
        copies
    }

    fn add_part(&mut self, part: CheckedPart) -> Result<(), PartsError> {
        // During a load, the counts come from the header of the dump. Parts that arrive later are counted here.
        let is_counted = !self.is_loading();
        let CheckedPart { number, depth, ref segment, newest, .. } = part;
        let mut entries = Vec::new();
        entries.try_reserve_exact(segment.used()).map_err(|_| OutOfMemory)?;
        self.visit_entries(segment, number, depth, &mut |entry| entries.push(entry));
        if self.has_place_for(&part) {
            self.put(part);
            if is_counted {
                self.count_entries(number..number.saturating_add(1));
            }
            return Ok(());
        }
        self.counts.advance(newest);
        let now = self.history().map_or(0, |history| history.newest);
        entries.retain(|entry| self.kind() != EntryKind::Timed || is_live(entry.generation, now));
        // `add_parts` has checked the limit for all entries.
        let room = Room::new(&u64::MAX);
        // If the dumped table has more segments, the entries of several parts would go to one segment of this table and
        // overfill it. So this table grows first.
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
            // After a join, a run may have equal entries. In this table no entry is shorter than in the part, because the
            // table has grown to the size of the part.
            unite_equal(&mut entries);
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

    /// Returns whether the segments that get the entries of a part would be too full, although the whole table is not.
    /// This happens if items were added during a dump, because only its later parts have them.
    fn is_crowded_by(&self, number: usize, depth: u32, slots: u64) -> bool {
        let size = self.directory.size();
        let used = self.used_slots().saturating_add(slots);
        // Crafted parts must not make a table with few entries large.
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
    fn put(&mut self, part: CheckedPart) {
        let CheckedPart { number, segment, sums, newest, .. } = part;
        self.counts.advance(newest);
        self.directory.replace(number, segment);
        self.apply(sums);
    }

    /// Ends a load after the last part of a dump. The counts of the header stay if this table uses as many slots as the
    /// header says. Otherwise this table or the dumped one has changed since the dump began, and the entries are
    /// counted again. O(entries) if they are counted, otherwise O(1).
    pub fn end_loading(&mut self) {
        let loading = std::mem::take(self.counts.loading_mut());
        let is_as_dumped = loading == Loading::of(self.used_slots()) && self.check_counts().is_ok();
        if loading != Loading::default() && !is_as_dumped {
            self.counts.clear();
            self.count_entries(0..self.segment_count());
        }
    }

    /// Counts the entries of some segments. An entry with copies in several segments counts several times.
    fn count_entries(&mut self, segments: Range<usize>) {
        let mut counts = self.counts.clone();
        let newest = self.history().map_or(0, |history| history.newest);
        for number in segments {
            self.visit_segment(number, |entry| {
                // The counts have the 16 newest generations only.
                if entry.generation.saturating_add(CODES) > newest {
                    let added = AddedEntry { new_entries: 1, times: entry.count, moved_from: None };
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

    /// Returns the part at a position of a dump, and the position after the part. A part is a segment. If segments were
    /// joined during the dump, the part lacks the entries before the position, which the dump has already. Returns
    /// `None` from [`POSITIONS`] on. O(slots of a segment).
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
                    // The entry matches items at several positions. At the last position, all unknown bits are set.
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
