//! Checks the rules that every table keeps.

use smallvec::SmallVec;
use thiserror::Error;

use super::entry::{
    COUNT_MAX, CountedEntry, Entry, EntryKind, RUN_MAX, RunSlots, remainder_bits, visit_entries,
};
use super::schedule::Schedule;
use super::segment::{RewriteError, Segment};
use super::size::{BLOCKS_LOG_MAX, SegmentShape};
use super::state::Table;
use super::totals::EntrySums;
use crate::generation::Generation;
use crate::memory::OutOfMemory;
use crate::outcome::ReserveError;

/// Why segments do not make a table, or cannot be loaded into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// A rule is broken.
    #[error("{0}")]
    Invalid(&'static str),
    /// A segment has come twice with different entries, and both together do not fit a segment.
    #[error("the same part of the filter was dumped twice, and both do not fit together")]
    Overlapping,
    /// An entry is too new: it would make all others expire.
    #[error("the items are more than a window ahead")]
    Ahead,
    /// There is no room for the table.
    #[error(transparent)]
    NoRoom(#[from] ReserveError),
}

impl From<RewriteError> for LoadError {
    fn from(error: RewriteError) -> Self {
        match error {
            RewriteError::OutOfMemory => OutOfMemory.into(),
            RewriteError::TooFull => Self::Invalid("entries"),
        }
    }
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
        for (number, segment) in self.directory.segments() {
            bytes += segment.shape().bytes();
            if segment.is_empty() {
                if segment.words().is_empty() && segment.stamp == 0 {
                    continue;
                }
                return Err("a segment without entries has memory");
            }
            if number >= size.segments || size.segments > 1 && segment.blocks_log() != BLOCKS_LOG_MAX {
                return Err("one of several segments has too few blocks, or its number is too large");
            }
            let checked = check_segment(self.kind(), self.schedule, size.address_bits(number), segment);
            let (of_segment, newest) = checked.map_err(broken_rule)?;
            if self.kind().is_timed() && newest > self.newest() {
                return Err("an entry is newer than the table");
            }
            sums = sums.plus(of_segment);
            used += segment.used() as u64;
        }
        if used != self.used_slots() || bytes > self.directory.bytes() {
            return Err("the number of used slots or of bytes is wrong");
        }
        Ok(sums)
    }
}

/// Returns the rule that a segment breaks by the error of [`check_segment`].
pub(super) const fn broken_rule(error: LoadError) -> &'static str {
    match error {
        LoadError::Invalid(rule) => rule,
        LoadError::Overlapping | LoadError::Ahead | LoadError::NoRoom(_) => "out of memory",
    }
}

/// Checks the rules of a segment of a table of these entries with this schedule. Its blocks are chosen by `address_bits`
/// bits of the hash. Returns the sums of its entries, and the newest generation of its stamp and entries. O(slots).
pub(super) fn check_segment(
    kind: EntryKind,
    schedule: Schedule,
    address_bits: u32,
    segment: &Segment,
) -> Result<(EntrySums, Generation), LoadError> {
    let rule = |is_kept: bool, rule| if is_kept { Ok(()) } else { Err(LoadError::Invalid(rule)) };
    let shape = segment.shape();
    let width = schedule.slot_width(kind, address_bits);
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
        visit_entries(kind, segment, block, |bucket, entry| {
            sums.add(kind, address_bits, entry);
            is_right &= bucket == run.bucket || run.is_right(kind);
            run.bucket = bucket;
            run.entries.push(entry);
            // The entries of other kinds can be what is left of a saturated bucket.
            let known_bits = address_bits + remainder_bits(entry.value);
            is_right &= kind != EntryKind::Counted
                || known_bits >= kind.known_bits_min() + entry.copies && entry.number <= COUNT_MAX;
            if let EntryKind::Timed(steps) = kind {
                newest = newest.max(entry.number);
                // A crafted stamp may be the last generation.
                is_right &= (1..=segment.stamp.saturating_add(steps.ahead())).contains(&entry.number);
            }
        });
        is_right &= run.is_right(kind);
    }
    rule(is_right, "an entry is impossible, or equals another of its bucket")?;
    Ok((sums, newest))
}

