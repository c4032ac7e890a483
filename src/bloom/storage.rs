//! What a placement probes: the memory of one layer, whatever its cells are.

use std::fmt::Debug;
use std::ops::Range;

use super::memory::{Memory, OutOfMemory};

/// The memory of one layer, in cells of a bit or more; only its own placements know the cells.
///
/// Everything here is off the path of a command that asks or adds: it saves, copies, measures and moves.
pub trait Storage: Debug {
    /// One whose cells are all clear, of `size_bits` bits, with or without room for a head in front
    /// ([`Bits`](super::Bits)); zeroed lazily.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the allocator refuses; nothing is allocated then.
    fn try_empty(size_bits: u64, has_head: bool) -> Result<Self, OutOfMemory>
    where
        Self: Sized;

    /// A copy with its own memory.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the allocator refuses.
    fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory>
    where
        Self: Sized;

    /// Bits of all cells. O(1).
    fn size_bits(&self) -> u64;

    /// Bytes of all cells, as [`bytes`](Self::bytes) shows them. O(1).
    fn size_bytes(&self) -> u64 {
        self.size_bits().div_ceil(8)
    }

    /// Whether there is room for a head in front. O(1).
    fn has_head(&self) -> bool {
        self.allocation().len() > self.words().len()
    }

    /// Cells that are not clear; where a cell is a bit, the set ones. O(1).
    fn set_bits(&self) -> u64;

    /// A number that tells apart all states that this memory ever goes through. O(1).
    fn state(&self) -> u64;

    /// The [state](Self::state) of one with so many cells that are not clear, filled from nothing, where that tells it.
    #[must_use]
    fn state_of(set_bits: u64) -> Option<u64>
    where
        Self: Sized;

    /// Cells that are not clear whose first bit lies in these words. Over all words that is [`set_bits`](Self::set_bits),
    /// and where it is, whole blocks of 64 KiB without such a cell are clear. O(words).
    fn set_cells_in(&self, words: Range<usize>) -> u64;

    /// Sets what is set in `data`, whose first byte stands for byte `offset` of the cells; what is set already stays so.
    /// Answers false, changing nothing, when the data do not fit or are not such cells. O(bytes).
    #[must_use]
    fn add_bytes(&mut self, offset: usize, data: &[u8]) -> bool;

    /// The cells as words; what is in the last one beyond the end is clear.
    fn words(&self) -> &[u64];

    /// The cells as bytes, in the order in which they are saved.
    fn bytes(&self) -> &[u8];

    /// The whole block of the allocator, a head included.
    fn allocation(&self) -> &[u64];

    /// Lets `relocate` move the block, as active defragmentation does; it must give back the same words.
    fn relocate(&mut self, relocate: &mut dyn FnMut(Box<[u64]>) -> Box<[u64]>);
}
