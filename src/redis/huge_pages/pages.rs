//! The large pages of one filter: when they are requested.

use std::sync::atomic::Ordering::Relaxed;

use super::children::CHILDREN_ENDED;
use super::collapser::{self, Request};
use crate::bloom::{Cells, Filter, Layer};
use crate::redis::config;

/// The smallest array that is collapsed: wherever it begins, a large page lies in it.
const ARRAY_MIN_BYTES: usize = 4 << 20;
/// An array is collapsed when it has a set cell for so many bytes. Those are 64 cells for a page of 4 KiB: with up to 20 bits
/// per item, 95 of 100 pages have been written to.
const BYTES_PER_SET_CELL: u64 = 64;
/// Bytes of large arrays for each item between two requests, at the least: three items per page of 4 KiB.
const BYTES_PER_ITEM: u64 = 4096 / 3;

/// The state of a filter with large arrays; nothing for other filters.
#[derive(Default)]
pub(in crate::redis) struct LargePages(Option<Box<State>>);

#[derive(Default)]
struct State {
    /// Items until the next request.
    rest_items: u64,
    /// The value of [`CHILDREN_ENDED`] at the last request.
    children_ended: u32,
    /// The last request.
    request: Option<Request>,
}

impl LargePages {
    /// Returns the state of a new filter, empty or not.
    pub(in crate::redis) fn of(filter: &Filter) -> Self {
        let mut state = Self(large_arrays(filter).next().map(|_| Box::default()));
        state.after_bytes(filter);
        state
    }

    /// Handles new items of a command. O(1) unless a request is due.
    #[inline(always)]
    pub(in crate::redis) fn after_items(&mut self, filter: &Filter, items: u64) {
        if let Self(Some(state)) = self {
            state.after_items(filter, items);
        }
    }

    /// Handles new or freed memory that came with no count of items.
    pub(in crate::redis) fn after_bytes(&mut self, filter: &Filter) {
        if let Self(Some(state)) = self {
            state.collapse(filter);
        }
    }

    /// Handles a new array.
    pub(in crate::redis) fn after_growth(&mut self, filter: &Filter) {
        if self.0.is_none() {
            *self = Self::of(filter);
        }
    }
}

impl State {
    fn after_items(&mut self, filter: &Filter, items: u64) {
        self.rest_items = self.rest_items.saturating_sub(items);
        if self.rest_items == 0 || self.children_ended != CHILDREN_ENDED.load(Relaxed) {
            self.collapse(filter);
        }
    }

    /// Requests to collapse the arrays that are in use, in place of the last request. What is collapsed already costs the
    /// system less than a millisecond per GB, so the whole of an array is requested each time.
    #[cold]
    fn collapse(&mut self, filter: &Filter) {
        self.children_ended = CHILDREN_ENDED.load(Relaxed);
        let size_bytes: u64 = large_arrays(filter).map(Cells::size_bytes).sum();
        self.rest_items = (filter.items() / 4).max(size_bytes / BYTES_PER_ITEM);
        self.request = None;
        let mut used = large_arrays(filter)
            .filter(|cells| cells.set_cells() >= cells.size_bytes() / BYTES_PER_SET_CELL)
            .map(Cells::words)
            .peekable();
        if used.peek().is_some() && is_allowed() {
            self.request = collapser::request(used);
        }
    }
}

/// Whether the operator and the system let memory have large pages.
fn is_allowed() -> bool {
    const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    config::huge_pages_wanted()
        && std::fs::read_to_string(SETTING).is_ok_and(|text| !text.contains("[never]"))
}

fn large_arrays(filter: &Filter) -> impl Iterator<Item = &Cells> {
    filter.layers().iter().map(Layer::cells).filter(|cells| size_of_val(cells.words()) >= ARRAY_MIN_BYTES)
}
