//! An allocator that fails the allocations a test names, and counts those that were not freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;

/// Allocations of fewer bytes are never refused: they are structs, names and lists, whose number is bounded by the bytes
/// of a command or by the layers of a filter, and which Rust's own collections take without asking whether they can be
/// had. What an argument or a filter sizes is larger here.
pub(crate) const SIZED_MIN_BYTES: usize = 4096;

pub(crate) struct Starving;

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    /// Large allocations until one is refused; negative where none is.
    static LEFT: Cell<i64> = const { Cell::new(-1) };
    static REFUSED: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
}

/// Begins and ends the time in which allocations of this thread are refused.
pub(crate) fn watch(is_watched: bool) {
    IS_WATCHED.set(is_watched);
}

/// The large allocation of that number, from 0, is refused.
pub(crate) fn refuse(number: i64) {
    LEFT.set(number);
    REFUSED.set(0);
}

/// Refuses nothing any more, and says how often something was refused.
pub(crate) fn relent() -> u64 {
    LEFT.set(-1);
    REFUSED.take()
}

/// Bytes that this thread has taken and not given back.
pub(crate) fn live_bytes() -> i64 {
    LIVE_BYTES.get()
}

fn is_refused(size: usize) -> bool {
    if size < SIZED_MIN_BYTES || !IS_WATCHED.try_with(Cell::get).unwrap_or(false) {
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
    // Fails only while a thread ends.
    let _ = LIVE_BYTES.try_with(|live| live.set(live.get() + bytes));
}

fn counted(block: *mut u8, layout: Layout) -> *mut u8 {
    if !block.is_null() {
        count(layout.size() as i64);
    }
    block
}

// SAFETY: what is not refused goes on to the system's allocator as it came, and refusing with a null pointer is allowed;
// counting allocates nothing.
unsafe impl GlobalAlloc for Starving {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise is the callee's.
        counted(unsafe { System.alloc(layout) }, layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise is the callee's.
        counted(unsafe { System.alloc_zeroed(layout) }, layout)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the pointer came from the system's allocator, as every one of ours.
        unsafe { System.dealloc(pointer, layout) }
    }
}
