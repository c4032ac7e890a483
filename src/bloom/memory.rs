//! The memory behind a bit array: that there may be none, and what somebody knows of it. The host asks the
//! system; tests and libraries know nothing.

use std::fmt;
use std::ops::Range;

/// The allocator had no room for an array of the asked size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

impl std::error::Error for OutOfMemory {}

/// Knows which memory was ever written to.
pub trait Memory: Copy {
    /// Shows `visit` the parts of `words`, by index and in order, that may hold anything but zeros. Only a
    /// hint: it is counted before it is believed. O(pages).
    fn written_parts(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>));
}

/// Knows nothing: any part may have been written to.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnknownMemory;

impl Memory for UnknownMemory {
    fn written_parts(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>)) {
        visit(0..words.len());
    }
}
