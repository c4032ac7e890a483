//! The memory of a filter: allocated blocks, which can be measured or moved; parts that were written to; and the error
//! when memory runs out.

use std::ops::Range;

use thiserror::Error;

/// An allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("out of memory")]
pub struct OutOfMemory;

/// Returns the items in a list.
///
/// # Errors
/// [`OutOfMemory`].
pub fn try_collect<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>, OutOfMemory> {
    let mut list = Vec::new();
    for item in items {
        list.try_reserve(1).map_err(|_| OutOfMemory)?;
        list.push(item);
    }
    Ok(list)
}

/// Information about memory. The server queries the system; tests and the library have none.
pub trait Memory: Copy {
    /// Calls `visit` with the ranges of `words` that may have set bits, in order. The ranges are a hint: to check it,
    /// callers count the set bits in these ranges. O(pages).
    fn written_ranges(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>));
}

/// No information: any part may have been written to.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnknownMemory;

impl Memory for UnknownMemory {
    fn written_ranges(self, words: &[u64], visit: &mut dyn FnMut(Range<usize>)) {
        visit(0..words.len());
    }
}

/// A value whose blocks of the allocator can be measured and moved.
pub trait Blocks {
    /// Visits the blocks that the value owns, but not the one that the value is in. O(blocks).
    fn visit_blocks(&self, visitor: &mut impl BlockVisitor);

    /// Returns the number of large blocks, which [`move_block`](Self::move_block) moves: bits, segments and arrays.
    fn block_count(&self) -> usize;

    /// Moves all other blocks. O(blocks).
    fn move_structs(&mut self, mover: &impl BlockMover);

    /// Moves large block `number`, if it has memory.
    fn move_block(&mut self, number: usize, mover: &impl BlockMover);
}

/// A visitor of blocks of the allocator. [`Blocks::visit_blocks`] guarantees that each visited block is a whole block,
/// from its first byte on, and still allocated. So a visitor may query the allocator for the size of a block, which is
/// unsound for any other memory.
pub trait BlockVisitor {
    /// Visits one block. `block` is its content; it is empty if nothing is allocated.
    fn visit<T>(&mut self, block: &[T]);
}

/// Moves blocks of the allocator, for active defragmentation. The values in a block must not change.
pub trait BlockMover {
    /// Moves the block of a vector.
    fn move_vec<T>(&self, values: &mut Vec<T>);

    /// Moves the block of a box.
    fn move_box<T>(&self, value: &mut Box<T>);
}
