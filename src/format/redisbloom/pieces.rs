//! The pieces of BF.SCANDUMP and BF.LOADCHUNK as RedisBloom has them, byte for byte.
//!
//! The protocol is the one of [`pieces`](crate::format::pieces), without seals: a chunk of bits is loaded
//! wherever its iterator and its length put it.

use std::borrow::Cow;

use super::header;
use crate::bloom::Filter;
use crate::bloom::policy::RedisBloom;
use crate::format::pieces::{ChunkError, HEADER_ITERATOR, Piece, iterator_after};
use crate::format::rewrite::Rewritten;
use crate::format::segments::{chunk_at, locate};

/// Returns the piece that `iterator` asks for, or nothing past the end. O(layers): a chunk is not copied.
#[must_use]
pub fn piece<'f>(policy: &RedisBloom, filter: &'f Filter, iterator: u64) -> Option<Piece<'f>> {
    let Some(position) = iterator.checked_sub(1) else {
        let data = Cow::Owned(header::encode(policy, filter));
        return Some(Piece { next_iterator: HEADER_ITERATOR, data });
    };
    let chunk = chunk_at(filter, position)?;
    Some(Piece { next_iterator: iterator_after(chunk.end()), data: Cow::Borrowed(chunk.segment.cells) })
}

/// Sets the bits of a chunk; RedisBloom overwrites, and loses what was added meanwhile. `next_iterator` is
/// what BF.SCANDUMP replied with it. O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then as it was. In RedisBloom's order: data that is longer than the iterator
/// is bad; an iterator that puts it before the first layer or behind the last is beyond the end; then it may
/// be too big.
pub fn load_chunk(filter: &mut Filter, next_iterator: u64, data: &[u8]) -> Result<(), ChunkError> {
    let start = next_iterator
        .checked_sub(data.len() as u64)
        .filter(|_| next_iterator > 0)
        .ok_or(ChunkError::BadData)?;
    let position = start.checked_sub(1).ok_or(ChunkError::BeyondEnd)?;
    let located = locate(filter, position).ok_or(ChunkError::BeyondEnd)?;
    let offset = located.offset_of(position).ok_or(ChunkError::BeyondEnd)?;
    if filter.add_segment(located.index, offset, data) { Ok(()) } else { Err(ChunkError::TooBig) }
}

/// Shows `emit` the commands that make the filter again. All chunks, clear ones too: RedisBloom before
/// 2.2.19, 2.4.8 and 2.6.11 does not clear the array that a header makes. O(bytes).
pub fn rewrite(policy: &RedisBloom, filter: &Filter, emit: &mut dyn FnMut(Rewritten<'_>)) {
    let mut iterator = 0;
    while let Some(piece) = piece(policy, filter, iterator) {
        iterator = piece.next_iterator;
        emit(Rewritten::Piece { iterator, data: &piece.data });
    }
}
