//! The pieces of BF.SCANDUMP and BF.LOADCHUNK as RedisBloom has them, byte for byte.
//!
//! The protocol is the one of [`pieces`](crate::format::pieces), without seals: a chunk of bits is loaded
//! wherever its iterator and its length put it.

use std::borrow::Cow;

use super::header;
use crate::bloom::{ByteLimit, Chain, RedisBloom};
use crate::format::arrays::{Arrays, chunk_at, locate};
use crate::format::pieces::{ChunkError, HEADER_ITERATOR, Piece, iterator_after};
use crate::format::record::DecodeError;
use crate::format::rewrite::Rewritten;

/// The piece that `iterator` asks for, or nothing past the end. O(layers): a chunk is not copied.
#[must_use]
pub fn piece(chain: &Chain<RedisBloom>, iterator: u64) -> Option<Piece<'_>> {
    let Some(position) = iterator.checked_sub(1) else {
        return Some(Piece { next_iterator: HEADER_ITERATOR, data: Cow::Owned(header::encode(chain)) });
    };
    let chunk = chunk_at(chain, position)?;
    Some(Piece { next_iterator: iterator_after(chunk.end()), data: Cow::Borrowed(chunk.segment.cells) })
}

/// An empty filter of the shape that a header describes. O(layers).
///
/// # Errors
/// [`DecodeError`] for a header that cannot be, or is larger than `limit` allows.
pub fn from_header(data: &[u8], limit: &dyn ByteLimit) -> Result<Chain<RedisBloom>, DecodeError> {
    header::Header::decode(data, limit)?.build()
}

/// Sets the bits of a chunk; RedisBloom overwrites, and loses what was added meanwhile. `next_iterator` is
/// what BF.SCANDUMP answered with it. O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then as it was. In RedisBloom's order: data that is longer than the iterator
/// is bad; an iterator that puts it before the first layer or behind the last is beyond the end; then it may
/// be too big.
pub fn load_chunk(chain: &mut Chain<RedisBloom>, next_iterator: u64, data: &[u8]) -> Result<(), ChunkError> {
    let start = next_iterator
        .checked_sub(data.len() as u64)
        .filter(|_| next_iterator > 0)
        .ok_or(ChunkError::BadData)?;
    let position = start.checked_sub(1).ok_or(ChunkError::BeyondEnd)?;
    let located = locate(chain, position).ok_or(ChunkError::BeyondEnd)?;
    let offset = located.offset_of(position).ok_or(ChunkError::BeyondEnd)?;
    if chain.add_segment(located.index, offset, data) { Ok(()) } else { Err(ChunkError::TooBig) }
}

/// Shows `emit` the commands that make the filter again. All chunks, clear ones too: RedisBloom before
/// 2.2.19, 2.4.8 and 2.6.11 does not clear the array that a header makes. O(bytes).
pub fn rewrite(chain: &Chain<RedisBloom>, emit: &mut dyn FnMut(Rewritten<'_>)) {
    let mut iterator = 0;
    while let Some(piece) = piece(chain, iterator) {
        iterator = piece.next_iterator;
        emit(Rewritten::Piece { iterator, data: &piece.data });
    }
}
