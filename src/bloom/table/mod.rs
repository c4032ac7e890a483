//! The expandable table: a quotient filter whose memory follows its items, at any number of items.
//!
//! An add stores an *entry*: some bits of the item's hash. The lowest bits of the hash choose a segment and a block,
//! and six other bits choose a bucket in the block. The bits above the lowest ones, the *remainder*, are stored in a
//! slot of the bucket. A [segment] is one compact allocation. As entries are added, one segment after another is split
//! into two (linear hashing). As entries are removed, segments are joined in the reverse order. A split takes the
//! lowest bit of each remainder as a further address bit, so entries get shorter while the table grows. This does not
//! increase the error rate: see the [schedule]. docs/architecture.md has a picture.
//!
//! [`EntryKind`] says what an entry has besides its remainder: nothing, a count, or the generation in which its item
//! was added.
//!
//! The state of a table depends only on the sequence of operations, so primaries and replicas have the same bytes.
//!
//! To read this module, follow an item:
//!
//! * A lookup: [`lookup`] finds the segment in the [`directory`], then the block and the bucket; [`segment`] finds the
//!   run of the bucket; [`lookup`] compares its slots with the hash.
//! * An add: [`add`] looks the item up. If the item is new, `segment/write.rs` inserts a slot. The [`schedule`] says
//!   how many bits of the hash the slot has. Entries with counts have other rules ([`counted`]), and so have entries
//!   with generations ([`timed`]).
//! * A split: if an add needs room, [`resize`] plans the split, checks the limit, and writes both segments from the
//!   slots of the old one. Then the [`directory`] takes the new segments. [`size`] says when a split is due.
//! * A removal: [`counted`] takes the longest matching entry, and [`resize`] joins segments.
//! * An expiry: an add compacts its segment if the last compaction is too old ([`timed`]). Every 256th add also
//!   compacts another segment, or joins two.
//! * A merge: [`merge`] visits the entries of one table and adds them to another.
//! * A save, a dump and a load: [`parts`] takes a table apart and puts it together with its [`totals`]; [`validate`]
//!   checks what was read.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "words are cut to their lowest bits; numbers of blocks, buckets, slots and bits are small, rates positive"
)]

mod add;
mod counted;
mod directory;
mod lookup;
pub mod merge;
mod parts;
mod resize;
mod schedule;
mod segment;
mod size;
mod timed;
mod totals;
mod validate;

use directory::Directory;
use segment::Segment;
use size::{SegmentShape, TableSize};
use totals::{EntrySums, ItemCounts};

use super::generation::Generation;
use super::memory::{BlockMover, BlockVisitor, OutOfMemory};

pub use add::{Addition, GroupOutcomes};
pub use counted::COUNT_MAX;
pub use parts::{POSITIONS, PartsError, TablePart};
pub use schedule::Schedule;
pub use totals::{GENERATIONS, History, Leftovers, Loading, TableCounts};

/// What the entries of a table store besides a remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Nothing: items are added and looked up.
    Plain,
    /// How often the item was added, so that it can be removed as often.
    Counted,
    /// The generation in which the item was added, so that it expires.
    Timed,
}

impl EntryKind {
    /// Returns the bytes of the [`History`] of a table of these entries; 0 if they are not timed.
    const fn history_bytes(self) -> u64 {
        if let Self::Timed = self { size_of::<History>() as u64 } else { 0 }
    }
}

/// The parameters of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableSpec {
    /// The error rate that the table keeps, above 0.
    pub error_rate: f64,
    /// What the entries store besides a remainder.
    pub kind: EntryKind,
    /// The number of live items that a table of timed entries is made for. Other tables ignore it.
    pub items: u64,
}

impl TableSpec {
    /// Returns the bytes of an empty table: [`Table::size_bytes`] after [`Table::try_new`]. O(1).
    #[must_use]
    pub fn empty_bytes(&self) -> u64 {
        let initial = TableCounts::initial(Schedule::new(self.kind, self.error_rate, self.items));
        Directory::bytes_of(initial.segments).saturating_add(self.kind.history_bytes())
    }

