//! Checks the rules that every table keeps.

use smallvec::SmallVec;
use thiserror::Error;

use super::entry::{
    COUNT_MAX, CountedEntry, Entry, EntryKind, RUN_MAX, RunSlots, remainder_bits, visit_entries,
};
use super::segment::Segment;
use super::size::{BLOCKS_LOG_MAX, SegmentShape};
use super::state::Table;
use super::totals::EntrySums;
use crate::bloom::generation::Generation;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::outcome::ReserveError;

/// Why segments do not make a table, or cannot be loaded into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// A rule is broken.
    #[error("{0}")]
    Invalid(&'static str),
    /// An entry is too new: it would make all others expire.
    #[error("the items are more than a window ahead")]
    Ahead,
    /// There is no room for the table.
    #[error(transparent)]
    NoRoom(#[from] ReserveError),
}

impl From<OutOfMemory> for LoadError {
    fn from(_: OutOfMemory) -> Self {
        Self::NoRoom(ReserveError::OutOfMemory)
    }
}

impl Table {
    /// Checks all rules of the table, its segments and its entries. O(bytes).
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn internal_validate(&self) -> Result<(), &'static str> {
        if self.check_segments()? != self.sums() {
            return Err("the sums over the entries are wrong");
        }
        Ok(())
    }

    /// Checks the rules of all segments. Returns the sums of their entries.
    fn check_segments(&self) -> Result<EntrySums, &'static str> {
        let (mut used, mut bytes, mut sums) = (0u64, 0u64, EntrySums::default());
        let size = self.size();
        for (number, segment) in self.directory.stored() {
            bytes = bytes.saturating_add(segment.shape().bytes());
            if segment.is_empty() {
                if segment.words().is_empty() && segment.stamp == 0 {
                    continue;
                }
                return Err("a segment without entries has memory");
            }
            if number >= size.segments || size.segments > 1 && segment.blocks_log() != BLOCKS_LOG_MAX {
                return Err("one of several segments has too few blocks, or its number is too large");
            }
            let checked = self.check_segment(size.address_bits(number), segment);
            let (of_segment, newest) = checked.map_err(|error| match error {
                LoadError::Invalid(rule) => rule,
                LoadError::Ahead | LoadError::NoRoom(_) => "out of memory",
            })?;
            if self.kind() == EntryKind::Timed && newest > self.newest() {
                return Err("an entry is newer than the table");
            }
            sums = sums.plus(of_segment);
            used = used.saturating_add(segment.used() as u64);
        }
        if used != self.used_slots() || bytes > self.directory.bytes() {
            return Err("the number of used slots or of bytes is wrong");
        }
        Ok(sums)
    }

    /// Checks the rules of a segment whose blocks are chosen by `address_bits` bits of the hash. Returns the sums of
    /// its entries, and the newest generation of its stamp and entries. O(slots).
    ///
    /// # Errors
    /// [`LoadError::Invalid`], or out of memory.
    pub(super) fn check_segment(
        &self,
        address_bits: u32,
        segment: &Segment,
    ) -> Result<(EntrySums, Generation), LoadError> {
        let rule = |is_kept: bool, rule| if is_kept { Ok(()) } else { Err(LoadError::Invalid(rule)) };
        let (kind, shape) = (self.kind(), segment.shape());
        let width = self.schedule.slot_width(kind, address_bits);
        rule(segment.width() == width, "a segment has slots of the wrong width")?;
        let is_right = SegmentShape::of_words(shape.blocks_log, width, shape.words) == shape;
        rule(is_right && shape.is_possible(), "the allocation of a segment has the wrong size")?;
        rule(!segment.is_empty(), "a segment without entries has memory")?;
        rule(segment.used() <= segment.used_max(), "a segment has too many slots in use")?;
        let is_counted_right = segment.counted_slots() == segment.used();
        rule(is_counted_right, "a segment has another number of used slots than it says")?;
        // The lengths of the runs determine the place of every slot. So rewriting the runs must give the same words.
        let again = segment.try_reshaped(shape, segment.stamp)?;
        rule(again.words() == segment.words(), "the runs of a segment are not where they belong")?;
        if kind == EntryKind::Counted {
            rule(has_right_numbers(segment), "a count is not after an entry, or not in its shortest form")?;
        }
        let (mut sums, mut run) = (EntrySums::default(), CheckedRun::default());
        let (mut newest, mut is_right) = (segment.stamp, true);
        for block in 0..segment.blocks() {
            run.bucket = u32::MAX;
            visit_entries(kind, segment, block, |bucket, entry| {
                sums.add(kind, address_bits, entry);
                is_right &= run.takes(kind, bucket, entry);
                // The entries of other kinds can be what is left of a saturated bucket.
                let known_bits = address_bits.saturating_add(remainder_bits(entry.value));
                is_right &= kind != EntryKind::Counted
                    || known_bits.saturating_sub(entry.copies) >= kind.known_bits_min()
                        && entry.number <= COUNT_MAX;
                if kind == EntryKind::Timed {
                    newest = newest.max(entry.number);
                    is_right &= (1..=segment.stamp.saturating_add(1)).contains(&entry.number);
                }
            });
        }
        rule(is_right, "an entry is impossible, or equals another of its bucket")?;
        Ok((sums, newest))
    }
}

/// The entries of a run that were read so far.
#[derive(Default)]
struct CheckedRun {
    bucket: u32,
    entries: SmallVec<[Entry; RUN_MAX + 1]>,
}

impl CheckedRun {
    /// Takes the next entry. Returns whether the run may have it besides the others: no two are equal, and a plain
    /// entry that matches the whole bucket is alone.
    fn takes(&mut self, kind: EntryKind, bucket: u32, entry: Entry) -> bool {
        if bucket != self.bucket {
            (self.bucket, self.entries) = (bucket, SmallVec::new());
        }
        let is_alone = |entry: &Entry| kind == EntryKind::Plain && entry.value <= 1;
        let equals = |other: &Entry| (entry.value, entry.copies) == (other.value, other.copies);
        let is_right = !self.entries.iter().any(|other| equals(other) || is_alone(other) || is_alone(&entry));
        // More entries than adds make are only in the segments of crafted items, and are not compared.
        if self.entries.len() <= RUN_MAX {
            self.entries.push(entry);
        }
        is_right
    }
}

/// Returns whether each slot of zero and the digit after it follow an entry of their run, and each number has as few
/// digits as possible.
fn has_right_numbers(segment: &Segment) -> bool {
    let (mut is_right, mut run, mut run_bucket) = (true, RunSlots::new(), 0);
    let mut check = |run: &mut RunSlots| {
        let mut written = RunSlots::new();
        for counted in CountedEntry::all(run) {
            counted.entry.write(EntryKind::Counted, 0, |slot| written.push(slot));
        }
        is_right &= written == *run;
        run.clear();
    };
    for block in 0..segment.blocks() {
        segment.visit_block(block, |bucket, slot| {
            if bucket != run_bucket {
                check(&mut run);
                run_bucket = bucket;
            }
            run.push(slot);
        });
        check(&mut run);
    }
    is_right
}
