//! An allocator that fails the allocations that a test selects, and counts the bytes that were not freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;

use crate::support::world::Refusing;

/// The smallest allocation that can fail. Smaller allocations are for structs, names and lists, which Rust's
/// collections allocate infallibly. Their number is limited by the bytes of a command or the layers of a filter. In
/// these tests, all allocations whose size depends on an argument or a filter are larger.
pub(crate) const SIZED_MIN_BYTES: usize = 4096;

/// The largest alignment of blocks in the module. Its allocator refuses others.
const ALIGN_MAX_BYTES: usize = 8;

pub(crate) struct Starving;

/// The memory of this program, for a simulated deployment.
pub(crate) const REFUSING: Refusing = Refusing { refuse, relent, watch };

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    /// Number of large allocations until one fails; negative if none fails.
    static LEFT: Cell<i64> = const { Cell::new(-1) };
    static REFUSED: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
}

/// Starts and ends the period in which allocations of this thread may fail.
pub(crate) fn watch(is_watched: bool) {
    IS_WATCHED.set(is_watched);
}

/// Makes the large allocation with this number, from 0, fail.
pub(crate) fn refuse(number: i64) {
    LEFT.set(number);
    REFUSED.set(0);
}

/// Stops failing allocations, and returns how many have failed.
pub(crate) fn relent() -> u64 {
    LEFT.set(-1);
    REFUSED.take()
}

/// Returns the bytes that this thread has allocated and not freed.
pub(crate) fn live_bytes() -> i64 {
    LIVE_BYTES.get()
}

fn is_refused(layout: Layout) -> bool {
    if !IS_WATCHED.try_with(Cell::get).unwrap_or(false) {
        return false;
    }
    if layout.align() > ALIGN_MAX_BYTES {
        return true;
    }
    if layout.size() < SIZED_MIN_BYTES {
        return false;
    }
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(1).max(-1));
    if left == 0 {
        REFUSED.set(REFUSED.get() + 1);
    }
    left == 0
}

fn count(bytes: i64) {
    // Access to the thread-local value fails only while a thread ends.
    let _ = LIVE_BYTES.try_with(|live| live.set(live.get() + bytes));
}

fn counted(block: *mut u8, layout: Layout) -> *mut u8 {
    if !block.is_null() {
        count(layout.size() as i64);
    }
    block
}

// SAFETY: allocations that do not fail are passed unchanged to the system's allocator, and failing with a null
// pointer is allowed; counting allocates nothing.
unsafe impl GlobalAlloc for Starving {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout) {
            return ptr::null_mut();
        }
        // SAFETY: by the caller's contract, which is the same.
        counted(unsafe { System.alloc(layout) }, layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout) {
            return ptr::null_mut();
        }
        // SAFETY: by the caller's contract, which is the same.
        counted(unsafe { System.alloc_zeroed(layout) }, layout)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the pointer came from the system's allocator, as all of them do.
        unsafe { System.dealloc(pointer, layout) }
    }
}
