//! The state of a table besides its segments: sums over its entries, and counts of its items.

use super::lookup::remainder_bits;
use super::schedule::Schedule;
use super::size::{BUCKET_BITS, TableSize};
use crate::bloom::generation::{CODES, Generation, is_live};

/// Weights are in units of 2^-120. No entry adds less to the error rate. The sum over all entries fits 128 bits, because
/// full segments add at most 1.75 (slots per bucket) together.
const WEIGHT_BITS: u32 = 120;

/// The numbers of void entries and of saturated buckets, which match every item of a bucket; or the changes of these
/// numbers, modulo 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Entries whose remainder has no bits.
    pub void_entries: u64,
    /// Buckets that match every item.
    pub saturated_buckets: u64,
}

/// Sums over all entries of a table; or the changes of these sums, which wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EntrySums {
    /// The sum of what the entries add to the error rate, in units of 2^-120.
    pub(super) weight: u128,
    pub(super) leftovers: Leftovers,
}

impl Leftovers {
    /// Adds `times` to the number of void entries or of saturated buckets, if `entry` is one. `u64::MAX` subtracts 1.
    #[inline(always)]
    pub(super) fn count(&mut self, entry: u64, times: u64) {
        match entry {
            0 => self.saturated_buckets = self.saturated_buckets.wrapping_add(times),
            1 => self.void_entries = self.void_entries.wrapping_add(times),
            _ => {}
        }
    }

    /// Adds a change, or the numbers of another segment.
    pub(super) fn add(&mut self, other: Self) {
        self.void_entries = self.void_entries.wrapping_add(other.void_entries);
        self.saturated_buckets = self.saturated_buckets.wrapping_add(other.saturated_buckets);
    }
}

impl EntrySums {
    /// Returns the sums for one entry. `address_bits` bits of the hash choose its block.
    pub(super) fn of(address_bits: u32, entry: u64) -> Self {
        let mut sums = Self::default();
        sums.add(address_bits, entry);
        sums
    }

    /// Adds an entry. `address_bits` bits of the hash choose its block.
    #[inline(always)]
    pub(super) fn add(&mut self, address_bits: u32, entry: u64) {
        self.weight = self.weight.wrapping_add(weight(address_bits, remainder_bits(entry)));
        self.leftovers.count(entry, 1);
    }

    /// Removes an entry. `address_bits` bits of the hash choose its block.
    #[inline(always)]
    pub(super) fn remove(&mut self, address_bits: u32, entry: u64) {
        self.weight = self.weight.wrapping_sub(weight(address_bits, remainder_bits(entry)));
        self.leftovers.count(entry, u64::MAX);
    }

    /// Adds a change.
    pub(super) fn apply(&mut self, change: Self) {
        self.weight = self.weight.wrapping_add(change.weight);
        self.leftovers.add(change.leftovers);
    }

    /// Returns the error rate for a sum of weights.
    pub(super) fn error_rate(weight: u128) -> f64 {
        weight as f64 / (1u128 << WEIGHT_BITS) as f64
    }
}

/// Returns what an entry with a remainder of this length contributes to the error rate, in units of 2^-120.
#[inline(always)]
pub(super) const fn weight(address_bits: u32, remainder_bits: u32) -> u128 {
    let known = address_bits.wrapping_add(BUCKET_BITS).wrapping_add(remainder_bits);
    1u128.wrapping_shl(WEIGHT_BITS.wrapping_sub(known))
}

/// The counts of items, which depend on the kind of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemCounts {
    Plain {
        /// Items that were added.
        items: u64,
        loading: Loading,
    },
    Counted {
        /// Items that were added and not removed. An item counts as often as it was added.
        items: u64,
        /// Entries that were added and not removed.
        entries: u64,
        loading: Loading,
    },
    Timed {
        history: Box<History>,
        /// The number of adds that have stored an entry. It decides which segment is swept, and when.
        stored: u64,
        loading: Loading,
    },
}

/// The outcome of adding an entry of another table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AddedEntry {
    /// The number of entries that the table did not have.
    pub(super) new_entries: u64,
    /// The number of items that the entry adds; 1 if an existing entry got a later generation; 0 if nothing changed.
    pub(super) times: u64,
    /// The former generation of an existing entry, if it got a later one.
    pub(super) moved_from: Option<Generation>,
}

impl ItemCounts {
    /// Returns the state of a load.
    pub(super) fn loading(&self) -> Loading {
        let (Self::Plain { loading, .. } | Self::Counted { loading, .. } | Self::Timed { loading, .. }) =
            self;
        *loading
    }

    pub(super) fn loading_mut(&mut self) -> &mut Loading {
        let (Self::Plain { loading, .. } | Self::Counted { loading, .. } | Self::Timed { loading, .. }) =
            self;
        loading
    }

