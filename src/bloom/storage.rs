//! What a placement probes: the memory of one layer, whatever its cells are.

use std::fmt::Debug;
use std::ops::Range;

use super::memory::{Memory, OutOfMemory};

/// Consecutive cells of a storage, as a string of a snapshot or a chunk of a dump holds them.
#[derive(Clone, Debug)]
pub struct Segment<'s> {
    /// Where it begins, in bytes from the start of the storage's first segment.
    pub offset: usize,
    /// Where its cells lie among the [bytes](Storage::bytes) of the storage.
    pub range: Range<usize>,
    /// Its cells.
    pub cells: &'s [u8],
    /// Words of 64 bits that belong to the cells and lie elsewhere: the stamps of pages. Empty in most storages.
    pub stamps: &'s [u8],
}

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

    /// Returns the segment that begins at byte `offset`, or before it where none can begin there, of at most `most_bytes`
    /// with its stamps; `None` past the end. O(1).
    fn segment(&self, offset: usize, most_bytes: usize) -> Option<Segment<'_>> {
        let rest = self.bytes().get(offset..)?;
        let cells = rest.get(..most_bytes.min(rest.len())).filter(|cells| !cells.is_empty())?;
        Some(Segment { offset, range: offset..offset.saturating_add(cells.len()), cells, stamps: &[] })
    }

    /// Returns how many bytes of stamps end a segment of `segment_bytes`. O(1).
    fn stamp_bytes(&self, _segment_bytes: usize) -> usize {
        0
    }

    /// Adds a segment that begins at byte `offset`: sets what is set in it and clears nothing that is alive. Cells or stamps
    /// that are all clear may be empty. Returns false, changing nothing, when the segment does not fit or cannot be one of such
    /// a storage. O(bytes).
    #[must_use]
    fn add_segment(&mut self, offset: usize, cells: &[u8], stamps: &[u8]) -> bool;

    /// Remembers the state of now as the one that the header of a dump describes. O(1).
    fn begin_dump(&mut self) {}

    /// Takes out of a segment, its stamps behind its cells, what is newer than the header of the last dump says. O(bytes).
    fn cut_to_dump(&self, _segment: &mut [u8]) {}

    /// Returns the first rule that the cells break, apart from their number; `None` where they can be such cells. O(bytes).
    fn broken_rule(&self) -> Option<&'static str> {
        None
    }

    /// The cells as words; what is in the last one beyond the end is clear.
    fn words(&self) -> &[u64];

    /// The cells as bytes, in the order in which they are saved.
    fn bytes(&self) -> &[u8];

    /// The whole block of the allocator, a head included.
    fn allocation(&self) -> &[u64];

    /// Lets `relocate` move the block, as active defragmentation does; it must give back the same words.
    fn relocate(&mut self, relocate: &mut dyn FnMut(Box<[u64]>) -> Box<[u64]>);
}
