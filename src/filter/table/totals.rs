//! The state of a table besides its segments: sums over its entries, and counts of its items.

use super::entry::{Entry, EntryKind, remainder_bits, visit_entries};
use super::schedule::Schedule;
use super::segment::Segment;
use super::size::{BUCKET_BITS, TableSize};
use crate::generation::{Generation, Steps};

/// Weights are in units of 2^-120. No entry adds less to the error rate. The sum over all entries fits 128 bits, because
/// full segments add at most 1.75 (slots per bucket) together.
const WEIGHT_BITS: u32 = 120;

/// The numbers of void entries and of saturated buckets, which match every item of a bucket; or the changes of these
/// numbers, modulo 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchAllCounts {
    /// Entries whose remainder has no bits.
    pub void_entries: u64,
    /// The slots of these entries.
    pub void_slots: u64,
    /// Buckets that match every item.
    pub saturated_buckets: u64,
}

/// A sum of what entries add to the error rate, in units of 2^-120; or a change of it, which wraps around.
///
/// These are two words, the low one first, because the module has no blocks of memory for the alignment of a `u128`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight([u64; 2]);

impl Weight {
    #[inline(always)]
    pub(super) fn get(self) -> u128 {
        let Self([low, high]) = self;
        u128::from(low) | u128::from(high) << 64
    }

    #[inline(always)]
    pub(super) fn add(&mut self, change: u128) {
        // A change is modulo 2^128.
        let sum = self.get().wrapping_add(change);
        *self = Self([sum as u64, (sum >> 64) as u64]);
    }
}

/// Sums over entries; or the changes of these sums, which wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EntrySums {
    pub(super) weight: Weight,
    pub(super) match_all_counts: MatchAllCounts,
}

impl MatchAllCounts {
    /// Counts an entry if it is void or a saturated bucket.
    #[inline(always)]
    pub(super) fn count(&mut self, kind: EntryKind, entry: Entry) {
        if entry.value <= 1 {
            self.add(Self::of(kind, entry));
        }
    }

    /// Does the opposite of [`count`](Self::count).
    #[inline(always)]
    pub(super) fn uncount(&mut self, kind: EntryKind, entry: Entry) {
        if entry.value <= 1 {
            self.subtract(Self::of(kind, entry));
        }
    }

    fn of(kind: EntryKind, entry: Entry) -> Self {
        if entry.value == 0 {
            return Self { saturated_buckets: 1, ..Self::default() };
        }
        Self { void_entries: 1, void_slots: entry.slots(kind) as u64, saturated_buckets: 0 }
    }

    /// Adds a change, or the numbers of another segment.
    #[inline(always)]
    pub(super) fn add(&mut self, other: Self) {
        self.combine(other, u64::wrapping_add);
    }

    #[inline(always)]
    fn combine(&mut self, other: Self, combine: impl Fn(u64, u64) -> u64) {
        self.void_entries = combine(self.void_entries, other.void_entries);
        self.void_slots = combine(self.void_slots, other.void_slots);
        self.saturated_buckets = combine(self.saturated_buckets, other.saturated_buckets);
    }

    /// Subtracts a change, or the numbers of another segment.
    pub(super) fn subtract(&mut self, other: Self) {
        self.combine(other, u64::wrapping_sub);
    }
}

impl EntrySums {
    /// Returns the sums of the entries of a segment. `address_bits` bits of the hash choose a block. O(slots).
    pub(super) fn of_segment(kind: EntryKind, address_bits: u32, segment: &Segment) -> Self {
        let mut sums = Self::default();
        for block in 0..segment.blocks() {
            visit_entries(kind, segment, block, |_, entry| sums.add(kind, address_bits, entry));
        }
        sums
    }

    /// Adds an entry. `address_bits` bits of the hash choose its block.
    #[inline(always)]
    pub(super) fn add(&mut self, kind: EntryKind, address_bits: u32, entry: Entry) {
        self.add_weight(address_bits, entry.value);
        self.match_all_counts.count(kind, entry);
    }

    /// Does the opposite of [`add`](Self::add).
    pub(super) fn remove(&mut self, kind: EntryKind, address_bits: u32, entry: Entry) {
        self.remove_weight(address_bits, entry.value);
        self.match_all_counts.uncount(kind, entry);
    }

