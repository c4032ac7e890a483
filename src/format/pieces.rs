//! The pieces of BF.SCANDUMP and BF.LOADCHUNK, of whatever kind a filter is that has a header of ours.
//!
//! The protocol is RedisBloom's: iterator 0 asks for the header, which goes with iterator 1; iterator i > 0
//! asks for the bytes from position i - 1 on of all bit arrays laid end to end, which go with the iterator
//! after them; a piece never spans two layers. Where a filter loses layers while it lives, each array keeps its position,
//! and a piece that would begin in a lost one begins at the next. Every piece ends with a seal: the mark of the state that
//! the header describes, and a check over its bytes, its place and that mark. So a piece that is torn, altered,
//! of another filter or of another dump is refused before it changes anything.

use std::borrow::Cow;
use std::fmt;

use super::arrays::{Arrays, chunk_at, locate};
use super::seal::{Form, Place, Sealer};
use crate::bloom::{Origin, OutOfMemory};

/// The iterator that goes with a header.
pub const HEADER_ITERATOR: u64 = 1;

/// Bytes of the seal at the end of every piece.
pub const SEAL_BYTES: usize = Form::Marked.seal_bytes();

/// One reply of BF.SCANDUMP.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<'f> {
    /// The iterator that asks for the next piece, and that this one is loaded with.
    pub next_iterator: u64,
    /// The bytes.
    pub data: Cow<'f, [u8]>,
}

/// The piece that `iterator` asks for, or nothing past the end; `encode` writes the header. O(bytes of the
/// piece).
///
/// # Errors
/// [`OutOfMemory`] when the bytes cannot be had.
pub fn piece<'f>(
    arrays: &dyn Arrays,
    iterator: u64,
    encode: impl FnOnce() -> Vec<u8>,
) -> Result<Option<Piece<'f>>, OutOfMemory> {
    let mark = arrays.state_mark();
    let mut sealer = Sealer::default();
    let next_iterator = match iterator.checked_sub(1) {
        None => {
            sealer.header(&encode(), mark)?;
            HEADER_ITERATOR
        }
        Some(position) => {
            // Layers that the filter has gained since are no part of the dump.
            let chunk = chunk_at(arrays, position).filter(|chunk| chunk.position < arrays.marked_end());
            let Some(chunk) = chunk else { return Ok(None) };
            sealer.chunk(&chunk, |segment| arrays.cut_to_dump(chunk.index, segment), mark)?;
            iterator_after(chunk.end())
        }
    };
    Ok(Some(Piece { next_iterator, data: Cow::Owned(sealer.into_piece()) }))
}

/// The iterator that goes with a chunk that ends before `position`.
pub(super) const fn iterator_after(position: u64) -> u64 {
    position.saturating_add(1)
}

/// Why a chunk was not loaded; the filter is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// Torn, altered, or of another filter or place.
    BadData,
    /// Whole, but not of the dump whose header made the filter, or it is not known any more which one that was.
    OtherDump,
    /// Begins beyond the last layer.
    BeyondEnd,
    /// Longer than what is left of its layer.
    TooBig,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadData => "the piece is torn, altered, or of another filter or place",
            Self::OtherDump => "the piece is of another dump than the filter's header",
            Self::BeyondEnd => "the piece begins beyond the last layer",
            Self::TooBig => "the piece is longer than what is left of its layer",
        })
    }
}

impl std::error::Error for ChunkError {}

/// Who says that a chunk belongs to the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nobody: it must have the mark of the header that made the filter.
    Marks,
    /// A primary or an append-only file, where that was seen to: the filter may have come by a snapshot
    /// since, which has no marks.
    Sender,
}

/// Sets the bits of a chunk. `next_iterator` is what BF.SCANDUMP answered with it. O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then as it was.
pub fn load_chunk(
    arrays: &mut dyn Arrays,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
) -> Result<(), ChunkError> {
    match (trust, arrays.origin()) {
        (Trust::Sender, _) => {
            let outcome = load_sealed(arrays, next_iterator, data, Form::Marked, |_| true);
            outcome.or_else(|error| {
                load_sealed(arrays, next_iterator, data, Form::Unmarked, |_| true).map_err(|_| error)
            })
        }
        (Trust::Marks, Origin::Marked(mark)) => {
            load_sealed(arrays, next_iterator, data, Form::Marked, |other| other == mark)
        }
        (Trust::Marks, Origin::Unmarked) => {
            load_sealed(arrays, next_iterator, data, Form::Unmarked, |_| true)
        }
        (Trust::Marks, Origin::NoHeader) => load_sealed(arrays, next_iterator, data, Form::Marked, |_| false),
    }
}

fn load_sealed(
    arrays: &mut dyn Arrays,
    next_iterator: u64,
    data: &[u8],
    form: Form,
    is_wanted: impl FnOnce(u64) -> bool,
) -> Result<(), ChunkError> {
    let chunk_bytes = data.len().checked_sub(form.seal_bytes()).ok_or(ChunkError::BadData)?;
    let position = next_iterator
        .checked_sub(1)
        .and_then(|end| end.checked_sub(chunk_bytes as u64))
        .ok_or(ChunkError::BadData)?;
    let located = locate(arrays, position).ok_or(ChunkError::BeyondEnd)?;
    let offset = located.offset_of(position);
    // Of an array that is gone nothing is known but where the next one begins.
    let rest_bytes = match offset {
        Some(offset) => located.array.bytes.len().saturating_sub(offset) as u64,
        None => located.start.saturating_sub(position),
    };
    if rest_bytes < chunk_bytes as u64 {
        return Err(ChunkError::TooBig);
    }
    let place = Place::chunk(&located.array, position);
    let (segment, mark) = form.open(data, &place).ok_or(ChunkError::BadData)?;
    if !is_wanted(mark) {
        return Err(ChunkError::OtherDump);
    }
    let (index, Some(offset)) = (located.index, offset) else {
        // All of its items have expired.
        return Ok(());
    };
    if arrays.add_segment(index, offset, segment) { Ok(()) } else { Err(ChunkError::BadData) }
}
