//! The largest block of memory that a thread asked for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, watched.
pub struct Watched;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// Runs `action`. Returns the size of its largest allocation, in bytes.
pub fn largest_allocation<T>(action: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.set(0);
    let result = action();
    (result, LARGEST.get())
}

fn note(layout: Layout) {
    // Fails only while a thread ends.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
}

// SAFETY: every call goes on to the system's allocator as it came; noting a number allocates nothing.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout);
        // SAFETY: the caller's promise is the callee's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout);
        // SAFETY: the caller's promise is the callee's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from the system's allocator, as every one of ours.
        unsafe { System.dealloc(pointer, layout) }
    }
}
