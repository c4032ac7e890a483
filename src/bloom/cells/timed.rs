//! The state of a layer whose items expire, besides its cells.

use crate::bloom::sizing::Shape;
use crate::bloom::window::{
    COLUMNS, COLUMNS_LEN, ColumnRate, Generation, column_of, columns_between, columns_up_to, is_live,
};

/// The state of a layer of columns or of a burst layer, besides its cells.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedState {
    /// The number of stamps after the cells: one per region of columns, none in a burst layer.
    stamps: usize,
    /// The number of items by generation.
    pub history: History,
    /// How the error rate of a generation depends on its items.
    pub rate: ColumnRate,
    /// The start of the layer among the bytes of all layers that the filter ever had, in order.
    pub address: u64,
    /// The newest generation of the layer when the header of the last dump was written. Not saved.
    pub dumped: Generation,
}

impl TimedState {
    /// Returns the state of an empty layer of this shape, which begins at `address`.
    #[must_use]
    pub fn new(shape: &Shape, address: u64) -> Self {
        let stamps = shape.regions().saturating_mul(shape.cells.measures().stamp_words);
        Self {
            stamps: stamps.try_into().unwrap_or(usize::MAX),
            history: History::NONE,
            rate: ColumnRate::of(shape),
            address,
            dumped: Generation::MAX,
        }
    }

    /// Returns the state of this layer when it is empty.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self { history: History::NONE, dumped: Generation::MAX, ..self.clone() }
    }

    /// Returns the number of stamps behind the cells.
    #[must_use]
    #[inline(always)]
    pub const fn stamps(&self) -> usize {
        self.stamps
    }
}

/// The items that a layer has taken, by generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The newest generation of which the layer has taken an item; 0 if it has taken none. In a burst layer, its only
    /// generation.
    pub newest: Generation,
    /// Items by column, for the sixteen generations up to the newest.
    pub items: [u64; COLUMNS_LEN],
}

impl History {
    /// The history of an empty layer.
    pub const NONE: Self = Self { newest: 0, items: [0; COLUMNS_LEN] };

    /// Returns the items that were added in a generation and not overwritten since. O(1).
    #[must_use]
    pub fn items_of(&self, generation: Generation) -> u64 {
        let is_kept = generation <= self.newest && self.newest - generation < COLUMNS && generation > 0;
        self.items.get(column_of(generation)).copied().filter(|_| is_kept).unwrap_or(0)
    }

    /// Returns the number of items of each generation that is live at `now`, the newest first. O(generations).
    pub fn live(&self, now: Generation) -> impl Iterator<Item = (Generation, u64)> {
        let newest = self.newest;
        let kept = (0..COLUMNS).map_while(move |age| newest.checked_sub(age).filter(|found| *found > 0));
        kept.take_while(move |generation| is_live(*generation, now))
            .map(|generation| (generation, self.items_of(generation)))
    }

    /// Returns the items of all columns.
    #[must_use]
    pub fn all_items(&self) -> u64 {
        self.items.iter().fold(0, |sum, items| sum.saturating_add(*items))
    }

    /// Checks that only generations with a column have items, and that no generation has more items than positions:
    /// every item sets a clear bit of its column.
    pub(in crate::bloom) fn validate(&self, positions: u64) -> Result<(), &'static str> {
        let columns = columns_up_to(self.newest, self.newest);
        let is_possible = |(column, items): (usize, &u64)| {
            *items == 0 || (columns >> column & 1 == 1 && *items <= positions)
        };
        if self.items.iter().enumerate().all(is_possible) { Ok(()) } else { Err("items") }
    }

    /// Adds the items of another layer, up to `most` per generation.
    pub(in crate::bloom) fn unite(&mut self, other: &Self, most: u64) {
        self.count(other.newest, 0, most);
        for generation in (0..COLUMNS).filter_map(|age| other.newest.checked_sub(age)) {
            if self.newest - generation < COLUMNS {
                self.count(generation, other.items_of(generation), most);
            }
        }
    }

    /// Counts items of a generation, up to the largest number that a decoder accepts. Every item sets a clear bit of
    /// its column, so the count reaches this limit only if it was read for fewer bits. A newer generation drops the
    /// counts of the columns that it overwrites. No region is newer than its layer.
    pub(in crate::bloom) fn count(&mut self, generation: Generation, more: u64, most: u64) {
        if generation > self.newest {
            let expired = columns_between(self.newest, generation);
            for (column, items) in self.items.iter_mut().enumerate() {
                *items *= u64::from(expired >> column & 1 == 0);
            }
            self.newest = generation;
        }
        if let Some(items) = self.items.get_mut(column_of(generation)) {
            *items = items.saturating_add(more).min(most);
        }
    }
}
