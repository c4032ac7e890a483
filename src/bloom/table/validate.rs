//! The rules that a table keeps.

use super::add::weight;
use super::build::rebuilt;
use super::directory::Leftovers;
use super::lookup::{Counts, depth_of, remainder_bits};
use super::segment::{BLOCKS_LOG_MAX, Segment, Shape, low_bits};
use super::{COUNT_MAX, EntryKind, PartsError, Table, Tally};

impl Table {
    /// Checks all rules, over all entries. O(bytes).
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn internal_validate(&self) -> Result<(), &'static str> {
        let (mass, leftovers) = self.check_segments()?;
        if mass != self.mass() {
            return Err("the error rate is not that of the entries");
        }
        if leftovers != self.leftovers() {
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
        let is_counted = match self.tally {
            Tally::Counted { items, entries, .. } => self.is_loading() || entries <= used && entries <= items,
            Tally::Plain { .. } | Tally::Timed { .. } => true,
        };
        if is_counted { Ok(()) } else { Err("the number of items does not fit the entries") }
    }

    /// Checks the rules of all segments. Returns the sum of the weights of their entries, and the leftovers.
    fn check_segments(&self) -> Result<(u128, Leftovers), &'static str> {
        let (mut used, mut mass, mut leftovers) = (0u64, 0u128, Leftovers::default());
        let count = self.directory.len();
        for number in 0..count {
            let segment = self.directory.get(number).ok_or("a segment is missing")?;
            if count > 1 && segment.blocks_log() != BLOCKS_LOG_MAX {
                return Err("one of several segments has too few blocks");
            }
            let checked = self.check_segment(depth_of(count, number), segment);
            let (weight, of_segment) = checked.map_err(|error| match error {
                PartsError::Invalid(rule) => rule,
                PartsError::NoRoom(_) => "out of memory",
            })?;
            leftovers.add(of_segment);
            mass = mass.checked_add(weight).ok_or("the error rate overflows")?;
            used = used.saturating_add(segment.used() as u64);
        }
        if used == self.directory.used() {
            Ok((mass, leftovers))
        } else {
            Err("the number of used slots is wrong")
        }
    }

    /// Returns what the entries of a segment leave behind. O(slots).
    pub(super) fn leftovers_of(&self, segment: &Segment) -> Leftovers {
        let (entry_bits, is_counted) = (self.entry_bits(segment), self.kind() == EntryKind::Counted);
        let (mut leftovers, mut counts) = (Leftovers::default(), Counts::default());
        for block in 0..segment.blocks() {
            segment.visit_block(block, |_, value| {
                if !is_counted || counts.is_entry(value) {
                    leftovers.count(value & low_bits(entry_bits), 1);
                }
            });
        }
        leftovers
    }

    /// Checks the rules of a segment of this depth. Returns the sum of the weights of its entries, and the leftovers.
    ///
    /// # Errors
    /// [`PartsError::Invalid`], or out of memory.
    pub(super) fn check_segment(
        &self,
        depth: u32,
        segment: &Segment,
    ) -> Result<(u128, Leftovers), PartsError> {
        let rule = |is_kept: bool, rule| if is_kept { Ok(()) } else { Err(PartsError::Invalid(rule)) };
        let address_bits = depth.wrapping_add(segment.blocks_log());
        let entry_bits = self.schedule.remainder_bits(address_bits).wrapping_add(1);
        let width = entry_bits.wrapping_add(self.kind().generation_bits());
        rule(segment.width() == width, "a segment has slots of the wrong width")?;
        let shape = segment.shape();
        let is_right = Shape::of_words(segment.blocks_log(), segment.width(), shape.words) == shape;
        rule(is_right && shape.is_possible(), "the allocation of a segment has the wrong size")?;
        rule(segment.used() <= segment.used_max(), "a segment has too many slots in use")?;
        let total = (0..segment.blocks()).map(|block| usize::from(segment.length(block))).sum::<usize>();
        rule(total == segment.used(), "a segment has another number of used slots than it says")?;
        // The place of every slot follows from the lengths of the runs.
        let again = rebuilt(segment, shape)?;
        rule(again.words() == segment.words(), "the runs of a segment are not where they belong")?;
        let (mut mass, mut leftovers) = (0u128, Leftovers::default());
        let (mut counts, mut follows_entry) = (Counts::default(), false);
        let (mut are_counts, mut are_generations) = (true, true);
        for block in 0..segment.blocks() {
            let mut last_bucket = u32::MAX;
            segment.visit_block(block, |bucket, value| {
                let is_first = last_bucket != bucket;
                last_bucket = bucket;
                if self.kind() == EntryKind::Counted {
                    // A slot of zero and a count follow an entry of their run.
                    are_counts &= !is_first || !counts.is_in_count();
                    if !counts.is_entry(value) {
                        are_counts &= if counts.is_in_count() {
                            follows_entry && !is_first
                        } else {
                            value.saturating_add(2) <= COUNT_MAX
                        };
                        follows_entry = false;
                        return;
                    }
                    follows_entry = true;
                }
                if self.kind() == EntryKind::Timed {
                    are_generations &=
                        (1..=segment.stamp.saturating_add(1)).contains(&segment.generation(value));
                }
                let entry = value & low_bits(entry_bits);
                mass = mass.wrapping_add(weight(address_bits, remainder_bits(entry)));
                leftovers.count(entry, 1);
            });
            are_counts &= !counts.is_in_count();
        }
        rule(are_counts, "a count is too large or not after an entry")?;
        rule(are_generations, "an entry is older than the first generation")?;
        Ok((mass, leftovers))
    }
}
