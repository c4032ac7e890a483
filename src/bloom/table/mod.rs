//! The expandable table: a quotient filter whose memory follows its items, at any number of items.
//!
//! An item leaves an *entry*: some bits of its hash. The address bits choose a segment, a block and a bucket; the bits
//! above them, the *remainder*, are stored in a slot of the bucket. [Segments](segment) are compact; linear hashing
//! splits one of them after another as entries come, and joins them as entries go. A split takes the lowest bit of
//! each remainder as a further address bit, so entries get shorter while the table grows. That costs no error rate: see
//! the [schedule]. docs/architecture.md has a picture.
//!
//! A slot holds, from the lowest bit on: the remainder, a set bit above it, and clear bits up to the length of
//! remainders in its segment. So its value tells how long the remainder is. A remainder without bits is *void*: its
//! entry matches every item of its bucket, and a split copies it into both segments. A slot of zero makes the bucket
//! *saturated*, which is what becomes of too many entries; it matches every item as well.
//!
//! [`EntryKind`] says what an entry has besides: nothing, a count, or the generation in which its item was added.
//!
//! The state depends only on the sequence of operations: primaries and replicas have the same bytes.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "words are cut to their lowest bits; numbers of blocks, buckets, slots and bits are small, rates positive"
)]

mod add;
mod build;
mod count;
mod directory;
mod entry;
mod group;
mod grow;
mod history;
mod lookup;
mod parts;
mod plan;
mod schedule;
mod segment;
mod select;
mod shrink;
mod size;
mod stats;
mod time;
mod validate;

use directory::Directory;
use lookup::{GENERATION_BITS, depth_of};
use segment::Segment;

use super::generation::Generation;
use super::memory::OutOfMemory;

pub use add::Addition;
pub use count::COUNT_MAX;
pub use directory::Leftovers;
pub use entry::{Counting, Entry};
pub use group::Outcomes;
pub use history::{GENERATIONS, History};
pub use parts::{Loading, POSITIONS, PartsError, TableCounts, TablePart};
pub use schedule::Schedule;
pub use select::{PortableSelect, Select, Task};
pub use stats::TableStats;

/// What the entries of a table have besides a remainder.
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
    /// Returns the bits of a slot for a generation.
    #[inline(always)]
    const fn generation_bits(self) -> u32 {
        if let Self::Timed = self { GENERATION_BITS } else { 0 }
    }
}

/// The unit of weights is 2^-120: the least that an entry adds to the error rate.
const MASS_BITS: u32 = 120;

/// The parameters of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableSpec {
    /// The error rate that the table keeps, above 0.
    pub error_rate: f64,
    /// What its entries have.
    pub kind: EntryKind,
    /// Items that a table of timed entries is made for; its memory is taken in steps up to them. Others have none.
    pub items: u64,
}

/// An expandable table.
#[derive(Debug)]
pub struct Table {
    directory: Directory,
    tally: Tally,
    /// The sum of the weights of all entries, low word first. It is at least the error rate.
    mass: [u64; 2],
    schedule: Schedule,
}

/// What is counted, by the kind of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tally {
    Plain {
        /// Items that were added.
        items: u64,
        loading: Loading,
    },
    Counted {
        /// Items that were added and not removed, as often as they were added.
        items: u64,
        /// Entries that were added and not removed.
        entries: u64,
        loading: Loading,
    },
    Timed {
        history: Box<History>,
        /// Entries that were stored, which decides when which segment is swept.
        stored: u64,
        loading: Loading,
    },
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

    /// Creates an empty table of this size.
    fn of_size(kind: EntryKind, counts: TableCounts) -> Result<Self, OutOfMemory> {
        let TableCounts { schedule, items, tally, history, segments, blocks_log, loading } = counts;
        let empty = |number: usize| {
            let address_bits = depth_of(segments, number).wrapping_add(blocks_log);
            let entry_bits = schedule.remainder_bits(address_bits).wrapping_add(1);
            Segment::new(blocks_log, entry_bits.wrapping_add(kind.generation_bits()))
        };
        let mut directory = Directory::One(empty(0));
        for number in 1..segments {
            directory.try_push(empty(number))?;
        }
        let tally = match kind {
            EntryKind::Plain => Tally::Plain { items, loading },
            EntryKind::Counted => Tally::Counted { items, entries: tally, loading },
            EntryKind::Timed => Tally::Timed { history: Box::new(history), stored: tally, loading },
        };
        Ok(Self { directory, tally, mass: [0; 2], schedule })
    }

    /// Returns what the entries have besides a remainder.
    #[must_use]
    #[inline(always)]
    pub const fn kind(&self) -> EntryKind {
        match self.tally {
            Tally::Plain { .. } => EntryKind::Plain,
            Tally::Counted { .. } => EntryKind::Counted,
            Tally::Timed { .. } => EntryKind::Timed,
        }
    }

    /// Returns the number of items that were added and not removed: counted entries count an item as often as it was
    /// added, timed ones until it expires, at `now`.
    #[must_use]
    #[inline(always)]
    pub fn items(&self, now: Generation) -> u64 {
        match &self.tally {
            Tally::Plain { items, .. } | Tally::Counted { items, .. } => *items,
            Tally::Timed { history, .. } => history.live_items(now),
        }
    }

    /// Returns the number of items that count towards a capacity: as [`items`](Self::items), but counted entries count
    /// an item once. An item that was added again after the table has grown may count twice.
    #[must_use]
    pub fn distinct_items(&self, now: Generation) -> u64 {
        if let Tally::Counted { entries, .. } = self.tally { entries } else { self.items(now) }
    }

    /// Returns how many items were added in each generation, if entries are timed.
    #[must_use]
    pub fn history(&self) -> Option<&History> {
        if let Tally::Timed { history, .. } = &self.tally { Some(history) } else { None }
    }

    /// Returns the slots in use.
    #[must_use]
    pub fn used_slots(&self) -> u64 {
        self.directory.used()
    }

    /// Returns what entries have left behind that know no more of an item than its bucket. O(1): a table of one segment
    /// goes through it.
    #[must_use]
    pub fn leftovers(&self) -> Leftovers {
        self.directory.leftovers().unwrap_or_else(|| {
            self.directory.get(0).map_or_else(Leftovers::default, |only| self.leftovers_of(only))
        })
    }

    /// Returns whether the table equals the result of [`try_emptied`](Self::try_emptied): without entries and memory.
    /// O(1).
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

    /// Returns the memory of the segments and their directory in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let history = if self.kind() == EntryKind::Timed { size_of::<History>() } else { 0 };
        self.directory.bytes().saturating_add(history as u64)
    }

    /// Returns an upper bound of the error rate at `now`: the sum of what all entries add to it. Of timed entries the
    /// part that is live counts.
    #[must_use]
    pub fn error_rate(&self, now: Generation) -> f64 {
        let live = match (&self.tally, self.used_slots()) {
            (Tally::Timed { history, .. }, used @ 1..) => history.live_items(now) as f64 / used as f64,
            _ => 1.0,
        };
        (self.entries_rate() * live.min(1.0)).min(1.0)
    }

    /// Returns the sum of what all entries add to the error rate.
    fn entries_rate(&self) -> f64 {
        self.mass() as f64 / (1u128 << MASS_BITS) as f64
    }
}
