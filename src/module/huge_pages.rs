//! Huge pages of 2 MiB for large bit arrays (`bf.huge-pages`). The segments of a table are too small for them.
//!
//! Huge pages make probes of a large array and forks faster. To collapse an array is to replace its pages of 4 KiB by
//! huge pages. The system keeps all 2 MiB of a huge page in memory, so an array is collapsed only when nearly all of
//! its pages have been written to. A background thread collapses arrays. After a child of the server has ended, they
//! are collapsed again, because the system splits huge pages that are written to while a child shares them.
//! docs/decisions/0009 has the measurements.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

use redis_module::raw;

use super::api::{Context, server_flags, subscribe};
use super::config;
use everbloom_filter::{BitArray, Filter, Layer, try_collect};

/// The smallest array that is collapsed. Its first block contains a whole huge page, wherever it begins.
const ARRAY_MIN_BYTES: u64 = 4 << 20;
/// An array is collapsed only if it has a set bit per this number of bytes: 64 set bits per page of 4 KiB. If an item
/// sets up to 20 bits, 95 % of the pages have been written to then.
const BYTES_PER_SET_BIT: u64 = 64;
/// The next request is due after a quarter more items, but not before there is one new item per this number of bytes of
/// large arrays: three items per page of 4 KiB.
const BYTES_PER_ITEM: u64 = 4096 / 3;

/// The state of a filter with large arrays; `None` for other filters.
#[derive(Default)]
pub(super) struct LargePages(Option<LargeArrays>);

#[derive(Default)]
struct LargeArrays {
    /// Items until the next request is due.
    rest_items: u64,
    /// The value of [`CHILDREN_ENDED`] at the last request.
    children_ended: u32,
    /// The last request.
    request: Option<CollapseRequest>,
}

impl LargePages {
    /// Counts new items of a command, and requests to collapse the arrays if a request is due. O(1) if none is due.
    #[inline(always)]
    pub(super) fn after_items(&mut self, filter: &Filter, items: u64) {
        if let Self(Some(state)) = self {
            state.after_items(filter, items);
        }
    }

    /// Requests to collapse the arrays after bits were set without a count of new items.
    pub(super) fn after_bytes(&mut self, filter: &Filter) {
        if let Self(Some(state)) = self {
            state.collapse(filter);
        }
    }

    /// Begins to count items of a filter with large arrays, empty or not, if it had none before.
    pub(super) fn after_growth(&mut self, filter: &Filter) {
        if self.0.is_none() {
            self.0.get_or_insert_default().collapse(filter);
        }
    }
}

impl LargeArrays {
    fn after_items(&mut self, filter: &Filter, items: u64) {
        self.rest_items = self.rest_items.saturating_sub(items);
        if self.rest_items == 0 || self.children_ended != CHILDREN_ENDED.load(Relaxed) {
            self.collapse(filter);
        }
    }

    /// Requests to collapse all arrays with enough set bits, and drops the last request. Requests are for whole arrays,
    /// because pages that are collapsed already take less than a millisecond per GB.
    #[cold]
    fn collapse(&mut self, filter: &Filter) {
        self.children_ended = CHILDREN_ENDED.load(Relaxed);
        let size_bytes: u64 = large_arrays(filter).map(BitArray::size_bytes).sum();
        self.rest_items = (filter.items() / 4).max(size_bytes / BYTES_PER_ITEM);
        self.request = None;
        let mut used = large_arrays(filter)
            .filter(|bits| bits.set_bits() >= bits.size_bytes() / BYTES_PER_SET_BIT)
            .flat_map(BitArray::pieces)
            .peekable();
        if used.peek().is_some() && is_allowed() {
            self.request = request(used);
        }
    }
}

/// Returns whether the settings and the system allow huge pages.
fn is_allowed() -> bool {
    const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    config::huge_pages_wanted()
        && std::fs::read_to_string(SETTING).is_ok_and(|text| !text.contains("[never]"))
}

/// Returns whether a filter has arrays that are large enough to be collapsed.
pub(super) fn has_large_arrays(filter: &Filter) -> bool {
    large_arrays(filter).next().is_some()
}

/// Returns the arrays that are large enough to be collapsed.
fn large_arrays(filter: &Filter) -> impl Iterator<Item = &BitArray> {
    filter.layers().iter().map(Layer::bits).filter(|bits| bits.size_bytes() >= ARRAY_MIN_BYTES)
}

/// Bytes of a huge page.
const PAGE_BYTES: usize = 2 << 20;
/// Bytes that one call collapses. Each call waits for all processors once.
const STEP_BYTES: usize = 8 * PAGE_BYTES;
/// The pause after a call, as a multiple of its duration.
const REST: u32 = 2;
/// How often the thread checks whether a child has ended.
const CHILD_PERIOD: Duration = Duration::from_millis(20);
/// Most requests in the queue.
const WAITING_MAX: usize = 1 << 14;

/// The addresses to collapse, in steps of the thread. Dropping the request cancels the steps that have not begun.
type CollapseRequest = Arc<Vec<Range<usize>>>;