    /// Adds the weight of an entry.
    #[inline(always)]
    pub(super) fn add_weight(&mut self, address_bits: u32, entry: u64) {
        self.weight.add(weight(address_bits, entry));
    }

    /// Does the opposite of [`add_weight`](Self::add_weight).
    #[inline(always)]
    pub(super) fn remove_weight(&mut self, address_bits: u32, entry: u64) {
        self.weight.add(weight(address_bits, entry).wrapping_neg());
    }

    #[must_use]
    pub(super) fn plus(mut self, other: Self) -> Self {
        self.weight.add(other.weight.get());
        self.match_all_counts.add(other.match_all_counts);
        self
    }

    /// Returns the sums of this without those of `other`.
    #[must_use]
    pub(super) fn minus(mut self, other: Self) -> Self {
        self.weight.add(other.weight.get().wrapping_neg());
        self.match_all_counts.subtract(other.match_all_counts);
        self
    }

    pub(super) fn error_rate(weight: u128) -> f64 {
        weight as f64 / (1u128 << WEIGHT_BITS) as f64
    }

    /// Returns the change of the error rate for a change of the sum of weights, which wraps around.
    pub(super) fn error_rate_change(change: u128) -> f64 {
        change.cast_signed() as f64 / (1u128 << WEIGHT_BITS) as f64
    }
}

/// Returns what an entry contributes to the error rate, in units of 2^-120. `address_bits` bits of the hash choose its
/// block.
#[inline(always)]
pub(super) const fn weight(address_bits: u32, entry: u64) -> u128 {
    let known = address_bits + BUCKET_BITS + remainder_bits(entry);
    1u128 << (WEIGHT_BITS - known)
}

/// The numbers of entries and items of some segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    /// The number of entries, in units of 2^-[`TALLY_BITS`]. A counted entry with copies in several buckets counts once.
    entries: u128,
    /// The sum of their counts, in the same units.
    items: u128,
    /// The number of timed entries of each generation, by its code.
    generations: [u64; GENERATIONS],
}

impl Default for Tally {
    fn default() -> Self {
        Self { entries: 0, items: 0, generations: [0; GENERATIONS] }
    }
}

/// An entry has at most 2^42 copies, because an address has at most as many bits.
const TALLY_BITS: u32 = 42;

impl Tally {
    /// Counts the entries of a segment. Those that have expired at `now` do not count. It is not known which plain and
    /// timed entries are copies, so each of them counts. O(slots).
    pub(super) fn count(&mut self, kind: EntryKind, segment: &Segment, now: Generation) {
        self.count_those(kind, segment, now, |_| true);
    }

    /// Does [`count`](Self::count) for the entries for which `is_counted` holds.
    pub(super) fn count_those(
        &mut self,
        kind: EntryKind,
        segment: &Segment,
        now: Generation,
        is_counted: impl Fn(Entry) -> bool,
    ) {
        for block in 0..segment.blocks() {
            visit_entries(kind, segment, block, |_, entry| {
                if kind.has_expired(entry.number, now) || !is_counted(entry) {
                    return;
                }
                let unit = 1u128 << (TALLY_BITS - entry.copies);
                self.entries += unit;
                self.items += unit * u128::from(entry.number);
                if let Some(entries) = self.generations.get_mut(kind.code_of(entry.number) as usize) {
                    *entries += 1;
                }
            });
        }
    }
}

/// Returns a number in units of 2^-[`TALLY_BITS`] as a count.
fn rounded(units: u128) -> u64 {
    // Crafted counts may have a larger sum.
    u64::try_from((units + (1 << (TALLY_BITS - 1))) >> TALLY_BITS).unwrap_or(u64::MAX)
}

/// Adds the difference of two numbers in units of 2^-[`TALLY_BITS`] to a count.
fn add_difference(count: &mut u64, before: u128, after: u128) {
    let (before, after) = (rounded(before), rounded(after));
    *count = count.saturating_add(after.saturating_sub(before)).saturating_sub(before.saturating_sub(after));
}

/// The counts of items, which depend on the kind of entries. A header or a snapshot may say any numbers, so the counts
/// stay at 0 and at the largest number instead of passing them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemCounts {
    Plain {
        /// Items that were added.
        items: u64,
    },
    Counted {
        /// Items that were added and not removed. An item counts as often as it was added.
        items: u64,
        /// Entries that were added and not removed.
        entries: u64,
    },
    Timed {
        history: Box<History<16>>,
        /// The number of adds that have stored an entry. It decides which segment is swept, and when.
        adds: u64,
    },
    /// As [`Timed`](Self::Timed), with 120 steps.
    Fine { history: Box<History>, adds: u64 },
}

