//! The chunks of BF.SCANDUMP and BF.LOADCHUNK for every format but RedisBloom's. Rewritten append-only files contain
//! such chunks too.
//!
//! Iterator 0 requests the first chunk, the header. Each chunk comes with the iterator that requests the next one, and
//! with which the chunk itself is loaded. The iterators of a dump count the bytes of all layers, in order, from
//! [`first_iterator`] on, which depends on the dump id. So an iterator of a dump that has ended is not one of a later
//! dump, except with a probability of its bytes in 2^51. Even then no client takes that dump for its own: the chunks
//! have another dump id, and the reply that ends a dump needs the iterator of its very end.
//!
//! A chunk never spans two layers. Each layer keeps its position when the filter drops expired layers. A chunk that
//! would begin in a dropped layer begins at the next layer.
//!
//! Every chunk ends with a [trailer](super::trailer): the dump id, and a checksum of the bytes, their iterator and that
//! id. A chunk that is damaged, or that belongs to another filter or dump, is refused before it changes anything.

use std::borrow::Cow;
use std::ops::Range;

use thiserror::Error;

use super::segments::{LayerChunk, chunk_at, chunks, locate};
use super::trailer::{ChunkWriter, verify};
use crate::bloom::hash::murmur3::hash128;
use crate::bloom::{DumpId, Filter, Memory, OutOfMemory, Window};

pub use super::trailer::TRAILER_BYTES;

/// The iterators of all dumps. They have 53 bits, which a number of JavaScript holds exactly.
const ITERATORS: Range<u64> = 1 << 52..1 << 53;
/// The number of first iterators. No filter has as many bytes.
const FIRST_ITERATORS: u64 = 1 << 51;

/// Returns the iterator that goes with the header of a dump and requests its first chunk of cells.
#[must_use]
pub const fn first_iterator(id: DumpId) -> u64 {
    ITERATORS.start + id % FIRST_ITERATORS
}

/// Returns the iterator that goes with a chunk that ends before `position`, and requests the one that begins there.
const fn iterator_at(position: u64, id: DumpId) -> u64 {
    first_iterator(id).saturating_add(position)
}

/// One reply of BF.SCANDUMP.
#[derive(Debug, PartialEq, Eq)]
pub struct Chunk<'f> {
    /// The iterator that requests the next chunk, and with which this one is loaded.
    pub next_iterator: u64,
    /// The bytes.
    pub data: Cow<'f, [u8]>,
}

/// Why there is no chunk for an iterator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DumpError {
    /// The iterator is not one of the last dump of the filter.
    #[error("the dump of this iterator has ended")]
    Ended,
    /// There is no memory for the chunk.
    #[error("out of memory")]
    OutOfMemory,
}

impl From<OutOfMemory> for DumpError {
    fn from(OutOfMemory: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// Returns the chunk that `iterator` requests, or `None` at the end of the dump. `encode` writes the header. O(bytes
/// of the chunk).
///
/// # Errors
/// [`DumpError`].
pub(super) fn chunk<'f>(
    filter: &Filter,
    iterator: u64,
    encode: impl FnOnce() -> Vec<u8>,
) -> Result<Option<Chunk<'f>>, DumpError> {
    let dump = filter.dump().ok_or(DumpError::Ended)?;
    let mut writer = ChunkWriter::default();
    let next_iterator = if iterator == 0 {
        let next_iterator = first_iterator(dump.id);
        writer.write(&[&encode()], |_| {}, next_iterator, dump.id)?;
        next_iterator
    } else {
        let position = iterator.checked_sub(first_iterator(dump.id));
        let position = position.filter(|position| *position <= dump.end).ok_or(DumpError::Ended)?;
        // Layers that were added after the header are not part of the dump.
        let chunk = chunk_at(filter, position).filter(|chunk| chunk.position < dump.end);
        let Some(chunk) = chunk else { return Ok(None) };
        write(&mut writer, &chunk, |segment| chunk.layer.cells().cut_to_dump(segment), dump.id)?;
        iterator_at(chunk.end(), dump.id)
    };
    Ok(Some(Chunk { next_iterator, data: Cow::Owned(writer.into_chunk()) }))
}