/// The requests for the thread. This is not a channel of the standard library, because a channel needs a larger
/// alignment than the server's allocators have.
static REQUESTS: Mutex<VecDeque<Weak<Vec<Range<usize>>>>> = Mutex::new(VecDeque::new());
/// Notified of every new request.
static HAS_REQUEST: Condvar = Condvar::new();
/// Whether the thread runs. It is started for the first request.
static HAS_THREAD: OnceLock<bool> = OnceLock::new();

/// Requests to collapse the whole huge pages in some arrays. Returns `None` if the thread cannot be started, if too many
/// requests are queued, or if there is no memory for the request.
fn request<'a>(arrays: impl Iterator<Item = &'a [u64]>) -> Option<CollapseRequest> {
    let request = Arc::new(try_collect(arrays.flat_map(steps)).ok()?);
    let has_thread = HAS_THREAD.get_or_init(|| spawn("bf-pages", collapse_all).is_ok());
    let mut requests = REQUESTS.lock().unwrap_or_else(PoisonError::into_inner);
    if !has_thread || requests.len() >= WAITING_MAX || requests.try_reserve(1).is_err() {
        return None;
    }
    requests.push_back(Arc::downgrade(&request));
    HAS_REQUEST.notify_one();
    Some(request)
}

/// Starts a background thread.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    const STACK_BYTES: usize = 256 << 10;
    thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(body).map(drop)
}

/// Serves the requests one after the other.
fn collapse_all() {
    loop {
        let requests = REQUESTS.lock().unwrap_or_else(PoisonError::into_inner);
        let has_none = |requests: &mut VecDeque<_>| requests.is_empty();
        let mut requests = HAS_REQUEST.wait_while(requests, has_none).unwrap_or_else(PoisonError::into_inner);
        let request = requests.pop_front().unwrap_or_default();
        drop(requests);
        collapse(&request);
    }
}

/// Returns the addresses of the whole huge pages in an array, in steps.
fn steps(words: &[u64]) -> impl Iterator<Item = Range<usize>> + use<> {
    let start = words.as_ptr().addr();
    let end = start.saturating_add(size_of_val(words)) / PAGE_BYTES * PAGE_BYTES;
    let starts = (start.next_multiple_of(PAGE_BYTES)..end).step_by(STEP_BYTES);
    starts.map(move |start| start..start.saturating_add(STEP_BYTES).min(end))
}

/// Collapses the pages of each step of a request, until the request is dropped or a child runs. Pages that the system
/// refuses to collapse stay small until the next request.
fn collapse(request: &Weak<Vec<Range<usize>>>) {
    /// Linux 6.1; include/uapi/asm-generic/mman-common.h.
    const MADV_COLLAPSE: i32 = 25;
    for index in 0.. {
        while HAS_CHILD.load(Relaxed) {
            thread::sleep(CHILD_PERIOD);
        }
        let Some(step) = request.upgrade().and_then(|steps| steps.get(index).cloned()) else { return };
        let begun = Instant::now();
        let start = std::ptr::with_exposed_provenance_mut(step.start);
        // SAFETY: the advice changes neither the content of memory nor the access to it. So it is harmless if the array
        // has been freed meanwhile. The system refuses addresses without memory.
        unsafe { libc::madvise(start, step.len(), MADV_COLLAPSE) };
        thread::sleep(begun.elapsed().saturating_mul(REST));
    }
}

/// The number of children that have ended. The system may have split huge pages while a child shared them.
static CHILDREN_ENDED: AtomicU32 = AtomicU32::new(0);
/// Whether a child that saves is running. Collapsing a page that it shares would copy the page.
static HAS_CHILD: AtomicBool = AtomicBool::new(false);

/// Subscribes to the server's events about its children.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn watch(context: Context) {
    // SAFETY: the context is OnLoad's by the caller's contract, and this is a callback of such events.
    unsafe { subscribe(context, raw::REDISMODULE_EVENT_FORK_CHILD, Some(on_child)) };
}

/// # Safety
/// Called by the server only.
unsafe extern "C" fn on_child(
    _context: Context,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    // The server's flags are used because the subevent is not enough. The child of a script debugger has an event for
    // its start and none for its end.
    HAS_CHILD.store(server_flags() & raw::REDISMODULE_CTX_FLAGS_ACTIVE_CHILD != 0, Relaxed);
    if subevent == raw::REDISMODULE_SUBEVENT_FORK_CHILD_DIED {
        CHILDREN_ENDED.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_cover_the_whole_large_pages_of_an_array() {
        let words = vec![0u64; (STEP_BYTES + PAGE_BYTES * 5 + 4096) / 8];
        for from in [0, 1, 511, 512, PAGE_BYTES / 8 - 1] {
            let words = &words[from..];
            let bytes = words.as_ptr_range();
            let steps: Vec<_> = steps(words).collect();
            assert!(
                steps.iter().flat_map(|step| [step.start, step.end]).all(|at| at.is_multiple_of(PAGE_BYTES))
            );
            assert!(steps.windows(2).all(|pair| pair[0].end == pair[1].start));
            let (first, last) = (steps[0].start, steps[steps.len() - 1].end);
            assert!((bytes.start.addr()..bytes.start.addr() + PAGE_BYTES).contains(&first));
            assert!((last..last + PAGE_BYTES).contains(&bytes.end.addr()));
        }
        assert_eq!(steps(&words[..100]).count() + steps(&[]).count(), 0);
    }
}
