//! The chunks of BF.SCANDUMP and BF.LOADCHUNK for every format but RedisBloom's. Rewritten append-only files contain
//! such chunks too.
//!
//! Iterator 0 requests the first chunk, the header. Each chunk comes with one iterator: it requests the next chunk, and
//! BF.LOADCHUNK takes it with this chunk. The other iterators of a dump are its positions plus [`first_iterator`],
//! which depends on the dump id. So an iterator of a dump that has ended is an error in a later dump, except with a
//! probability of positions / 2^46: 2^-14 for a table, and n / 2^46 for n bytes of layers. Even then the chunks show by
//! their dump id that they are from different dumps.
//!
//! A chunk of a filter with a table begins with the position at which its part of the dump starts, because bits that are
//! clear and segments without entries are left out. So a load knows which parts are missing.
//!
//! Every chunk ends with a trailer: the dump id, and a checksum of the bytes, their iterator and that id. A chunk that
//! is damaged, or that belongs to another filter or dump, is refused before it changes anything.

use std::borrow::Cow;
use std::ops::Range;

use thiserror::Error;

use super::contents::{CHUNK_BYTES, append_segments, bits_at, layer_chunks, locate, read_segments};
use super::record;
use super::stream::DecodeError;
use everbloom_filter::bits::BitBytes;
use everbloom_filter::filter::dumps::{ChunkChecksum, Dump, still_dump_id};
use everbloom_filter::filter::loading::{ChunkContent, Loaded, LoadingFilter};
use everbloom_filter::hash::murmur3::hash128;
use everbloom_filter::table::LoadError;
use everbloom_filter::{ByteLimit, DumpId, Filter, ItemHash, Memory, OutOfMemory, ReserveError};

/// Bytes of the dump id in the trailer of a chunk.
const ID_BYTES: usize = 8;
/// Bytes of the checksum at the end of a chunk, after the dump id.
const CHECKSUM_BYTES: usize = 16;
/// Bytes of the position at the start of a chunk of a filter with a table.
const START_BYTES: usize = 8;
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
pub(super) const fn iterator_at(position: u64, id: DumpId) -> u64 {
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

/// Returns the chunk of a dump that `iterator` requests, or `None` at its end. O(bytes of the chunk).
pub(super) fn chunk(
    filter: &Filter,
    dump: Option<Dump>,
    iterator: u64,
) -> Result<Option<Chunk<'_>>, DumpError> {
    let dump = dump.ok_or(DumpError::Ended)?;
    let mut writer = ChunkWriter::new(dump.id, dump.has_table);
    if iterator == 0 {
        writer.set_header(&record::encode(filter))?;
        return Ok(Some(writer.end(0)?));
    }
    let position = iterator.checked_sub(first_iterator(dump.id));
    let position = position.filter(|position| *position <= dump.end).ok_or(DumpError::Ended)?;
    // Layers and a table that the filter gained after the header are not part of the dump.
    if position == dump.end {
        return Ok(None);
    }
    let end = match bits_at(filter, position) {
        Some(bits) => {
            writer.set(position, bits)?;
            position.saturating_add(bits.len() as u64)
        }
        None => writer.set_segments(position, filter, position)?.ok_or(DumpError::Ended)?,
    };
    Ok(Some(writer.end(end)?))
}

/// Writes the chunks of a dump, one after another.
pub(super) struct ChunkWriter {
    id: DumpId,
    /// Whether chunks begin with the position at which they start: those of a filter with a table.
    has_start: bool,
    data: Vec<u8>,
}

impl ChunkWriter {
    /// Returns a writer of the chunks of dump `id` of a filter, which may have a table.
    pub(super) const fn new(id: DumpId, has_table: bool) -> Self {
        Self { id, has_start: has_table, data: Vec::new() }
    }

    /// Sets the payload of the next chunk to a header.
    pub(super) fn set_header(&mut self, header: &[u8]) -> Result<(), OutOfMemory> {
        self.reserve(header.len())?;
        self.data.extend_from_slice(header);
        Ok(())
    }

