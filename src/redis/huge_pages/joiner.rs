//! The thread that joins pages. Joining 2 MiB takes a millisecond or several, most of it waiting for all
//! processors, which no command should wait for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::block::{self, BLOCK_BYTES, Blocks};
use super::children::HAS_CHILD;
use crate::redis::pagemap::Pagemap;

/// Small pages of a large one.
const BLOCK_PAGES: usize = BLOCK_BYTES / 4096;
/// Small pages that must have been written to before they are joined: nine of ten.
const BLOCK_MIN_PAGES: usize = BLOCK_PAGES / 10 * 9;
/// Large pages that are joined in one call: each call waits for all processors once.
const RUN_BLOCKS: usize = 8;
/// After a call the thread rests this many times as long as it took.
const REST: u32 = 2;
/// Passes that may wait; what does not fit is asked for again later.
const WAITING_MAX: usize = 1024;
/// How often the thread looks whether a child has ended.
const CHILD_PERIOD: Duration = Duration::from_millis(20);
/// Bytes of the thread's stack.
const STACK_BYTES: usize = 256 << 10;

/// A walk over all blocks of the large arrays of one filter.
pub(super) struct Pass {
    arrays: Vec<Blocks>,
    blocks: AtomicUsize,
    skipped: AtomicUsize,
    was_refused: AtomicBool,
    is_done: AtomicBool,
    /// The arrays are gone. What the thread does with their addresses until it notices is harmless.
    is_cancelled: AtomicBool,
}

/// What came of a pass.
#[derive(Clone, Copy)]
pub(super) struct Outcome {
    blocks: usize,
    /// Blocks of which too little has been written to.
    skipped: usize,
    /// Whether the system would not join a block.
    pub(super) was_refused: bool,
}

impl Outcome {
    /// Whether all blocks are joined.
    pub(super) fn is_complete(self) -> bool {
        self.skipped == 0 && !self.was_refused
    }

    /// Whether nearly all blocks have been written to.
    pub(super) fn is_dense(self) -> bool {
        self.skipped <= self.blocks / 10
    }
}

/// The passes that wait. Not a channel of the standard library: those ask for alignments that no server's
/// allocator has.
static WAITING: Mutex<VecDeque<Arc<Pass>>> = Mutex::new(VecDeque::new());
/// Told of every pass that was put there.
static HAS_WAITING: Condvar = Condvar::new();

/// Hands a pass to the thread; nothing where that cannot be had, or has too much to do.
pub(super) fn begin(arrays: Vec<Blocks>) -> Option<Arc<Pass>> {
    static HAS_THREAD: OnceLock<bool> = OnceLock::new();
    let has_thread = HAS_THREAD.get_or_init(|| {
        let builder = thread::Builder::new().name("bf-pages".to_owned()).stack_size(STACK_BYTES);
        builder.spawn(run).is_ok()
    });
    let pass = Arc::new(Pass {
        arrays,
        blocks: AtomicUsize::new(0),
        skipped: AtomicUsize::new(0),
        was_refused: AtomicBool::new(false),
        is_done: AtomicBool::new(false),
        is_cancelled: AtomicBool::new(false),
    });
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    if !has_thread || waiting.len() >= WAITING_MAX || waiting.try_reserve(1).is_err() {
        return None;
    }
    waiting.push_back(Arc::clone(&pass));
    HAS_WAITING.notify_one();
    Some(pass)
}

/// The thread.
fn run() {
    loop {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let pass = loop {
            match waiting.pop_front() {
                Some(pass) => break pass,
                None => waiting = HAS_WAITING.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(waiting);
        pass.walk();
        pass.is_done.store(true, Ordering::Release);
    }
}

impl Pass {
    /// What came of it, once it is done.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        self.is_done.load(Ordering::Acquire).then(|| Outcome {
            blocks: self.blocks.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
            was_refused: self.was_refused.load(Ordering::Relaxed),
        })
    }

    /// Ends it early.
    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    fn walk(&self) {
        for array in &self.arrays {
            let mut run = array.start..array.start;
            for start in array.clone().step_by(BLOCK_BYTES) {
                let block = start..start.saturating_add(BLOCK_BYTES);
                if self.is_written(&block) {
                    run.end = block.end;
                } else {
                    self.join(&run);
                    run = block.end..block.end;
                }
                if run.len() >= RUN_BLOCKS * BLOCK_BYTES {
                    self.join(&run);
                    run = run.end..run.end;
                }
                if self.is_cancelled.load(Ordering::Relaxed) {
                    return;
                }
            }
            self.join(&run);
        }
    }

    /// Whether nearly all of a block has been written to.
    fn is_written(&self, block: &Blocks) -> bool {
        // A child has its own claim to every page until it ends.
        while HAS_CHILD.load(Ordering::Relaxed) && !self.is_cancelled.load(Ordering::Relaxed) {
            thread::sleep(CHILD_PERIOD);
        }
        self.blocks.fetch_add(1, Ordering::Relaxed);
        let pages = Pagemap::open().and_then(|pagemap| pagemap.own_pages(block.clone()));
        let is_written = pages.is_some_and(|pages| pages >= BLOCK_MIN_PAGES);
        if !is_written {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
        is_written
    }

    fn join(&self, run: &Blocks) {
        if run.is_empty() {
            return;
        }
        let begun = Instant::now();
        if !block::join(run) {
            self.was_refused.store(true, Ordering::Relaxed);
        }
        thread::sleep(begun.elapsed().saturating_mul(REST));
    }
}