impl ItemCounts {
    pub(super) fn of(kind: EntryKind, counts: &TableCounts) -> Self {
        let TableCounts { items, entries, history, .. } = *counts;
        match kind {
            EntryKind::Plain => Self::Plain { items },
            EntryKind::Counted => Self::Counted { items, entries },
            EntryKind::Timed(Steps::Fourteen) => {
                Self::Timed { history: Box::new(history.resized()), adds: entries }
            }
            EntryKind::Timed(Steps::Fine) => Self::Fine { history: Box::new(history), adds: entries },
        }
    }

    /// Corrects counts that a table with `used` slots cannot have. They are false in crafted tables, and if removals have
    /// left copies of void entries.
    pub(super) fn settle(&mut self, used: u64) {
        match self {
            Self::Plain { items } if used == 0 => *items = 0,
            Self::Counted { items, entries } => {
                *items = if used == 0 { 0 } else { *items };
                *entries = (*entries).min(used).min(*items);
            }
            Self::Plain { .. } | Self::Timed { .. } | Self::Fine { .. } => {}
        }
    }

    /// Adds the difference between the entries of some segments before and after a change.
    pub(super) fn add_change(&mut self, before: &Tally, after: &Tally) {
        match self {
            Self::Plain { items } => add_difference(items, before.entries, after.entries),
            Self::Counted { items, entries } => {
                add_difference(items, before.items, after.items);
                add_difference(entries, before.entries, after.entries);
            }
            Self::Timed { history, .. } => history.add_change(before, after),
            Self::Fine { history, .. } => history.add_change(before, after),
        }
    }

    /// Sets the counts to those of all entries.
    pub(super) fn recount(&mut self, entries: &Tally) {
        match self {
            Self::Plain { items } => *items = 0,
            Self::Counted { items, entries } => (*items, *entries) = (0, 0),
            Self::Timed { history, .. } => history.items.fill(0),
            Self::Fine { history, .. } => history.items.fill(0),
        }
        self.add_change(&Tally::default(), entries);
    }

    /// Returns whether the counts may be those of all entries. A generation may have a larger count: an entry can stand for
    /// several items.
    pub(super) fn agree_with(&self, entries: &Tally) -> bool {
        match self {
            Self::Plain { .. } => true,
            Self::Counted { items, entries: distinct } => {
                rounded(entries.items) == *items && rounded(entries.entries) == *distinct
            }
            Self::Timed { history, .. } => history.covers(entries),
            Self::Fine { history, .. } => history.covers(entries),
        }
    }

    /// Makes a generation the newest one, unless there is a newer one.
    pub(super) fn advance(&mut self, generation: Generation) {
        match self {
            Self::Timed { history, .. } => history.advance(generation),
            Self::Fine { history, .. } => history.advance(generation),
            Self::Plain { .. } | Self::Counted { .. } => {}
        }
    }

    /// Returns the number of adds that have stored a timed entry.
    #[inline(always)]
    pub(super) const fn timed_adds(&self) -> Option<u64> {
        match self {
            Self::Timed { adds, .. } | Self::Fine { adds, .. } => Some(*adds),
            Self::Plain { .. } | Self::Counted { .. } => None,
        }
    }
}

/// The most generations with a count: the newest one and those before it.
pub const GENERATIONS: usize = Steps::Fine.codes() as usize;

/// The number of items of each generation in a table of timed entries, of which `N` have a count. An item that is added
/// again moves to the later generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History<const N: usize = GENERATIONS> {
    /// The newest generation in which an item was added, or to which the table was advanced; 0 before the first.
    pub newest: Generation,
    /// The items of the `N` generations up to `newest`. The index is the generation modulo `N`.
    pub items: [u64; N],
}

impl<const N: usize> Default for History<N> {
    fn default() -> Self {
        Self { newest: 0, items: [0; N] }
    }
}

impl History {
    /// Returns the bytes of the history of a table of these entries; 0 if they are not timed.
    pub(super) const fn bytes(kind: EntryKind) -> u64 {
        match kind {
            EntryKind::Timed(Steps::Fourteen) => size_of::<History<16>>() as u64,
            EntryKind::Timed(Steps::Fine) => size_of::<Self>() as u64,
            EntryKind::Plain | EntryKind::Counted => 0,
        }
    }
}

