//! The commands that make a filter again, as an append-only file holds them after a rewrite without a
//! snapshot in front.

use super::arrays::{Arrays, chunks};
use super::pieces::{HEADER_ITERATOR, iterator_after};
use super::seal::{Place, Sealer};
use crate::bloom::{Memory, OutOfMemory};

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
/// clear chunks are left out. O(bytes that may be set, as far as is known).
///
/// # Errors
/// [`OutOfMemory`] when a piece cannot be had; a part may have been shown then.
pub(super) fn in_pieces<A: Arrays>(
    header: &[u8],
    arrays: &A,
    memory: impl Memory,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    let mut sealer = Sealer::default();
    // They belong to no dump, so they have no mark.
    let data = sealer.seal(header, &Place::Header, 0)?;
    emit(Rewritten::Piece { iterator: HEADER_ITERATOR, data });
    for (chunk, is_clear) in chunks(arrays, memory) {
        if !is_clear {
            let data = sealer.seal(chunk.bytes, &Place::chunk(&chunk.array, chunk.position), 0)?;
            emit(Rewritten::Piece { iterator: iterator_after(chunk.end()), data });
        }
    }
    Ok(())
}