    /// Sets the payload of the next chunk, whose part of the dump starts at the position `start`.
    pub(super) fn set(&mut self, start: u64, content: BitBytes<'_>) -> Result<(), OutOfMemory> {
        self.reserve(content.len())?;
        if self.has_start {
            self.data.extend_from_slice(&start.to_le_bytes());
        }
        content.slices().into_iter().for_each(|slice| self.data.extend_from_slice(slice));
        Ok(())
    }

    /// Does [`set`](Self::set) with segments of the table from `position` on. Returns the position after them; `None` if
    /// there is no table at this position.
    pub(super) fn set_segments(
        &mut self,
        start: u64,
        filter: &Filter,
        position: u64,
    ) -> Result<Option<u64>, OutOfMemory> {
        self.set(start, BitBytes::default())?;
        let first = filter.layers_end();
        let Some((table, position)) = filter.table().zip(position.checked_sub(first)) else {
            return Ok(None);
        };
        let end = append_segments(table, position, &mut self.data)?;
        Ok(Some(end.saturating_add(first)))
    }

    /// Clears the payload, and allocates memory for one with this many bytes of content.
    fn reserve(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let bytes = bytes.saturating_add(START_BYTES).saturating_add(TRAILER_BYTES);
        self.data.clear();
        self.data.try_reserve_exact(bytes).map_err(|_| OutOfMemory)
    }

    /// Returns the payload that was set, to append to it.
    pub(super) const fn payload_mut(&mut self) -> &mut Vec<u8> {
        &mut self.data
    }

    /// Returns the chunk that was set, which ends at a position, with its trailer.
    pub(super) fn end<'c>(&mut self, end: u64) -> Result<Chunk<'c>, OutOfMemory> {
        let next_iterator = iterator_at(end, self.id);
        self.data.try_reserve(TRAILER_BYTES).map_err(|_| OutOfMemory)?;
        let checksum = checksum(&self.data, next_iterator, self.id);
        self.data.extend_from_slice(&self.id.to_le_bytes());
        self.data.extend_from_slice(&checksum);
        Ok(Chunk { next_iterator, data: Cow::Owned(std::mem::take(&mut self.data)) })
    }
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

/// Why a chunk was not loaded. The filter is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// The chunk is damaged, or belongs to another filter or position.
    #[error("the chunk is damaged, or belongs to another filter or position")]
    BadData,
    /// The chunk is valid, but not of the dump whose header created the filter, or that dump is no longer known.
    #[error("the chunk and the header are from different dumps")]
    OtherDump,
    /// The filter has a table and is complete.
    #[error("the filter is complete: it takes no more chunks")]
    Complete,
    /// A part of the table has come twice with different entries, and both together do not fit a segment.
    #[error("the chunk does not fit a chunk that was loaded before: begin again with a new dump")]
    Overlapping,
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

/// A chunk that was verified.
struct Opened<'c> {
    payload: &'c [u8],
    /// The position at which it ends.
    end: u64,
    checksum: ChunkChecksum,
}

/// Verifies a chunk. `next_iterator` is the iterator that BF.SCANDUMP replied with the chunk, and `origin` the dump whose
/// header created the filter.
fn open(
    next_iterator: u64,
    data: &[u8],
    origin: Option<DumpId>,
    trust: Trust,
) -> Result<Opened<'_>, ChunkError> {
    let (payload, id) = verify(data, |_| next_iterator).ok_or(ChunkError::BadData)?;
    let end = next_iterator.checked_sub(first_iterator(id)).filter(|end| *end > 0);
    let end = end.ok_or(ChunkError::BadData)?;
    if matches!(trust, Trust::Client { .. }) && origin != Some(id) {
        return Err(ChunkError::OtherDump);
    }
    let checksum = *data.last_chunk().ok_or(ChunkError::BadData)?;
    Ok(Opened { payload, end, checksum })
}

/// Adds the bits of a chunk to a filter without a table. Returns whether the filter may have changed. A filter with a table
/// is complete: it accepts only the chunk that completed it, again, which changes nothing. O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then unchanged.
pub(super) fn load_chunk(
    filter: &mut Filter,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
) -> Result<bool, ChunkError> {
    let Opened { payload, end, checksum } = open(next_iterator, data, filter.origin(), trust)?;
    if filter.table().is_some() {
        return if filter.is_last_chunk(checksum) { Ok(false) } else { Err(ChunkError::Complete) };
    }
    let position = end.checked_sub(payload.len() as u64).ok_or(ChunkError::BadData)?;
    let (layer, offset) = locate(filter, position).ok_or(ChunkError::BadData)?;
    filter.add_bytes(layer, offset, payload).ok_or(ChunkError::BadData)
}