    /// Returns the expected bytes of a table that has grown to `items` items. If entries are timed, `items` is the
    /// number of live items, and the bytes are those at steady traffic. O(log items).
    #[must_use]
    pub fn expected_bytes(&self, items: u64) -> u64 {
        let schedule = Schedule::new(self.kind, self.error_rate, self.items);
        let (size, segment_bytes) = schedule.expected(self.kind, items, self.items);
        let directory_bytes = Directory::bytes_of(size.segments);
        segment_bytes.saturating_add(directory_bytes).saturating_add(self.kind.history_bytes())
    }
}

/// The statistics of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TableStats {
    /// The number of items: [`Table::items`].
    pub items: u64,
    /// The number of items, each counted once: [`Table::distinct_items`].
    pub distinct_items: u64,
    /// Bytes of the segments, the directory and the history: [`Table::size_bytes`].
    pub size_bytes: u64,
    /// The number of segments.
    pub segments: u64,
    /// The numbers of void entries and saturated buckets.
    pub leftovers: Leftovers,
    /// Expired entries that still take memory.
    pub expired_entries: u64,
    /// An upper bound of the current error rate.
    pub error_rate: f64,
}

impl TableStats {
    /// Returns an estimate of the bytes that expired entries take.
    #[must_use]
    pub fn expired_bytes(&self) -> u64 {
        let share =
            self.expired_entries as f64 / self.items.saturating_add(self.expired_entries).max(1) as f64;
        (self.size_bytes as f64 * share) as u64
    }
}

/// An expandable table.
#[derive(Debug)]
pub struct Table {
    directory: Directory,
    counts: ItemCounts,
    /// The sum of the weights of all entries (`totals::weight`): an upper bound of the error rate in units of 2^-120.
    /// The low word is first.
    weight: [u64; 2],
    schedule: Schedule,
}

// A server may have millions of small filters.
const _: () = assert!(size_of::<Table>() == 80);

