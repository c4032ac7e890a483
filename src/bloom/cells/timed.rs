//! What a layer whose items expire keeps beside its cells.

use crate::bloom::sizing::Shape;
use crate::bloom::window::{
    COLUMNS, COLUMNS_LEN, ColumnRate, Generation, column_of, columns_between, columns_up_to, is_live,
};

/// What a layer of columns, or one that takes a burst, keeps beside its cells.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedState {
    /// The number of stamps behind the cells: one for each region of columns, none in a burst layer.
    stamps: usize,
    /// The items by generation.
    pub history: History,
    /// How the error rate of a generation rises with its items.
    pub rate: ColumnRate,
    /// Where the layer begins among the bytes of all layers that the filter ever had, one behind another.
    pub address: u64,
    /// The newest generation of the layer when the header of the last dump was written. No part of the state.
    pub dumped: Generation,
}

impl TimedState {
    /// Returns the state of an empty layer of that shape, which begins at `address`.
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

    /// Returns the state of the same layer when it is empty.
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
    /// The newest generation that it has taken an item of; 0 where it has taken none. Of a burst layer: its only one.
    pub newest: Generation,
    /// Items by column, of the sixteen generations up to the newest.
    pub items: [u64; COLUMNS_LEN],
}

impl History {
    /// The history of a layer that has taken nothing.
    pub const NONE: Self = Self { newest: 0, items: [0; COLUMNS_LEN] };

    /// Returns the items that were added in a generation and are not overwritten. O(1).
    #[must_use]
    pub fn items_of(&self, generation: Generation) -> u64 {
        let is_kept = generation <= self.newest && self.newest - generation < COLUMNS && generation > 0;
        self.items.get(column_of(generation)).copied().filter(|_| is_kept).unwrap_or(0)
    }

    /// Returns the items of every generation that is live at `now`, the newest first. O(generations).
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

    /// Checks that only generations that the layer can have a column of have items, and none more than positions: every item
    /// sets a bit of its column that was clear.
    pub(in crate::bloom) fn validate(&self, positions: u64) -> Result<(), &'static str> {
        let columns = columns_up_to(self.newest, self.newest);
        let is_possible = |(column, items): (usize, &u64)| {
            *items == 0 || (columns >> column & 1 == 1 && *items <= positions)
        };
        if self.items.iter().enumerate().all(is_possible) { Ok(()) } else { Err("items") }
    }

    /// Counts the items of another layer too, up to `most` in a generation.
    pub(in crate::bloom) fn unite(&mut self, other: &Self, most: u64) {
        self.count(other.newest, 0, most);
        for generation in (0..COLUMNS).filter_map(|age| other.newest.checked_sub(age)) {
            if self.newest - generation < COLUMNS {
                self.count(generation, other.items_of(generation), most);
            }
        }
    }

    /// Counts items of a generation, up to the most that a decoder takes: every item sets a bit of its column that was clear, so
    /// only a count that was read over fewer bits ends there. A newer generation drops the counts of the columns that it
    /// overwrites; no region is newer than its layer.
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
