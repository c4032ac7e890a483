//! The chunks of BF.SCANDUMP and BF.LOADCHUNK for every format but RedisBloom's. Rewritten append-only files contain
//! such chunks too.
//!
//! Iterator 0 requests the first chunk, the header. Each chunk comes with one iterator: it requests the next chunk, and
//! BF.LOADCHUNK takes it with this chunk. The other iterators of a dump are its positions plus [`first_iterator`],
//! which depends on the dump id. So an iterator of a dump that has ended is an error in a later dump, except with a
//! probability of positions / 2^46: 2^-14 for a table, and n / 2^46 for n bytes of layers. Even then the chunks show by
//! their dump id that they are from different dumps.
//!
//! Every chunk ends with a trailer: the dump id, and a checksum of the bytes, their iterator and that id. A chunk that
//! is damaged, or that belongs to another filter or dump, is refused before it changes anything.

use std::borrow::Cow;
use std::ops::Range;

use thiserror::Error;

use super::contents::{CHUNK_BYTES, append_segments, bits_at, layer_chunks, locate, read_segments};
use super::record;
use super::stream::DecodeError;
use crate::bloom::hash::murmur3::hash128;
use crate::bloom::table::{LoadError, POSITIONS, Table};
use crate::bloom::{ByteLimit, DumpId, Filter, ItemHash, Memory, OutOfMemory, ReserveError};

/// Bytes of the dump id in the trailer of a chunk.
const ID_BYTES: usize = 8;
/// Bytes of the checksum at the end of a chunk, after the dump id.
const CHECKSUM_BYTES: usize = 16;
/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = ID_BYTES + CHECKSUM_BYTES;

/// The first iterators of all dumps. They are above the positions in RedisBloom's dumps, of less than 16 TiB. With the
/// positions of 10 TiB they are below 10^14, because Lua writes a number with 14 digits.
const FIRST_ITERATORS: Range<u64> = 1 << 44..(1 << 44) + (1 << 46);

/// Returns the iterator that goes with the header of a dump and requests the first chunk of bits or entries.
#[must_use]
pub const fn first_iterator(id: DumpId) -> u64 {
    FIRST_ITERATORS.start + id % (FIRST_ITERATORS.end - FIRST_ITERATORS.start)
}

/// Returns the iterator that goes with a chunk that ends before `position`, and requests the chunk that begins at
/// `position`.
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

/// Returns the chunk that `iterator` requests, or `None` at the end of the dump. O(bytes of the chunk).
///
/// # Errors
/// [`DumpError`].
pub(super) fn chunk(filter: &Filter, iterator: u64) -> Result<Option<Chunk<'_>>, DumpError> {
    let dump = filter.dump().ok_or(DumpError::Ended)?;
    let mut data = Vec::new();
    let end = if iterator == 0 {
        append_payload(&record::encode(filter), &mut data)?;
        0
    } else {
        let position = iterator.checked_sub(first_iterator(dump.id));
        let position = position.filter(|position| *position <= dump.end).ok_or(DumpError::Ended)?;
        // Layers and a table that the filter gained after the header are not part of the dump.
        if position == dump.end || is_after_segments(filter, position) {
            return Ok(None);
        }
        match bits_at(filter, position) {
            Some(bits) => {
                append_payload(bits, &mut data)?;
                position.saturating_add(bits.len() as u64)
            }
            None => append_table(filter, position, &mut data)?.ok_or(DumpError::Ended)?,
        }
    };
    let next_iterator = iterator_at(end, dump.id);
    append_trailer(next_iterator, dump.id, &mut data)?;
    Ok(Some(Chunk { next_iterator, data: Cow::Owned(data) }))
}

/// Appends bytes to an empty chunk. Also allocates the memory for the trailer.
fn append_payload(payload: &[u8], data: &mut Vec<u8>) -> Result<(), OutOfMemory> {
    data.try_reserve_exact(payload.len().saturating_add(TRAILER_BYTES)).map_err(|_| OutOfMemory)?;
    data.extend_from_slice(payload);
    Ok(())
}

/// Appends the trailer to the payload of a chunk.
fn append_trailer(iterator: u64, id: DumpId, data: &mut Vec<u8>) -> Result<(), OutOfMemory> {
    data.try_reserve(TRAILER_BYTES).map_err(|_| OutOfMemory)?;
    let checksum = checksum(data, iterator, id);
    data.extend_from_slice(&id.to_le_bytes());
    data.extend_from_slice(&checksum);
    Ok(())
}

