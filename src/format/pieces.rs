//! The pieces of BF.SCANDUMP and BF.LOADCHUNK, of every filter but RedisBloom's.
//!
//! The protocol is RedisBloom's: iterator 0 asks for the header, which goes with iterator 1; iterator i > 0
//! asks for the bytes from position i - 1 on of all layers, one behind another, which go with the iterator
//! after them; a piece never spans two layers. Where a filter loses layers while it lives, each layer keeps its position, and
//! a piece that would begin in a lost one begins at the next. Every piece ends with a [seal](super::seal): the mark of the
//! state that the header describes, and a check over its bytes, its place and that mark. So a piece that is torn, altered,
//! of another filter or of another dump is refused before it changes anything.

use std::borrow::Cow;

use thiserror::Error;

use super::seal::{Place, Sealer, open};
use super::segments::{chunk_at, locate};
use crate::bloom::{Filter, Origin, OutOfMemory};

pub use super::seal::SEAL_BYTES;

/// The iterator that goes with a header.
pub const HEADER_ITERATOR: u64 = 1;

/// One reply of BF.SCANDUMP.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<'f> {
    /// The iterator that asks for the next piece, and that this one is loaded with.
    pub next_iterator: u64,
    /// The bytes.
    pub data: Cow<'f, [u8]>,
}

/// Returns the piece that `iterator` asks for, or nothing past the end; `encode` writes the header. O(bytes of the
/// piece).
///
/// # Errors
/// [`OutOfMemory`] when the bytes cannot be had.
pub(super) fn piece<'f>(
    filter: &Filter,
    iterator: u64,
    encode: impl FnOnce() -> Vec<u8>,
) -> Result<Option<Piece<'f>>, OutOfMemory> {
    let mark = filter.state_mark();
    let mut sealer = Sealer::default();
    let next_iterator = match iterator.checked_sub(1) {
        None => {
            sealer.header(&encode(), mark)?;
            HEADER_ITERATOR
        }
        Some(position) => {
            // Layers that the filter has gained since are no part of the dump.
            let chunk = chunk_at(filter, position).filter(|chunk| chunk.position < filter.marked_end());
            let Some(chunk) = chunk else { return Ok(None) };
            sealer.chunk(&chunk, |segment| chunk.layer.cells().cut_to_dump(segment), mark)?;
            iterator_after(chunk.end())
        }
    };
    Ok(Some(Piece { next_iterator, data: Cow::Owned(sealer.into_piece()) }))
}

/// Returns the iterator that goes with a chunk that ends before `position`.
pub(super) const fn iterator_after(position: u64) -> u64 {
    position.saturating_add(1)
}

/// Why a chunk was not loaded; the filter is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// Torn, altered, or of another filter or place.
    #[error("the piece is torn, altered, or of another filter or place")]
    BadData,
    /// Whole, but not of the dump whose header made the filter, or it is not known any more which one that was.
    #[error("the piece is of another dump than the filter's header")]
    OtherDump,
    /// Begins beyond the last layer.
    #[error("the piece begins beyond the last layer")]
    BeyondEnd,
    /// Longer than what is left of its layer.
    #[error("the piece is longer than what is left of its layer")]
    TooBig,
}

/// Who says that a chunk belongs to the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nobody: it must have the mark of the header that made the filter.
    Marks,
    /// A primary or an append-only file, where that was seen to: the filter may have come by a snapshot
    /// since, which has no marks.
    Sender,
}

/// Sets the cells of a chunk. `next_iterator` is what BF.SCANDUMP replied with it. O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then as it was.
pub(super) fn load_chunk(
    filter: &mut Filter,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
) -> Result<(), ChunkError> {
    let chunk_bytes = data.len().checked_sub(SEAL_BYTES).ok_or(ChunkError::BadData)? as u64;
    let position = next_iterator.checked_sub(1).and_then(|end| end.checked_sub(chunk_bytes));
    let position = position.ok_or(ChunkError::BadData)?;
    let located = locate(filter, position).ok_or(ChunkError::BeyondEnd)?;
    let (offset, index) = (located.offset_of(position), located.index);
    // Of a layer that is gone nothing is known but where the next one begins.
    let end = if offset.is_some() { located.range.end } else { located.range.start };
    if end.saturating_sub(position) < chunk_bytes {
        return Err(ChunkError::TooBig);
    }
    let (segment, mark) = open(data, &Place::chunk(located.layer, position)).ok_or(ChunkError::BadData)?;
    if trust == Trust::Marks && filter.origin() != Origin::Marked(mark) {
        return Err(ChunkError::OtherDump);
    }
    match offset {
        Some(offset) if !filter.add_segment(index, offset, segment) => Err(ChunkError::BadData),
        // All items of a lost layer have expired.
        _ => Ok(()),
    }
}