    /// Adds an entry of another table to the counts, with its generation.
    pub(super) fn add(&mut self, added: AddedEntry, generation: Generation) {
        match self {
            Self::Plain { items, .. } => *items = items.saturating_add(added.times),
            Self::Counted { items, entries, .. } => {
                *items = items.saturating_add(added.times);
                *entries = entries.saturating_add(added.new_entries);
            }
            Self::Timed { history, .. } if added.times > 0 => {
                history.take(added.moved_from);
                history.add(generation);
            }
            Self::Timed { .. } => {}
        }
    }

    /// Makes a generation the newest one, unless there is a newer one.
    pub(super) fn advance(&mut self, generation: Generation) {
        if let Self::Timed { history, .. } = self {
            history.advance(generation);
        }
    }

    /// Sets all counts of items to 0.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Plain { items, .. } => *items = 0,
            Self::Counted { items, entries, .. } => (*items, *entries) = (0, 0),
            Self::Timed { history, .. } => history.items = [0; GENERATIONS],
        }
    }
}

/// The number of generations with a count: the newest one and the fifteen before it.
pub const GENERATIONS: usize = CODES as usize;

/// The number of items of each generation in a table of timed entries. An item that is added again moves to the later
/// generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The newest generation in which an item was added, or to which the table was advanced; 0 before the first.
    pub newest: Generation,
    /// The items of the generations from `newest - 15` to `newest`. The index is the generation modulo 16.
    pub items: [u64; GENERATIONS],
}

impl History {
    /// Adds an item to a generation, which is at most fifteen before the newest one.
    pub(super) fn add(&mut self, generation: Generation) {
        self.advance(generation);
        self.update(generation, |items| items.saturating_add(1));
    }

    /// Makes a generation the newest one, unless there is a newer one.
    pub(super) fn advance(&mut self, generation: Generation) {
        if generation > self.newest {
            // Nothing was added in the generations after the newest one so far. Their elements have the counts of the
            // generations 16 before them, so they are cleared.
            let first = self.newest.saturating_add(1).max(generation.saturating_sub(CODES - 1));
            (first..=generation).for_each(|between| self.update(between, |_| 0));
            self.newest = generation;
        }
    }

    /// Removes an item from the generation that it moves out of, if there is one.
    pub(super) fn take(&mut self, moved_from: Option<Generation>) {
        if let Some(generation) = moved_from {
            self.update(generation, |items| items.saturating_sub(1));
        }
    }

    /// Returns the number of items that are live at `now`.
    #[must_use]
    pub fn live_items(&self, now: Generation) -> u64 {
        let generations = self.newest.saturating_sub(CODES - 1)..=self.newest;
        let live = generations.filter(|generation| is_live(*generation, now));
        live.fold(0, |sum, generation| sum.saturating_add(self.items_of(generation)))
    }

    /// Returns the number of items of one of the sixteen newest generations.
    #[must_use]
    pub fn items_of(&self, generation: Generation) -> u64 {
        self.items.get((generation % CODES) as usize).copied().unwrap_or(0)
    }

    /// Changes the number of items of a generation.
    fn update(&mut self, generation: Generation, change: impl FnOnce(u64) -> u64) {
        if let Some(items) = self.items.get_mut((generation % CODES) as usize) {
            *items = change(*items);
        }
    }
}

/// The state of a load: 0 if the table is not being loaded. From the header of a dump to its last part, the state has
/// the low 31 bits of the number of slots that the dumped table used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loading(u32);

impl Loading {
    /// The bit that is set while the table is being loaded.
    const ACTIVE: u32 = 1 << 31;

    /// Returns the state of a load from a table with `used_slots` used slots.
    pub(super) fn of(used_slots: u64) -> Self {
        Self(used_slots as u32 | Self::ACTIVE)
    }

    /// Returns the state as a number; 0 if the table is not being loaded.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the state with this number; `None` if there is none.
    #[must_use]
    pub const fn of_number(number: u32) -> Option<Self> {
        if number == 0 || number & Self::ACTIVE != 0 { Some(Self(number)) } else { None }
    }
}

/// The state of a table without its segments, as it is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableCounts {
    /// The lengths of the remainders.
    pub schedule: Schedule,
    /// Items that were added and not removed; 0 if entries are timed.
    pub items: u64,
    /// If entries are counted, the number of entries that were added and not removed. If they are timed, the number of
    /// adds that have stored an entry. Otherwise 0.
    pub entries: u64,
    /// How many items were added in each generation, if entries are timed.
    pub history: History,
    /// The number of segments.
    pub segments: usize,
    /// The logarithm of the number of blocks of a segment.
    pub blocks_log: u32,
    /// The state of a load.
    pub loading: Loading,
}

impl TableCounts {
    /// Returns the state of an empty table.
    pub(super) fn initial(schedule: Schedule) -> Self {
        let TableSize { blocks_log, segments } = schedule.initial_size();
        let (history, loading) = (History::default(), Loading::default());
        Self { schedule, items: 0, entries: 0, history, segments, blocks_log, loading }
    }
}
