//! The state of a rewrite, and the sums over what it has read and written.

use super::entries::{Gathered, Rule, Spread};
use crate::generation::Generation;
use crate::table::entry::EntryKind;
use crate::table::schedule::Schedule;
use crate::table::segment::SlotList;
use crate::table::totals::{EntrySums, MatchAllCounts, Weight};

/// Writes segments of a table.
pub(crate) struct Rewriter {
    pub(super) kind: EntryKind,
    pub(super) schedule: Schedule,
    pub(super) rule: Rule,
    /// Entries that have expired at this generation are left out. Later ones, which a source of another table can have,
    /// count as of this generation.
    pub(super) now: Generation,
    /// Whether blocks may be copied.
    pub(super) copies_blocks: bool,
    pub(super) sums: RewriteSums,
    /// The entries of the current block.
    pub(super) gathered: Vec<Gathered>,
    /// The same entries, in the order of buckets.
    pub(super) sorted: Vec<Gathered>,
    /// For each source, the entries for the current segment that were read first.
    pub(super) spread: Vec<Spread>,
    /// The slots of the current segment.
    pub(super) list: SlotList,
    /// The slots of the second half of its blocks, while they are read together with the first half.
    pub(super) upper: SlotList,
}

/// What a [`Rewriter`] has read and written. The sums are kept while entries are read and written: to read them again from
/// the segments before and after would take 0.9 of the time of a split.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RewriteSums {
    /// The weight of the entries that were written, less that of those that were read; and less the void entries and
    /// saturated buckets that were read.
    pub(super) change: EntrySums,
    /// The void entries and saturated buckets that were written.
    pub(crate) written: MatchAllCounts,
    /// Whether an entry that was written is not from the first source, or a bucket has become saturated.
    pub(crate) has_others: bool,
    /// How many live entries of several sources the new blocks have, before equal and covered ones are left out. Of
    /// copied blocks, each slot counts.
    pub(crate) read_entries: u64,
}

impl RewriteSums {
    /// Returns the sums of the entries that were written, less the sums of those that were read.
    pub(crate) fn change(&self) -> EntrySums {
        self.change.plus(EntrySums { weight: Weight::default(), match_all_counts: self.written })
    }
}

impl Rewriter {
    /// Returns a writer of segments of tables with this kind of entries and this schedule.
    pub(crate) fn new(kind: EntryKind, schedule: Schedule, rule: Rule, now: Generation) -> Self {
        Self {
            kind,
            schedule,
            rule,
            now,
            copies_blocks: true,
            sums: RewriteSums::default(),
            gathered: Vec::new(),
            sorted: Vec::new(),
            spread: Vec::new(),
            list: SlotList::new(),
            upper: SlotList::new(),
        }
    }

    /// Returns a writer that copies no block, so that it counts each void entry that it writes, and changes entries of later
    /// generations.
    pub(crate) fn decoding(self) -> Self {
        Self { copies_blocks: false, ..self }
    }

    /// Returns the sums over all that was read and written.
    pub(crate) const fn sums(&self) -> &RewriteSums {
        &self.sums
    }
}