/// Returns the checksum of a chunk: a hash of the hash of its payload, of the iterator that it is loaded with, and of
/// its dump id.
fn checksum(payload: &[u8], iterator: u64, id: DumpId) -> [u8; CHECKSUM_BYTES] {
    let ItemHash { h1, h2 } = hash128(payload);
    let digest = hash128(bytemuck::cast_slice(&[h1, h2, iterator, id]));
    bytemuck::cast([digest.h1, digest.h2])
}

/// Returns the payload of a chunk and its dump id; `None` if its checksum is wrong. `iterator` returns the iterator of
/// the chunk for a dump id, because the checksum includes it.
fn verify(data: &[u8], iterator: impl FnOnce(DumpId) -> u64) -> Option<(&[u8], DumpId)> {
    let (bytes, expected) = data.split_last_chunk::<CHECKSUM_BYTES>()?;
    let (payload, id) = bytes.split_last_chunk::<ID_BYTES>()?;
    let id = DumpId::from_le_bytes(*id);
    (checksum(payload, iterator(id), id) == *expected).then_some((payload, id))
}

/// Appends the parts of the table from a position of a dump on. Returns the position after them; `None` without a
/// table.
fn append_table(filter: &Filter, position: u64, bytes: &mut Vec<u8>) -> Result<Option<u64>, OutOfMemory> {
    let start = filter.layers_end();
    let place = filter.table().zip(position.checked_sub(start));
    let Some((table, position)) = place else { return Ok(None) };
    let end = append_segments(table, position, bytes)?.min(segments_end(table));
    Ok(Some(end.saturating_add(start)))
}

/// Returns the position after the last segment of a table. It is one less while the table is being loaded. The copy is then
/// being loaded too, because only a chunk that ends at [`POSITIONS`] ends a load.
fn segments_end(table: &Table) -> u64 {
    POSITIONS.saturating_sub(table.is_loading().into())
}

/// Returns whether a position of a dump is after the last segment of the table.
fn is_after_segments(filter: &Filter, position: u64) -> bool {
    let place = filter.table().zip(position.checked_sub(filter.layers_end()));
    place.is_some_and(|(table, position)| position >= segments_end(table))
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
    /// The chunk has items of a sliding window that are too far ahead of the time of [`Trust::Client`]. They would make
    /// all others expire.
    #[error("the items are more than a window ahead")]
    Ahead,
    /// The chunk begins after the last layer. Only for filters in RedisBloom's format.
    #[error("the chunk begins after the last layer")]
    BeyondEnd,
    /// The chunk is longer than the rest of its layer. Only for filters in RedisBloom's format.
    #[error("the chunk is longer than the rest of its layer")]
    TooBig,
    /// There is no room for the entries of the chunk.
    #[error(transparent)]
    NoRoom(ReserveError),
}

/// How to verify that a chunk belongs to the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// By its dump id, which must be that of the header that created the filter. Items of a window must not be more than
    /// a window newer than `now_ms`.
    Client {
        /// The current time in milliseconds of UNIX time.
        now_ms: u64,
    },
    /// By its checksum only, because the chunk is from the primary or the append-only file. The filter may have been
    /// loaded from a snapshot, which has no dump ids, or from chunks of a rewritten file, which have another dump id.
    Sender,
}

/// Returns the payload of a header and the id of its dump; `None` if it is damaged, or not one of everbloom's.
pub(super) fn open_header(data: &[u8]) -> Option<(&[u8], DumpId)> {
    verify(data, first_iterator)
}

/// Returns whether data with this iterator can only be a header: it has a first iterator of everbloom's dumps, and is
/// not an undamaged chunk of bits or entries. O(bytes).
pub(super) fn is_header(iterator: u64, data: &[u8]) -> bool {
    FIRST_ITERATORS.contains(&iterator)
        && verify(data, |_| iterator).is_none_or(|(_, id)| iterator == first_iterator(id))
}