impl<const N: usize> History<N> {
    /// The steps of a window with `N` codes.
    const STEPS: Steps = if N == GENERATIONS { Steps::Fine } else { Steps::Fourteen };
    const CODES: u64 = {
        assert!(Self::STEPS.codes() == N as u64);
        Self::STEPS.codes()
    };

    /// Returns the history with `M` counts. Those of further generations are 0 or left out.
    pub(super) fn resized<const M: usize>(&self) -> History<M> {
        let mut resized = History { newest: self.newest, ..History::default() };
        resized.items.iter_mut().zip(&self.items).for_each(|(to, from)| *to = *from);
        resized
    }

    /// Adds the difference between the entries of some segments before and after a change.
    fn add_change(&mut self, before: &Tally, after: &Tally) {
        let generations = before.generations.iter().zip(&after.generations);
        for (items, (before, after)) in self.items.iter_mut().zip(generations) {
            *items = items.saturating_add(*after).saturating_sub(*before);
        }
    }

    /// Returns whether no generation has more entries than its count.
    fn covers(&self, entries: &Tally) -> bool {
        self.items.iter().zip(&entries.generations).all(|(items, entries)| items >= entries)
    }

    /// Adds items to a generation, which is one of those with a count.
    pub(super) fn add(&mut self, generation: Generation, more: u64) {
        self.advance(generation);
        self.update(generation, |items| items.saturating_add(more));
    }

    /// Makes a generation the newest one, unless there is a newer one.
    pub(super) fn advance(&mut self, generation: Generation) {
        if generation > self.newest {
            // Nothing was added in the generations after the newest one so far. Their elements have the counts of the
            // generations `N` before them, so they are cleared.
            let first = self.newest.saturating_add(1).max(generation.saturating_sub(Self::CODES - 1));
            (first..=generation).for_each(|between| self.update(between, |_| 0));
            self.newest = generation;
        }
    }

    /// Removes an item from the generation that it moves out of, if the generation still has a count.
    pub(super) fn remove_one(&mut self, moved_from: Generation) {
        if moved_from.saturating_add(Self::CODES) > self.newest {
            self.update(moved_from, |items| items.saturating_sub(1));
        }
    }

    /// Returns the number of items that are live at `now`.
    #[must_use]
    pub fn live_items(&self, now: Generation) -> u64 {
        let generations = self.newest.saturating_sub(Self::CODES - 1)..=self.newest;
        let live = generations.filter(|generation| Self::STEPS.is_live(*generation, now));
        live.fold(0, |sum, generation| sum.saturating_add(self.items_of(generation)))
    }

    /// Returns the number of items of one of the generations with a count.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "a count per code")]
    pub fn items_of(&self, generation: Generation) -> u64 {
        self.items[(generation % Self::CODES) as usize]
    }

    /// Changes the number of items of a generation.
    #[expect(clippy::indexing_slicing, reason = "a count per code")]
    fn update(&mut self, generation: Generation, change: impl FnOnce(u64) -> u64) {
        let items = &mut self.items[(generation % Self::CODES) as usize];
        *items = change(*items);
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
}

impl TableCounts {
    /// Returns the state of an empty table.
    pub(super) fn initial(schedule: Schedule) -> Self {
        let TableSize { blocks_log, segments } = TableSize::of_blocks(0);
        Self { schedule, items: 0, entries: 0, history: History::default(), segments, blocks_log }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts in fractions of an entry are rounded to the nearest number.
    #[test]
    fn a_difference_is_rounded() {
        let unit = 1u128 << TALLY_BITS;
        let cases =
            [(0, unit, 11), (0, unit / 2, 11), (0, unit / 2 - 1, 10), (unit, 0, 9), (unit, 2 * unit, 11)];
        for (before, after, expected) in cases {
            let mut count = 10;
            add_difference(&mut count, before, after);
            assert_eq!(count, expected, "{before} {after}");
        }
    }

    /// An item that moves out of a generation without a count changes no other count.
    #[test]
    fn only_generations_with_a_count_lose_items() {
        let mut history = History::<16>::default();
        history.add(20, 5);
        history.remove_one(20 - 16);
        assert_eq!(history.live_items(20), 5);
        history.remove_one(20);
        assert_eq!(history.live_items(20), 4);
    }
}
