//! What somebody knows of the memory behind a bit array: the host asks the system, tests and libraries know nothing.

use std::ops::Range;

/// Knows which memory was ever written to.
pub trait Memory: Copy {
    /// Shows `visit` the parts of `words`, by index and in order, that may hold anything but zeros. Only a hint: it is
    /// counted before it is believed. O(pages).
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
