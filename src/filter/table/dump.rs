//! How the segments of a table are saved, dumped and read.

use super::entry::{EntryKind, remainder_bits, visit_entries};
use super::schedule::Schedule;
use super::segment::{RewriteError, Segment, SlotList};
use super::size::{SEGMENTS_MAX_LOG, SegmentShape, TableSize, TooFull, depth};
use super::source::Placed;
use super::state::Table;
use super::totals::{EntrySums, ItemCounts, TableCounts};
#[cfg(feature = "inspection")]
use super::validate::broken_rule;
use super::validate::{LoadError, check_segment};
use crate::generation::Generation;
use crate::growth_budget::GrowthBudget;
use crate::hash::ItemHash;
use crate::memory::OutOfMemory;
use crate::words::low_bits;

/// The number of positions in a dump. The position of an item is the low 32 bits of its hash, in reverse order of bits.
///
/// So the items of a segment have consecutive positions. If the segment is split, its low half has the first half of
/// these positions and its high half the second. A dump in the order of positions misses no item, even if segments are
/// split or joined meanwhile.
pub const POSITIONS: u64 = 1 << 32;

/// A segment outside of a table, with its words or with borrowed ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpedSegment<W = Box<[u64]>> {
    /// The number of the segment.
    pub number: usize,
    /// How many low bits of the hash choose the segment.
    pub depth: u32,
    /// The logarithm of the number of its blocks.
    pub blocks_log: u32,
    /// The generation of its last compaction, if entries are timed; otherwise 0.
    pub stamp: Generation,
    /// The words of the segment; empty if it has no entries.
    pub words: W,
}

/// A segment outside of a table that was checked, with the sums over its entries.
#[derive(Debug)]
pub(super) struct CheckedSegment {
    pub(super) number: usize,
    pub(super) depth: u32,
    pub(super) segment: Segment,
    pub(super) sums: EntrySums,
    /// The newest generation of the stamp and the entries.
    pub(super) newest: Generation,
}

impl CheckedSegment {
    /// Returns a dumped segment of a table of these entries with this schedule, if it keeps all rules. O(slots).
    pub(super) fn of(kind: EntryKind, schedule: Schedule, dumped: DumpedSegment) -> Result<Self, LoadError> {
        let DumpedSegment { number, depth, blocks_log, stamp, words } = dumped;
        let is_possible = |depth: u32| TableSize { segments: 1 << depth, blocks_log }.is_possible();
        if depth > SEGMENTS_MAX_LOG || number >> depth != 0 || !is_possible(depth) {
            return Err(LoadError::Invalid("segment number"));
        }
        if !kind.is_timed() && stamp != 0 {
            return Err(LoadError::Invalid("stamp"));
        }
        let address_bits = depth + blocks_log;
        let width = schedule.slot_width(kind, address_bits);
        let shape = SegmentShape::of_words(blocks_log, width, words.len());
        if shape.words != words.len() || !shape.is_possible() {
            return Err(LoadError::Invalid("segment size"));
        }
        let segment = Segment::of_words(shape, words, stamp)
            .map_err(|TooFull| LoadError::Invalid("a segment has too many slots in use"))?;
        let (sums, newest) = check_segment(kind, schedule, address_bits, &segment)?;
        Ok(Self { number, depth, segment, sums, newest })
    }

    /// Checks all rules again. Returns the sums over the entries, and the newest generation. O(slots).
    #[cfg(feature = "inspection")]
    pub(super) fn checked_again(
        &self,
        kind: EntryKind,
        schedule: Schedule,
    ) -> Result<(EntrySums, Generation), &'static str> {
        let address_bits = self.depth + self.segment.blocks_log();
        check_segment(kind, schedule, address_bits, &self.segment).map_err(broken_rule)
    }

    pub(super) const fn placed(&self) -> Placed<'_> {
        Placed { segment: &self.segment, number: self.number, depth: self.depth }
    }
}

impl TableCounts {
    /// Checks that a table with `used_slots` used slots can have these counts. Returns the least bytes of its segments.
    ///
    /// # Errors
    /// [`LoadError::Invalid`].
    pub fn checked_bytes(&self, kind: EntryKind, used_slots: u64) -> Result<u64, LoadError> {
        let rule = |is_kept: bool, rule| if is_kept { Ok(()) } else { Err(LoadError::Invalid(rule)) };
        self.schedule.validate(kind).map_err(LoadError::Invalid)?;
        let size = TableSize { segments: self.segments, blocks_log: self.blocks_log };
        rule(size.is_possible(), "segments")?;
        let most_slots = SegmentShape::most_slots(self.blocks_log) as u64;
        rule(used_slots <= most_slots * self.segments as u64, "used slots")?;
        let counts = ItemCounts::of(kind, self);
        let mut settled = counts.clone();
        settled.settle(used_slots);
        rule(settled == counts, "the number of items does not fit the entries")?;
        let width = |bits| self.schedule.slot_width(kind, bits);
        let bits = depth(self.segments) + self.blocks_log;
        let slot_bits = width(bits).min(width(bits + 1)) + 1;
        Ok(used_slots * u64::from(slot_bits) / 8)
    }
}

/// Reading.
impl Table {
    /// Returns an empty table with the schedule of a saved one, and with its newest generation.
    #[must_use]
    pub fn empty_of(kind: EntryKind, saved: &TableCounts) -> Self {
        let mut table = Self::of_counts(kind, TableCounts::initial(saved.schedule));
        table.counts.advance(saved.history.newest);
        table
    }

    /// Creates a table of the size and with the counts of a saved one, but without entries. O(segments).
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn try_of_counts(
        kind: EntryKind,
        counts: TableCounts,
        used_slots: u64,
        room: &GrowthBudget<'_>,
    ) -> Result<Self, LoadError> {
        let segment_bytes = counts.checked_bytes(kind, used_slots)?;
        Ok(Self::try_blank(kind, counts, segment_bytes, room)?)
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
        let dumped = DumpedSegment { number, depth, blocks_log, stamp, words };
        let checked = CheckedSegment::of(self.kind(), self.schedule, dumped)?;
        if number >= self.segment_count() || !self.directory.get(number).is_empty() {
            return Err(LoadError::Invalid("segments"));
        }
        self.directory.replace(number, checked.segment);
        self.counts.advance(checked.newest);
        self.add_sums(checked.sums);
        Ok(())
    }
}

/// Dumping.
impl Table {
    /// Returns the segments that have entries, in order: their numbers, their words, and the generations of their last
    /// compaction if entries are timed.
    pub fn segments(&self) -> impl Iterator<Item = (usize, &[u64], Generation)> {
        let stored = self.directory.segments().filter(|(_, segment)| !segment.is_empty());
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
        Ok(Some((dumped, first + (POSITIONS >> depth))))
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
                let unknown = (u64::MAX << (address_bits + bits).min(u32::BITS)) as u32;
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
