//! The chunks of BF.SCANDUMP and BF.LOADCHUNK for every format but RedisBloom's. Rewritten append-only files contain
//! such chunks too.
//!
//! The protocol is RedisBloom's. Iterator 0 requests the first chunk, the header, which is loaded with iterator 1.
//! Iterator i > 0 requests the bytes of all layers, in order, from position i - 1 on; such a chunk is loaded with the
//! iterator after its last byte. A chunk never spans two layers. Each layer keeps its position when the filter drops
//! expired layers. A chunk that would begin in a dropped layer begins at the next layer.
//!
//! Every chunk ends with a [seal](super::seal): the dump id of the state that the header describes, and a checksum of
//! the bytes, their position and that id. A chunk that is damaged, or that belongs to another filter or dump, is
//! refused before it changes anything.

use std::borrow::Cow;

use thiserror::Error;

use super::seal::{Place, Sealer, open};
use super::segments::{chunk_at, chunks, locate};
use crate::bloom::hash::murmur3::hash128;
use crate::bloom::{Filter, Memory, Origin, OutOfMemory, StateMark, Window};

pub use super::seal::SEAL_BYTES;

/// The iterator that goes with a header.
pub const HEADER_ITERATOR: u64 = 1;

/// One reply of BF.SCANDUMP.
#[derive(Debug, PartialEq, Eq)]
pub struct Chunk<'f> {
    /// The iterator that requests the next chunk, and with which this one is loaded.
    pub next_iterator: u64,
    /// The bytes.
    pub data: Cow<'f, [u8]>,
}

/// Returns the chunk that `iterator` requests, or `None` past the end. `encode` writes the header. O(bytes of the
/// chunk).
///
/// # Errors
/// [`OutOfMemory`] if the bytes cannot be allocated.
pub(super) fn chunk<'f>(
    filter: &Filter,
    iterator: u64,
    encode: impl FnOnce() -> Vec<u8>,
) -> Result<Option<Chunk<'f>>, OutOfMemory> {
    let mark = filter.state_mark();
    let mut sealer = Sealer::default();
    let next_iterator = match iterator.checked_sub(1) {
        None => {
            sealer.header(&encode(), mark)?;
            HEADER_ITERATOR
        }
        Some(position) => {
            // Layers that were added after the header are not part of the dump.
            let chunk = chunk_at(filter, position).filter(|chunk| chunk.position < filter.marked_end());
            let Some(chunk) = chunk else { return Ok(None) };
            sealer.chunk(&chunk, |segment| chunk.layer.cells().cut_to_dump(segment), mark)?;
            iterator_after(chunk.end())
        }
    };
    Ok(Some(Chunk { next_iterator, data: Cow::Owned(sealer.into_chunk()) }))
}

/// Returns the iterator that goes with a chunk that ends before `position`.
pub(super) const fn iterator_after(position: u64) -> u64 {
    position.saturating_add(1)
}

/// Why a chunk was not loaded. The filter is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// The chunk is damaged, or belongs to another filter or position.
    #[error("the chunk is damaged, or belongs to another filter or position")]
    BadData,
    /// The chunk is valid, but not of the dump whose header created the filter, or that dump is no longer known.
    #[error("the chunk and the header are from different dumps")]
    OtherDump,
    /// The chunk begins after the last layer.
    #[error("the chunk begins after the last layer")]
    BeyondEnd,
    /// The chunk is longer than the rest of its layer.
    #[error("the chunk is longer than the rest of its layer")]
    TooBig,
}

/// How to verify that a chunk belongs to the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// By its dump id, which must be that of the header that created the filter.
    Marks,
    /// The primary or the append-only file has verified it. The filter may have been loaded from a snapshot, which
    /// has no dump ids.
    Sender,
}

/// Sets the cells of a chunk. `next_iterator` is the one that BF.SCANDUMP replied with it. O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then unchanged.
pub(super) fn load_chunk(
    filter: &mut Filter,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
) -> Result<(), ChunkError> {
    let chunk_bytes = data.len().checked_sub(SEAL_BYTES).ok_or(ChunkError::BadData)? as u64;
    let position = next_iterator.checked_sub(1).and_then(|end| end.checked_sub(chunk_bytes));
    let position = position.ok_or(ChunkError::BadData)?;
    let (offset, index, end, place) = match locate(filter, position) {
        Some(located) => {
            let offset = located.offset_of(position);
            // Of a dropped layer only the start of the next one is known.
            let end = if offset.is_some() { located.range.end } else { located.range.start };
            (offset, located.index, end, Place::chunk(located.layer, position))
        }
        // The last layers of a window may also have been dropped.
        None => {
            let end = filter.window().map(Window::end).filter(|end| position < *end);
            (None, 0, end.ok_or(ChunkError::BeyondEnd)?, Place::in_window(position))
        }
    };
    if end.saturating_sub(position) < chunk_bytes {
        return Err(ChunkError::TooBig);
    }
    let (segment, mark) = open(data, &place).ok_or(ChunkError::BadData)?;
    if trust == Trust::Marks && filter.origin() != Origin::Marked(mark) {
        return Err(ChunkError::OtherDump);
    }
    match offset {
        Some(offset) if !filter.add_segment(index, offset, segment) => Err(ChunkError::BadData),
        // All items of a dropped layer have expired.
        _ => Ok(()),
    }
}

/// One command of a rewritten file, without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewritten<'d> {
    /// BF.LOADCHUNK.
    Chunk {
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

/// Calls `emit` with sealed chunks that recreate the filter. Clear chunks are omitted, because the header creates
/// clear cells. The dump id is a hash of the header and of `fresh`, a number that no other rewrite has, so a client
/// that sends the file to another server cannot mix the chunks of two filters. O(bytes that may be set).
///
/// # Errors
/// [`OutOfMemory`] if a chunk cannot be allocated; `emit` may have been called then.
pub(super) fn rewrite(
    header: &[u8],
    filter: &Filter,
    memory: impl Memory,
    fresh: u64,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    let mut sealer = Sealer::default();
    let mark = mark_of(header, fresh);
    let data = sealer.header(header, mark)?;
    emit(Rewritten::Chunk { iterator: HEADER_ITERATOR, data });
    for (chunk, is_clear) in chunks(filter, memory) {
        if !is_clear {
            let data = sealer.chunk(&chunk, |_| {}, mark)?;
            emit(Rewritten::Chunk { iterator: iterator_after(chunk.end()), data });
        }
    }
    Ok(())
}

/// Returns a dump id other than 0, which means none. A child of the server may draw the same random numbers as the
/// server draws for its next dumps, so the id is a hash of them.
fn mark_of(header: &[u8], fresh: u64) -> StateMark {
    hash128(header).h1.wrapping_add(hash128(&fresh.to_le_bytes()).h2).max(1)
}
