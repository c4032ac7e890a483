//! The background thread that collapses pages. A call to the system takes milliseconds, most of it spent waiting for all
//! processors, so no command does it.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::children::HAS_CHILD;
use crate::redis::worker::Worker;

/// Bytes of a large page.
const PAGE_BYTES: usize = 2 << 20;
/// Bytes that one call collapses: each call waits for all processors once.
const STEP_BYTES: usize = 8 * PAGE_BYTES;
/// The rest after a call, in times of its duration.
const REST: u32 = 2;
/// How often the thread checks whether a child has ended.
const CHILD_PERIOD: Duration = Duration::from_millis(20);
/// Requests that may wait.
const WAITING_MAX: usize = 1 << 14;

/// The addresses to collapse, in the steps of the thread. Dropping it cancels the steps that have not begun.
pub(super) type Request = Arc<Vec<Range<usize>>>;

static COLLAPSER: Worker<Weak<Vec<Range<usize>>>> = Worker::new("bf-pages", WAITING_MAX, collapse);

/// Requests to collapse the whole large pages that lie in some arrays. Returns `None` where the thread cannot be
/// started or too many requests wait.
pub(super) fn request<'a>(arrays: impl Iterator<Item = &'a [u64]>) -> Option<Request> {
    let request = Arc::new(arrays.flat_map(steps).collect());
    COLLAPSER.queue(Arc::downgrade(&request)).is_none().then_some(request)
}

/// Returns the addresses of the whole large pages that lie in an array, in steps.
fn steps(words: &[u64]) -> impl Iterator<Item = Range<usize>> + use<> {
    let start = words.as_ptr().addr();
    let end = start.saturating_add(size_of_val(words)) / PAGE_BYTES * PAGE_BYTES;
    let starts = (start.next_multiple_of(PAGE_BYTES)..end).step_by(STEP_BYTES);
    starts.map(move |start| start..start.saturating_add(STEP_BYTES).min(end))
}

/// Collapses the pages of each step of a request, while it is not dropped and no child runs. Steps that the system
/// refuses keep their small pages until the next request.
fn collapse(request: Weak<Vec<Range<usize>>>) {
    /// Linux 6.1; include/uapi/asm-generic/mman-common.h.
    const MADV_COLLAPSE: i32 = 25;
    for index in 0.. {
        while HAS_CHILD.load(Relaxed) {
            thread::sleep(CHILD_PERIOD);
        }
        let Some(step) = request.upgrade().and_then(|steps| steps.get(index).cloned()) else { return };
        let begun = Instant::now();
        let start = std::ptr::with_exposed_provenance_mut(step.start);
        // SAFETY: the advice changes neither what memory holds nor what may be done with it, so the array may have
        // been freed meanwhile; the system refuses addresses without memory.
        unsafe { libc::madvise(start, step.len(), MADV_COLLAPSE) };
        thread::sleep(begun.elapsed().saturating_mul(REST));
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