/// Adds the bits or entries of a chunk. `next_iterator` is the iterator that BF.SCANDUMP replied with the chunk.
/// O(bytes).
///
/// # Errors
/// [`ChunkError::BadData`], [`ChunkError::OtherDump`] and [`ChunkError::NoRoom`]; the filter is then unchanged.
pub(super) fn load_chunk(
    filter: &mut Filter,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
    limit: &dyn ByteLimit,
) -> Result<(), ChunkError> {
    let (payload, id) = verify(data, |_| next_iterator).ok_or(ChunkError::BadData)?;
    let end = next_iterator.checked_sub(first_iterator(id)).filter(|end| *end > 0);
    let end = end.ok_or(ChunkError::BadData)?;
    if matches!(trust, Trust::Client { .. }) && filter.origin() != Some(id) {
        return Err(ChunkError::OtherDump);
    }
    if let Some(end) = end.checked_sub(filter.layers_end()).filter(|end| *end > 0) {
        return load_segments(filter, payload, end, trust, limit);
    }
    let position = end.checked_sub(payload.len() as u64).ok_or(ChunkError::BadData)?;
    let (layer, offset) = locate(filter, position).ok_or(ChunkError::BadData)?;
    if filter.add_bytes(layer, offset, payload) { Ok(()) } else { Err(ChunkError::BadData) }
}

/// Adds the segments of the table in the payload of a chunk. `end` is the position of the table at which the chunk ends.
fn load_segments(
    filter: &mut Filter,
    payload: &[u8],
    end: u64,
    trust: Trust,
    limit: &dyn ByteLimit,
) -> Result<(), ChunkError> {
    let segments = read_segments(payload, end).map_err(|error| match error {
        DecodeError::OutOfMemory => ChunkError::NoRoom(ReserveError::OutOfMemory),
        _ => ChunkError::BadData,
    })?;
    let now_ms = if let Trust::Client { now_ms } = trust { now_ms } else { u64::MAX };
    filter.add_segments(segments, end == POSITIONS, now_ms, limit).map_err(|error| match error {
        LoadError::Invalid(_) => ChunkError::BadData,
        LoadError::Ahead => ChunkError::Ahead,
        LoadError::NoRoom(error) => ChunkError::NoRoom(error),
    })
}

/// One command of a rewritten file, without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewritten<'d> {
    /// BF.LOADCHUNK.
    Chunk {
        /// The iterator.
        iterator: u64,
        /// Its bytes.
        data: &'d [u8],
    },
    /// BF.LOAD, of valkey-bloom's filters.
    Blob(
        /// Its bytes.
        &'d [u8],
    ),
    /// CF.LOADCHUNK, of cuckoo filters.
    CuckooChunk {
        /// The iterator.
        iterator: u64,
        /// Its bytes.
        data: &'d [u8],
    },
    /// RESTORE without an expiry, of values that have no chunks.
    Payload(
        /// The payload of DUMP.
        &'d [u8],
    ),
}

/// Calls `emit` with chunks that recreate the filter. Clear chunks of bits are omitted, because the header creates
/// clear bits. The dump id is a hash of the header and of `fresh`, a number that no other rewrite has, so a client that
/// sends the file to another server cannot mix the chunks of two filters. O(bytes that may be set).
///
/// # Errors
/// [`OutOfMemory`] if a chunk cannot be allocated; `emit` may have been called then.
pub(super) fn rewrite(
    filter: &Filter,
    memory: impl Memory,
    fresh: u64,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    let header = record::encode(filter);
    // The id is not random, because a child of the server may draw the same random numbers as the server draws for its
    // next dumps.
    let id = hash128(&header).h1.wrapping_add(hash128(&fresh.to_le_bytes()).h2);
    let mut emit_chunk = |end: u64, data: &mut Vec<u8>| {
        let iterator = iterator_at(end, id);
        append_trailer(iterator, id, data)?;
        emit(Rewritten::Chunk { iterator, data });
        data.clear();
        Ok(())
    };
    let (mut data, mut position) = (Vec::new(), 0u64);
    append_payload(&header, &mut data)?;
    emit_chunk(position, &mut data)?;
    for layer in filter.layers() {
        for (bits, is_clear) in layer_chunks(layer, CHUNK_BYTES, memory) {
            position = position.saturating_add(bits.len() as u64);
            if !is_clear {
                append_payload(bits, &mut data)?;
                emit_chunk(position, &mut data)?;
            }
        }
    }
    while !is_after_segments(filter, position)
        && let Some(next) = append_table(filter, position, &mut data)?
    {
        emit_chunk(next, &mut data)?;
        position = next;
    }
    Ok(())
}
