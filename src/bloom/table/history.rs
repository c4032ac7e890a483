//! How many items were added in each generation.

use crate::bloom::generation::{CODES, Generation, is_live};

/// Generations with a count: those of `newest` and the fifteen before it.
pub const GENERATIONS: usize = CODES as usize;

/// The items of a table of timed entries, by generation. An item that is added again moves to the later generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The newest generation in which an item was added; 0 before the first.
    pub newest: Generation,
    /// The items of a generation, at its number modulo 16: those of `newest` and the fifteen before it.
    pub items: [u64; GENERATIONS],
}

impl History {
    /// Counts an item that is added in a generation, at most fifteen before the newest one.
    pub(super) fn add(&mut self, generation: Generation) {
        self.advance(generation);
        self.update(generation, |items| items.saturating_add(1));
    }

    /// Makes a generation the newest one, unless there is a newer one.
    pub(super) fn advance(&mut self, generation: Generation) {
        if generation > self.newest {
            // The generations between have no items.
            let first = self.newest.saturating_add(1).max(generation.saturating_sub(CODES - 1));
            (first..=generation).for_each(|between| self.update(between, |_| 0));
            self.newest = generation;
        }
    }

    /// Counts an item of a generation that moves to another one.
    pub(super) fn take(&mut self, generation: Generation) {
        self.update(generation, |items| items.saturating_sub(1));
    }

    /// Returns the items that are live at `now`.
    #[must_use]
    pub fn live_items(&self, now: Generation) -> u64 {
        let generations = self.newest.saturating_sub(CODES - 1)..=self.newest;
        let live = generations.filter(|generation| is_live(*generation, now));
        live.fold(0, |sum, generation| sum.saturating_add(self.items_of(generation)))
    }

    /// Returns the items of one of the sixteen newest generations.
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
