//! The chunks of BF.SCANDUMP and BF.LOADCHUNK, of every filter but RedisBloom's, and the commands of a rewritten
//! append-only file, which load such chunks.
//!
//! The protocol is RedisBloom's. Iterator 0 asks for the first chunk, the header, which is loaded with iterator 1.
//! Iterator i > 0 asks for the bytes from position i - 1 on of all layers, one after another; these are loaded with the
//! iterator after their last byte. A chunk never spans two layers. Each layer keeps its position while the filter loses
//! expired ones; a chunk that would begin in a lost layer begins at the next.
//!
//! Every chunk ends with a [seal](super::seal): the dump id of the state that the header describes, and a checksum of
//! the bytes, their place and that id. A chunk that is torn, altered, of another filter or of another dump is refused
//! before it changes anything.

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
    /// The iterator that asks for the next chunk, and that this one is loaded with.
    pub next_iterator: u64,
    /// The bytes.
    pub data: Cow<'f, [u8]>,
}

/// Returns the chunk that `iterator` asks for, or nothing past the end; `encode` writes the header. O(bytes of the
/// chunk).
///
/// # Errors
/// [`OutOfMemory`] when the bytes cannot be had.
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
            // Layers that were added after the header was made are not part of the dump.
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

/// Why a chunk was not loaded; the filter is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// The chunk is torn, altered, or of another filter or place.
    #[error("the chunk is damaged, or belongs to another filter or position")]
    BadData,
    /// The chunk is whole, but not of the dump whose header made the filter, or that dump is not known any more.
    #[error("the chunk and the header are from different dumps")]
    OtherDump,
    /// The chunk begins beyond the last layer.
    #[error("the chunk begins after the last layer")]
    BeyondEnd,
    /// The chunk is longer than the rest of its layer.
    #[error("the chunk is longer than the rest of its layer")]
    TooBig,
}

/// How it is known that a chunk belongs to the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// By its dump id, which must be that of the header that made the filter.
    Marks,
    /// The primary or the append-only file that it comes from has checked that. The filter may have been loaded from a
    /// snapshot, which has no dump ids.
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
    let (offset, index, end, place) = match locate(filter, position) {
        Some(located) => {
            let offset = located.offset_of(position);
            // Of a lost layer only the start of the next one is known.
            let end = if offset.is_some() { located.range.end } else { located.range.start };
            (offset, located.index, end, Place::chunk(located.layer, position))
        }
        // The last layers of a window may be lost, too.
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
        // All items of a lost layer have expired.
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

/// Calls `emit` with sealed chunks that make the filter again. The header makes clear cells, so clear chunks are left
/// out. The dump id is a hash of the header and of `fresh`, a number that no other rewriting has: a client that sends
/// the file to another server can mix the chunks of no two filters. O(bytes that may be set, as far as is known).
///
/// # Errors
/// [`OutOfMemory`] when a chunk cannot be allocated; `emit` may have been called then.
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
/// server draws for its next dumps; their hashes differ from them.
fn mark_of(header: &[u8], fresh: u64) -> StateMark {
    hash128(header).h1.wrapping_add(hash128(&fresh.to_le_bytes()).h2).max(1)
}
