//! The commands that make a filter again, as an append-only file holds them after a rewrite without a
//! snapshot in front.

use super::arrays::{Arrays, chunks};
use super::pieces::{HEADER_ITERATOR, iterator_after};
use super::seal::Sealer;
use crate::bloom::{Memory, OutOfMemory, StateMark, hash128};

/// One command of a rewritten file, without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewritten<'d> {
    /// BF.LOADCHUNK.
    Piece {
        /// Its iterator.
        iterator: u64,
        /// Its bytes.
        data: &'d [u8],
    },
    /// BF.LOAD, of valkey-bloom's filters.
    Blob(
        /// Its bytes.
        &'d [u8],
    ),
}

/// Shows `emit` pieces with our seal that make the filter again. The header makes arrays of clear bits, so
/// clear chunks are left out. They share a mark that is made of the header and of `fresh`, a number that no
/// other rewriting has: so a client that sends the file to another server may send what the header and the
/// chunks of one filter are, and nothing else. O(bytes that may be set, as far as is known).
///
/// # Errors
/// [`OutOfMemory`] when a piece cannot be had; a part may have been shown then.
pub(super) fn in_pieces<A: Arrays>(
    header: &[u8],
    arrays: &A,
    memory: impl Memory,
    fresh: u64,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    let mut sealer = Sealer::default();
    let mark = mark_of(header, fresh);
    let data = sealer.header(header, mark)?;
    emit(Rewritten::Piece { iterator: HEADER_ITERATOR, data });
    for (chunk, is_clear) in chunks(arrays, memory) {
        if !is_clear {
            let data = sealer.chunk(&chunk, |_| {}, mark)?;
            emit(Rewritten::Piece { iterator: iterator_after(chunk.end()), data });
        }
    }
    Ok(())
}

/// A mark that is not 0, which stands for none. A child of the server may draw the numbers that the server itself
/// draws for its next dumps; hashed they are others.
fn mark_of(header: &[u8], fresh: u64) -> StateMark {
    hash128(header).h1.wrapping_add(hash128(&fresh.to_le_bytes()).h2).max(1)
}
