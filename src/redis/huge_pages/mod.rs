//! Pages of 2 MiB for large bit arrays, where they cost no memory (`bf.huge-pages`).
//!
//! A probe of a large array then misses the address cache far less often, and a fork has a fraction of the page tables
//! to copy. But a large page is resident as a whole: taken for the first bit that is set in it, it makes a filter that was
//! reserved too large, or whose items lie all over it, resident long before it holds anything. So small pages are joined
//! only where nearly all of them have been written to, by a thread of its own ([`joiner`]); and again after a save, during
//! which the system splits pages that are written to.
//! docs/decisions/0009 has what was measured.

mod block;
mod joiner;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use redis_module::raw;

use super::api::Context;
use super::config;
use crate::bloom::{Filter, Storage};
use joiner::Pass;

/// Whether large pages are wanted where nothing is configured. Linux from 5.8 on copies 4 KiB of a large page that is
/// written to while a child saves; older kernels copied all of it, which is why large pages have a bad name with
/// Redis: `no` is the right setting there.
pub(super) const DEFAULT: bool = true;

/// Items per small page after which the arrays are looked at for the first time: with three, and one page for each, 95 of
/// 100 pages have been written to.
const ITEMS_PER_PAGE: u64 = 3;
/// Bytes of a small page.
const PAGE_BYTES: u64 = 4096;

/// Children of the server that have ended: each time pages may have been split.
static CHILDREN_ENDED: AtomicU32 = AtomicU32::new(0);
/// Whether a child runs: what is joined meanwhile is copied, because the child has it too.
static HAS_CHILD: AtomicBool = AtomicBool::new(false);

/// Asks the server to tell of its children.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn watch(context: Context) {
    let Some(subscribe) = api!(RedisModule_SubscribeToServerEvent) else { return };
    let event = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_FORK_CHILD, dataver: 1 };
    // SAFETY: the context is OnLoad's by the caller's contract; the callback lives as long as the module.
    unsafe { subscribe(context, event, Some(on_child)) };
}

/// # Safety
/// Called by the server only.
unsafe extern "C" fn on_child(
    _context: Context,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    _data: *mut std::ffi::c_void,
) {
    let is_born = subevent == raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN;
    HAS_CHILD.store(is_born, Relaxed);
    if !is_born {
        CHILDREN_ENDED.fetch_add(1, Relaxed);
    }
}

/// How far the arrays of one filter are in large pages; nothing for filters without large arrays.
#[derive(Default)]
pub(super) struct LargePages(Option<Box<State>>);

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
    pub(super) fn of(filter: &Filter) -> Self {
        let large_bytes: u64 = large_arrays(filter).map(|array| array.size_bytes()).sum();
        if large_bytes == 0 || !block::is_possible() {
            return Self(None);
        }
        let mut state = Box::new(State {
            rest_items: large_bytes / PAGE_BYTES * ITEMS_PER_PAGE,
            children_ended: CHILDREN_ENDED.load(Relaxed),
            pass: None,
            is_advised: false,
        });
        if filter.items() > 0 {
            state.look(filter);
        }
        Self(Some(state))
    }

    /// The filter took items by a command; a look may be due. Cheap where none is.
    #[inline(always)]
    pub(super) fn after_items(&mut self, filter: &Filter, items: u64) {
        if let Self(Some(state)) = self {
            state.after_items(filter, items);
        }
    }

    /// The filter took bytes of a dump.
    pub(super) fn after_bytes(&mut self, filter: &Filter) {
        if let Self(Some(state)) = self {
            // What the look that is under way has seen may have changed since, and nothing may come that asks for another.
            state.cancel();
            state.look(filter);
        }
    }

    /// The filter gained an array.
    pub(super) fn after_growth(&mut self, filter: &Filter) {
        match self {
            Self(None) => *self = Self::of(filter),
            Self(Some(state)) => state.rest_items = state.rest_items.min(filter.items()),
        }
    }

    /// Takes back what the system was told, for whoever gets the memory next.
    pub(super) fn undo(&mut self, filter: &Filter) {
        if let Self(Some(state)) = self {
            state.undo(filter);
        }
    }
}

impl State {
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
                let blocks = large_arrays(filter).map(|bits| block::whole_blocks(bits.words())).collect();
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
                        // A system that has no large page at hand, cannot join on request, or was told not to for whoever
                        // had this memory before: it joins by and by where it is told to. Only whole arrays are named: each
                        // range that is named is a mapping of its own, of which a process has a limited number.
                        self.is_advised = true;
                        large_arrays(filter)
                            .for_each(|bits| block::advise(bits.words(), libc::MADV_HUGEPAGE));
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
            large_arrays(filter).for_each(|bits| block::advise(bits.words(), libc::MADV_NOHUGEPAGE));
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.cancel();
    }
}

fn large_arrays(filter: &Filter) -> impl Iterator<Item = &dyn Storage> {
    filter.storages().filter(|bits| size_of_val(bits.words()) >= block::ARRAY_MIN_BYTES)
}