/// What a chunk did to a filter that is being loaded.
#[derive(Debug)]
pub(super) enum ChunkProgress {
    /// Nothing: it has come before.
    Unchanged,
    /// It was added.
    Added,
    /// It was the last one that was missing. This is the filter.
    Complete(Filter),
}

/// Adds the bits or segments of a chunk to a filter that is being loaded. O(bytes); the last chunk that is missing: see
/// [`LoadingFilter::add`].
///
/// # Errors
/// [`ChunkError`]; the load is then unchanged.
pub(super) fn load_part(
    loading: &mut LoadingFilter,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
    limit: &dyn ByteLimit,
) -> Result<ChunkProgress, ChunkError> {
    let Opened { payload, end, checksum } = open(next_iterator, data, Some(loading.id()), trust)?;
    let (start, content) = payload.split_first_chunk().ok_or(ChunkError::BadData)?;
    let start = u64::from_le_bytes(*start);
    let content = content_of(loading.filter(), start, end, content).map_err(|error| match error {
        DecodeError::OutOfMemory => ChunkError::NoRoom(ReserveError::OutOfMemory),
        _ => ChunkError::BadData,
    })?;
    let now_ms = if let Trust::Client { now_ms } = trust { now_ms } else { u64::MAX };
    let loaded = loading.add(start..end, content, now_ms, limit).map_err(|error| match error {
        LoadError::Invalid(_) => ChunkError::BadData,
        LoadError::Overlapping => ChunkError::Overlapping,
        LoadError::Ahead => ChunkError::Ahead,
        LoadError::NoRoom(error) => ChunkError::NoRoom(error),
    })?;
    Ok(match loaded {
        Loaded::Nothing => ChunkProgress::Unchanged,
        Loaded::Part => ChunkProgress::Added,
        Loaded::All(table) => ChunkProgress::Complete(loading.complete(table, checksum)),
    })
}

/// Returns the content of a chunk from the position `start` to the position `end`. Bits are the last ones before the end.
fn content_of<'c>(
    filter: &Filter,
    start: u64,
    end: u64,
    content: &'c [u8],
) -> Result<ChunkContent<'c>, DecodeError> {
    if let Some(end) = end.checked_sub(filter.layers_end()).filter(|end| *end > 0) {
        return read_segments(content, end).map(ChunkContent::Segments);
    }
    let first = if content.is_empty() { Some(start) } else { end.checked_sub(content.len() as u64) };
    let position = first.filter(|position| *position >= start);
    let place = position.and_then(|position| locate(filter, position));
    let (layer, offset) = place.ok_or(DecodeError::Invalid("position"))?;
    Ok(ChunkContent::Bits { layer, offset, bytes: content })
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
    let id = still_dump_id(hash128(&header).h1.wrapping_add(hash128(&fresh.to_le_bytes()).h2));
    let has_table = filter.table().is_some();
    let mut writer = ChunkWriter::new(id, has_table);
    let mut emit_chunk = |writer: &mut ChunkWriter, end: u64| {
        let Chunk { next_iterator: iterator, data } = writer.end(end)?;
        emit(Rewritten::Chunk { iterator, data: &data });
        Ok(())
    };
    writer.set_header(&header)?;
    emit_chunk(&mut writer, 0)?;
    let (mut start, mut position) = (0u64, 0u64);
    for layer in filter.layers() {
        for (bits, is_clear) in layer_chunks(layer, CHUNK_BYTES, memory) {
            position = position.saturating_add(bits.len() as u64);
            if !is_clear {
                writer.set(start, bits)?;
                emit_chunk(&mut writer, position)?;
                start = position;
            }
        }
    }
    let end = filter.dump_end();
    while has_table && position < end {
        let Some(next) = writer.set_segments(start, filter, position)? else { break };
        emit_chunk(&mut writer, next)?;
        (start, position) = (next, next);
    }
    Ok(())
}
