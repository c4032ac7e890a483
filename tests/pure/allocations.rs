//! Measures the largest allocation of a thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a record of the largest allocation.
pub struct Watched;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// Runs `action`. Returns its result and the size of its largest allocation, in bytes.
pub fn largest_allocation<T>(action: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.set(0);
    let result = action();
    (result, LARGEST.get())
}

fn note(layout: Layout) {
    // Access to the thread-local value fails only while a thread ends.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
}

// SAFETY: every call is passed unchanged to the system's allocator; recording a number allocates nothing.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout);
        // SAFETY: by the caller's contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout);
        // SAFETY: by the caller's contract, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from the system's allocator, as all of them do.
        unsafe { System.dealloc(pointer, layout) }
    }
}