/// The entries of a run that were read so far.
#[derive(Default)]
struct CheckedRun {
    bucket: u8,
    entries: SmallVec<[Entry; RUN_MAX + 1]>,
}

impl CheckedRun {
    /// Ends the run. Returns whether it may have its entries beside each other: no two are equal, and a plain entry that
    /// matches the whole bucket is alone. O(entries log entries).
    fn is_right(&mut self, kind: EntryKind) -> bool {
        let key = |entry: &Entry| (entry.value, entry.copies);
        self.entries.sort_unstable_by_key(key);
        let are_equal =
            self.entries.windows(2).any(|pair| matches!(pair, [one, other] if key(one) == key(other)));
        let is_whole = |entry: &Entry| kind == EntryKind::Plain && entry.value <= 1;
        let is_alone = self.entries.len() <= 1 || !self.entries.iter().any(is_whole);
        self.entries.clear();
        !are_equal && is_alone
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::Steps;
    use crate::hash::murmur3::hash128;
    use crate::table::state::TableSpec;
    use crate::table::totals::ItemCounts;

    const NOW: Generation = 40;

    fn table(kind: EntryKind, items: u64) -> Table {
        let mut table = Table::new(TableSpec { error_rate: 0.01, kind, items: 1 });
        for item in 0..items {
            table.add_at(hash128(&item.to_le_bytes()), NOW);
        }
        assert_eq!(table.internal_validate(), Ok(()));
        table
    }

    /// Each rule that no sequence of commands breaks is checked.
    #[test]
    fn a_damaged_table_is_found() {
        for kind in [EntryKind::Plain, EntryKind::Counted, EntryKind::Timed(Steps::Fourteen)] {
            let mut one = table(kind, 0);
            one.directory.edit(0, |segment| segment.stamp = 1);
            assert_eq!(one.internal_validate(), Err("a segment without entries has memory"));

            let mut small = table(kind, 20_000);
            let other = table(kind, 100);
            assert!(other.size().blocks_log < BLOCKS_LOG_MAX && other.size().segments == 1);
            small.directory.replace(1, other.directory.get(0).try_clone().unwrap());
            let too_small = "one of several segments has too few blocks, or its number is too large";
            assert_eq!(small.internal_validate(), Err(too_small));

            let mut used = table(kind, 20_000);
            let (_, all_used) = used.directory.get_mut(1);
            *all_used.unwrap() += 1;
            assert_eq!(used.internal_validate(), Err("the number of used slots or of bytes is wrong"));

            let mut reshaped = table(kind, 20_000);
            let segment = reshaped.directory.get(1);
            let fewer = SegmentShape { slots: segment.shape().slots - 1, ..segment.shape() };
            let segment = segment.try_reshaped(fewer, segment.stamp).unwrap();
            reshaped.directory.replace(1, segment);
            assert_eq!(reshaped.internal_validate(), Err("the allocation of a segment has the wrong size"));
        }
        let mut timed = table(EntryKind::Timed(Steps::Fourteen), 100);
        let ItemCounts::Timed { history, .. } = &mut timed.counts else { unreachable!() };
        history.newest = NOW - 1;
        assert_eq!(timed.internal_validate(), Err("an entry is newer than the table"));
    }

    #[test]
    fn equal_entries_are_found_wherever_they_are_in_a_bucket() {
        for count in [2, RUN_MAX as u64, RUN_MAX as u64 + 1, 500] {
            let entry = |value| Entry { value: 100 + value, copies: 0, number: 1 };
            let entries = || (0..count).map(entry);
            let is_right = |entries: &mut dyn Iterator<Item = Entry>| {
                CheckedRun { bucket: 3, entries: entries.collect() }.is_right(EntryKind::Counted)
            };
            assert!(is_right(&mut entries()), "{count}");
            for other in 0..count {
                assert!(!is_right(&mut entries().chain([entry(other)])), "{count}: {other}");
            }
        }
    }
}