impl Table {
    /// Creates an empty table.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_new(spec: TableSpec) -> Result<Self, OutOfMemory> {
        Self::of_size(spec.kind, TableCounts::initial(Schedule::new(spec.kind, spec.error_rate, spec.items)))
    }

    /// Creates an empty table with the parameters of this one.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_emptied(&self) -> Result<Self, OutOfMemory> {
        Self::of_size(self.kind(), TableCounts::initial(self.schedule))
    }

    /// Creates a table with the size and the counts of `counts`, but without entries.
    fn of_size(kind: EntryKind, counts: TableCounts) -> Result<Self, OutOfMemory> {
        let TableCounts { schedule, items, entries, history, segments, blocks_log, loading } = counts;
        let size = TableSize { segments, blocks_log };
        let empty = |number| {
            let width = schedule.slot_width(kind, size.address_bits(number));
            let shape = SegmentShape { blocks_log, width, ..SegmentShape::default() };
            Segment::of_words(shape, Box::default(), 0)
        };
        let mut directory = Directory::One(empty(0));
        for number in 1..segments {
            directory.try_push(empty(number))?;
        }
        let counts = match kind {
            EntryKind::Plain => ItemCounts::Plain { items, loading },
            EntryKind::Counted => ItemCounts::Counted { items, entries, loading },
            EntryKind::Timed => ItemCounts::Timed { history: Box::new(history), stored: entries, loading },
        };
        Ok(Self { directory, counts, weight: [0; 2], schedule })
    }

    /// Returns what the entries store besides a remainder.
    #[must_use]
    #[inline(always)]
    pub const fn kind(&self) -> EntryKind {
        match self.counts {
            ItemCounts::Plain { .. } => EntryKind::Plain,
            ItemCounts::Counted { .. } => EntryKind::Counted,
            ItemCounts::Timed { .. } => EntryKind::Timed,
        }
    }

    /// Returns the number of items in the table. A counted item counts as often as it was added. A timed item counts
    /// until it has expired at `now`.
    #[must_use]
    #[inline(always)]
    pub fn items(&self, now: Generation) -> u64 {
        match &self.counts {
            ItemCounts::Plain { items, .. } | ItemCounts::Counted { items, .. } => *items,
            ItemCounts::Timed { history, .. } => history.live_items(now),
        }
    }

    /// Returns the number of items that count towards a capacity. This is [`items`](Self::items), but a counted item
    /// counts once, however often it was added. It may count twice if the table has grown between two of its adds.
    #[must_use]
    pub fn distinct_items(&self, now: Generation) -> u64 {
        if let ItemCounts::Counted { entries, .. } = self.counts { entries } else { self.items(now) }
    }

    /// Returns how many items were added in each generation, if entries are timed.
    #[must_use]
    pub fn history(&self) -> Option<&History> {
        if let ItemCounts::Timed { history, .. } = &self.counts { Some(history) } else { None }
    }

    /// Returns the number of slots in use.
    #[must_use]
    pub fn used_slots(&self) -> u64 {
        self.directory.used()
    }

    /// Returns the numbers of void entries and saturated buckets. O(1): a table of one segment counts them in its
    /// slots, and larger tables store the numbers.
    #[must_use]
    pub fn leftovers(&self) -> Leftovers {
        self.directory.leftovers().unwrap_or_else(|| {
            self.directory.get(0).map_or_else(Leftovers::default, |only| self.sums_of(only, 0).leftovers)
        })
    }

    /// Returns whether the table is as [`try_emptied`](Self::try_emptied) makes it: it has no entries, its segments
    /// have no memory, and its counts are those of a new table. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used_slots() == 0
            && self.directory.segment_bytes() == 0
            && self.counts() == TableCounts::initial(self.schedule)
    }

    /// Returns the number of segments.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.directory.len()
    }

    /// Returns the bytes of the segments, the directory and the history.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.directory.bytes().saturating_add(self.kind().history_bytes())
    }

    /// Returns an upper bound of the error rate at `now`: the sum of the weights of all entries. If entries are timed,
    /// the sum is multiplied by the share of entries that are live.
    #[must_use]
    pub fn error_rate(&self, now: Generation) -> f64 {
        let live = match (&self.counts, self.used_slots()) {
            (ItemCounts::Timed { history, .. }, used @ 1..) => history.live_items(now) as f64 / used as f64,
            _ => 1.0,
        };
        (EntrySums::error_rate(self.weight()) * live.min(1.0)).min(1.0)
    }

    /// Returns an upper bound of the error rate that the table can reach while it grows to 10^12 items.
    #[must_use]
    pub fn error_rate_max(&self) -> f64 {
        EntrySums::error_rate(self.weight())
            + self.schedule.rate_of_growth(self.used_slots(), self.directory.size())
    }

    #[inline(always)]
    fn weight(&self) -> u128 {
        let [low, high] = self.weight;
        u128::from(low) | u128::from(high) << 64
    }

    #[inline(always)]
    fn set_weight(&mut self, weight: u128) {
        self.weight = [weight as u64, (weight >> 64) as u64];
    }

    /// Adds a change to the sums over all entries.
    fn apply(&mut self, change: EntrySums) {
        self.set_weight(self.weight().wrapping_add(change.weight));
        self.directory.count_leftovers(change.leftovers);
    }

    /// Returns the state of the table without its segments.
    #[must_use]
    pub fn counts(&self) -> TableCounts {
        let (items, entries, history) = match &self.counts {
            ItemCounts::Plain { items, .. } => (*items, 0, History::default()),
            ItemCounts::Counted { items, entries, .. } => (*items, *entries, History::default()),
            ItemCounts::Timed { history, stored, .. } => (0, *stored, **history),
        };
        let (schedule, loading) = (self.schedule, self.counts.loading());
        let TableSize { blocks_log, segments } = self.directory.size();
        TableCounts { schedule, items, entries, history, segments, blocks_log, loading }
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

    /// Visits all blocks of the allocator that the table owns. O(segments).
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

    /// Moves the allocation of a segment.
    pub fn move_segment(&mut self, number: usize, mover: &impl BlockMover) {
        if let Some(segment) = self.directory.get_mut(number) {
            segment.relocate(|words| mover.move_vec(words));
        }
    }

    /// Returns the statistics at `now`. O(1).
    #[must_use]
    pub fn stats(&self, now: Generation) -> TableStats {
        let items = self.items(now);
        let is_timed = self.kind() == EntryKind::Timed;
        TableStats {
            items,
            distinct_items: self.distinct_items(now),
            size_bytes: self.size_bytes(),
            segments: self.segment_count() as u64,
            leftovers: self.leftovers(),
            expired_entries: if is_timed { self.used_slots().saturating_sub(items) } else { 0 },
            error_rate: self.error_rate(now),
        }
    }
}
