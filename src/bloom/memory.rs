//! The memory of a filter: its blocks, which can be measured or moved, the parts that were written to, and out of
//! memory.

use std::ops::Range;

use thiserror::Error;

/// An allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("out of memory")]
pub struct OutOfMemory;

/// Information about memory. The server queries the system; tests and the library have none.
pub trait Memory: Copy {
    /// Calls `visit` with the parts of `words`, by index and in order, that may contain anything but zeros. This is a
    /// hint: callers count the set bits of these parts to check it. O(pages).
    fn written_parts(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>));
}

/// No information: any part may have been written to.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnknownMemory;

impl Memory for UnknownMemory {
    fn written_parts(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>)) {
        visit(0..words.len());
    }
}

/// A visitor of blocks of the allocator.
/// [`Filter::visit_blocks`](crate::bloom::Filter::visit_blocks) guarantees that each is a whole block, from its
/// first byte on, and still allocated. So a visitor may query the allocator for its size, which is unsound for
/// anything else.
pub trait BlockVisitor {
    /// Visits one block, by its content; empty if there is no block.
    fn visit<T>(&mut self, block: &[T]);
}

/// Moves blocks of the allocator, for active defragmentation. The values in a block must not change.
pub trait BlockMover {
    /// Moves the block of a vector.
    fn move_vec<T>(&self, values: &mut Vec<T>);

    /// Moves the block of a box.
    fn move_box<T>(&self, value: &mut Box<T>);
}
