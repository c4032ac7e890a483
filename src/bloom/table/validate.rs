//! Checks the rules that every table keeps.

use super::counted::COUNT_MAX;
use super::lookup::CountReader;
use super::parts::PartsError;
use super::segment::Segment;
use super::size::{BLOCKS_LOG_MAX, SegmentShape};
use super::totals::{EntrySums, ItemCounts};
use super::{EntryKind, Table};
use crate::bloom::generation::Generation;
use crate::bloom::words::low_bits;

impl Table {
    /// Checks all rules of the table, its segments and its entries. O(bytes).
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn internal_validate(&self) -> Result<(), &'static str> {
        let sums = self.check_segments()?;
        if sums.weight != self.weight() {
            return Err("the error rate is not that of the entries");
        }
        if sums.leftovers != self.leftovers() {
            return Err("the void entries are not those of the segments");
        }
        self.check_counts()
    }

    /// Checks that the counts fit the entries. O(1).
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check_counts(&self) -> Result<(), &'static str> {
        let used = self.directory.used();
        let is_counted = match self.counts {
            ItemCounts::Counted { items, entries, .. } => {
                self.is_loading() || entries <= used && entries <= items
            }
            ItemCounts::Plain { .. } | ItemCounts::Timed { .. } => true,
        };
        if is_counted { Ok(()) } else { Err("the number of items does not fit the entries") }
    }

    /// Checks the rules of all segments. Returns the sums of their entries.
    fn check_segments(&self) -> Result<EntrySums, &'static str> {
        let (mut used, mut sums) = (0u64, EntrySums::default());
        let size = self.directory.size();
        for (number, segment) in self.directory.iter().enumerate() {
            if size.segments > 1 && segment.blocks_log() != BLOCKS_LOG_MAX {
                return Err("one of several segments has too few blocks");
            }
            let checked = self.check_segment(size.address_bits(number), segment);
            let (of_segment, newest) = checked.map_err(|error| match error {
                PartsError::Invalid(rule) => rule,
                PartsError::NoRoom(_) => "out of memory",
            })?;
            if self.history().is_some_and(|history| newest > history.newest) {
                return Err("an entry is newer than the table");
            }
            sums.apply(of_segment);
            used = used.saturating_add(segment.used() as u64);
        }
        if used == self.directory.used() { Ok(sums) } else { Err("the number of used slots is wrong") }
    }

    /// Returns the sums of the entries of a segment. O(slots).
    pub(super) fn sums_of(&self, segment: &Segment, address_bits: u32) -> EntrySums {
        let (entry_bits, mut sums) = (self.entry_bits(segment), EntrySums::default());
        for block in 0..segment.blocks() {
            self.visit_slots(segment, block, |_, value, is_entry| {
                if is_entry {
                    sums.add(address_bits, value & low_bits(entry_bits));
                }
            });
        }
        sums
    }

    /// Checks the rules of a segment whose blocks are chosen by `address_bits` bits of the hash. Returns the sums of
    /// its entries, and the newest generation of its stamp and entries. O(slots).
    ///
    /// # Errors
    /// [`PartsError::Invalid`], or out of memory.
    pub(super) fn check_segment(
        &self,
        address_bits: u32,
        segment: &Segment,
    ) -> Result<(EntrySums, Generation), PartsError> {
        let rule = |is_kept: bool, rule| if is_kept { Ok(()) } else { Err(PartsError::Invalid(rule)) };
        let (kind, shape) = (self.kind(), segment.shape());
        let width = self.schedule.slot_width(kind, address_bits);
        rule(segment.width() == width, "a segment has slots of the wrong width")?;
        let is_right = SegmentShape::of_words(shape.blocks_log, width, shape.words) == shape;
        rule(is_right && shape.is_possible(), "the allocation of a segment has the wrong size")?;
        rule(segment.used() <= segment.used_max(), "a segment has too many slots in use")?;
        let is_counted_right = segment.counted_slots() == segment.used();
        rule(is_counted_right, "a segment has another number of used slots than it says")?;
        // The lengths of the runs determine the place of every slot. So rewriting the runs must give the same words.
        let again = segment.try_reshaped(shape)?;
        rule(again.words() == segment.words(), "the runs of a segment are not where they belong")?;
        if kind == EntryKind::Counted {
            rule(has_right_counts(segment), "a count is too large or not after an entry")?;
        }
        let mut newest = segment.stamp;
        if kind == EntryKind::Timed {
            let mut oldest = Generation::MAX;
            for block in 0..segment.blocks() {
                segment.visit_block(block, |_, value| {
                    let generation = segment.generation(value);
                    (oldest, newest) = (oldest.min(generation), newest.max(generation));
                });
            }
            let is_right = oldest >= 1 && newest <= segment.stamp.saturating_add(1);
            rule(is_right, "an entry is older than the first generation")?;
        }
        Ok((self.sums_of(segment, address_bits), newest))
    }
}

/// Returns whether each slot of zero and the count after it follow an entry of their run, and no count exceeds
/// [`COUNT_MAX`].
fn has_right_counts(segment: &Segment) -> bool {
    let mut are_right = true;
    for block in 0..segment.blocks() {
        let (mut counts, mut follows_entry, mut last_bucket) = (CountReader::default(), false, u32::MAX);
        segment.visit_block(block, |bucket, value| {
            let is_first = last_bucket != bucket;
            last_bucket = bucket;
            are_right &= !is_first || !counts.is_in_count();
            let is_entry = counts.is_entry(EntryKind::Counted, value);
            if !is_entry {
                are_right &= if counts.is_in_count() {
                    follows_entry && !is_first
                } else {
                    value.saturating_add(2) <= COUNT_MAX
                };
            }
            follows_entry = is_entry;
        });
        are_right &= !counts.is_in_count();
    }
    are_right
}