/// Returns the chunk of a layer. `cut` may change the cells first.
fn write<'w>(
    writer: &'w mut ChunkWriter,
    chunk: &LayerChunk<'_>,
    cut: impl FnOnce(&mut [u8]),
    id: DumpId,
) -> Result<&'w [u8], OutOfMemory> {
    writer.write(&[chunk.segment.cells, chunk.segment.stamps], cut, iterator_at(chunk.end(), id), id)
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
    /// The chunk begins after the last layer. Only of filters in RedisBloom's format.
    #[error("the chunk begins after the last layer")]
    BeyondEnd,
    /// The chunk is longer than the rest of its layer. Only of filters in RedisBloom's format.
    #[error("the chunk is longer than the rest of its layer")]
    TooBig,
}

/// How to verify that a chunk belongs to the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// By its dump id, which must be that of the header that created the filter.
    DumpId,
    /// The primary or the append-only file has verified it. The filter may have been loaded from a snapshot, which
    /// has no dump ids, or from chunks of a rewritten file, which have another one.
    Sender,
}

/// Returns the payload of a header and the id of its dump; `None` if it is damaged, or not one of everbloom's.
pub(super) fn open_header(data: &[u8]) -> Option<(&[u8], DumpId)> {
    verify(data, first_iterator)
}

/// Returns whether data with this iterator can only be a header: it has an iterator of everbloom's dumps, and is not an
/// undamaged chunk of cells. O(bytes).
pub(super) fn is_header(iterator: u64, data: &[u8]) -> bool {
    ITERATORS.contains(&iterator)
        && verify(data, |_| iterator).is_none_or(|(_, id)| iterator == first_iterator(id))
}

/// Sets the cells of a chunk. `next_iterator` is the one that BF.SCANDUMP replied with it. O(bytes).
///
/// # Errors
/// [`ChunkError::BadData`] and [`ChunkError::OtherDump`]; the filter is then unchanged.
pub(super) fn load_chunk(
    filter: &mut Filter,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
) -> Result<(), ChunkError> {
    let (payload, id) = verify(data, |_| next_iterator).ok_or(ChunkError::BadData)?;
    let bytes = payload.len() as u64;
    // A header does not fit before its position.
    let end = next_iterator.checked_sub(first_iterator(id)).filter(|end| bytes <= *end);
    let position = end.ok_or(ChunkError::BadData)?.saturating_sub(bytes);
    if trust == Trust::DumpId && filter.origin() != Some(id) {
        return Err(ChunkError::OtherDump);
    }
    let (place, end) = match locate(filter, position) {
        Some(located) => match located.offset_of(position) {
            Some(offset) => (Some((located.index, offset)), located.range.end),
            // Of a dropped layer only the start of the next one is known.
            None => (None, located.range.start),
        },
        // The last layers of a window may also have been dropped.
        None => (None, filter.window().map_or(0, Window::end)),
    };
    let fits = bytes <= end.saturating_sub(position);
    let is_added = fits
        && match place {
            Some((index, offset)) => filter.add_segment(index, offset, payload),
            // All items of a dropped layer have expired.
            None => true,
        };
    if is_added { Ok(()) } else { Err(ChunkError::BadData) }
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

/// Calls `emit` with chunks that recreate the filter. Clear chunks are omitted, because the header creates clear cells.
/// The dump id is a hash of the header and of `fresh`, a number that no other rewrite has, so a client that sends the
/// file to another server cannot mix the chunks of two filters. O(bytes that may be set).
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
    let mut writer = ChunkWriter::default();
    // A child of the server may draw the same random numbers as the server draws for its next dumps.
    let id = hash128(header).h1.wrapping_add(hash128(&fresh.to_le_bytes()).h2);
    let iterator = first_iterator(id);
    emit(Rewritten::Chunk { iterator, data: writer.write(&[header], |_| {}, iterator, id)? });
    for (chunk, is_clear) in chunks(filter, memory) {
        if !is_clear {
            let data = write(&mut writer, &chunk, |_| {}, id)?;
            emit(Rewritten::Chunk { iterator: iterator_at(chunk.end(), id), data });
        }
    }
    Ok(())
}
