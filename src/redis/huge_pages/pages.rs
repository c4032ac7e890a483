//! The pages of one filter: when its arrays are looked at, and what came of it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::block::{self, Advice};
use super::children::CHILDREN_ENDED;
use super::joiner::{self, Pass};
use crate::bloom::{Cells, Filter, Layer};
use crate::redis::config;

/// Items per small page after which the arrays are looked at for the first time: with three, and one page for
/// each, 95 of 100 pages have been written to.
const ITEMS_PER_PAGE: u64 = 3;
/// Bytes of a small page.
const PAGE_BYTES: u64 = 4096;

/// How far the arrays of one filter are in large pages; nothing for filters without large arrays.
#[derive(Default)]
pub(in crate::redis) struct LargePages(Option<Box<State>>);

struct State {
    /// Items until the arrays are looked at again.
    rest_items: u64,
    /// Children that had ended when they were last looked at.
    children_ended: u32,
    /// The look that is under way.
    pass: Option<Arc<Pass>>,
    /// Whether the system was told to use large pages for an array, which it does until it is told otherwise.
    is_advised: bool,
}

impl LargePages {
    /// Of a filter that has just come to be, empty or with its bits.
    pub(in crate::redis) fn of(filter: &Filter) -> Self {
        let large_bytes: u64 = large_arrays(filter).map(Cells::size_bytes).sum();
        if large_bytes == 0 || !block::is_possible() {
            return Self(None);
        }
        let mut state = Box::new(State::new(large_bytes / PAGE_BYTES * ITEMS_PER_PAGE, false));
        if filter.items() > 0 {
            state.look(filter);
        }
        Self(Some(state))
    }

    /// The filter took items by a command; a look may be due. Cheap where none is.
    #[inline(always)]
    pub(in crate::redis) fn after_items(&mut self, filter: &Filter, items: u64) {
        if let Self(Some(state)) = self {
            state.after_items(filter, items);
        }
    }

    /// The filter took bytes of a dump.
    pub(in crate::redis) fn after_bytes(&mut self, filter: &Filter) {
        if let Self(Some(state)) = self {
            // What the look that is under way has seen may have changed since, and nothing may come that asks
            // for another.
            state.cancel();
            state.look(filter);
        }
    }

    /// The filter gained an array.
    pub(in crate::redis) fn after_growth(&mut self, filter: &Filter) {
        match self {
            Self(None) => *self = Self::of(filter),
            Self(Some(state)) => state.rest_items = state.rest_items.min(filter.items()),
        }
    }

    /// The pages of a part that was taken out of the filter, and is there to be freed: nobody looks at them any more, but
    /// what the system was told of them is to be taken back.
    pub(in crate::redis) fn of_part(&self) -> Self {
        let is_advised = self.0.as_ref().is_some_and(|state| state.is_advised);
        Self(is_advised.then(|| Box::new(State::new(u64::MAX, is_advised))))
    }

    /// Of a filter whose arrays the system was told of.
    #[cfg(test)]
    pub(in crate::redis) fn advised(filter: &Filter) -> Self {
        advise(filter, Advice::Wanted);
        Self(Some(Box::new(State::new(u64::MAX, true))))
    }

    /// Takes back what the system was told, for whoever gets the memory next.
    pub(in crate::redis) fn undo(&mut self, filter: &Filter) {
        if let Self(Some(state)) = self {
            state.undo(filter);
        }
    }
}

impl State {
    fn new(rest_items: u64, is_advised: bool) -> Self {
        Self { rest_items, children_ended: CHILDREN_ENDED.load(Relaxed), pass: None, is_advised }
    }

    fn after_items(&mut self, filter: &Filter, items: u64) {
        self.rest_items = self.rest_items.saturating_sub(items);
        if self.rest_items == 0 || self.children_ended != CHILDREN_ENDED.load(Relaxed) {
            self.look(filter);
        }
    }

    /// Has the arrays looked at, or sees what came of it.
    #[cold]
    fn look(&mut self, filter: &Filter) {
        if !config::huge_pages_wanted() {
            self.undo(filter);
            self.rest_items = u64::MAX;
            self.children_ended = CHILDREN_ENDED.load(Relaxed);
            return;
        }
        match self.pass.take() {
            None => {
                self.children_ended = CHILDREN_ENDED.load(Relaxed);
                let blocks = large_arrays(filter).map(|cells| block::whole_blocks(cells.words())).collect();
                self.pass = joiner::begin(blocks);
                self.rest_items = PAGE_BYTES;
            }
            Some(pass) => match pass.outcome() {
                // Asked again after some items more.
                None => {
                    self.pass = Some(pass);
                    self.rest_items = PAGE_BYTES;
                }
                // The next look is after another child, or, where something was left out, at twice the items.
                Some(outcome) if outcome.is_complete() => self.rest_items = u64::MAX,
                Some(outcome) => {
                    if outcome.was_refused && outcome.is_dense() && !self.is_advised {
                        // A system that has no large page at hand, cannot join on request, or was told not to
                        // for whoever had this memory before: it joins by and by where it is told to. Only
                        // whole arrays are named: each range that is named is a mapping of its own, of which
                        // a process has a limited number.
                        self.is_advised = true;
                        advise(filter, Advice::Wanted);
                    }
                    self.rest_items = filter.items().max(PAGE_BYTES);
                }
            },
        }
    }

    /// Ends the look that is under way.
    fn cancel(&mut self) {
        if let Some(pass) = self.pass.take() {
            pass.cancel();
        }
    }

    fn undo(&mut self, filter: &Filter) {
        if std::mem::take(&mut self.is_advised) {
            advise(filter, Advice::Unwanted);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.cancel();
    }
}

fn advise(filter: &Filter, advice: Advice) {
    large_arrays(filter).for_each(|cells| block::advise(cells.words(), advice));
}

fn large_arrays(filter: &Filter) -> impl Iterator<Item = &Cells> {
    filter
        .layers()
        .iter()
        .map(Layer::cells)
        .filter(|cells| size_of_val(cells.words()) >= block::ARRAY_MIN_BYTES)
}
