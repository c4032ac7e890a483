//! Reading and writing filters, depending on their format.

use super::chunks::{self, Chunk, ChunkError, DumpError, Rewritten, Trust};
use super::contents::{STRING_BYTES, layer_chunks};
use super::record::{self, Record};
use super::stream::{DecodeError, Sink, Source};
use super::{DataType, redisbloom, snapshot, valkeybloom};
use crate::bloom::hash::murmur2::Murmur2;
use crate::bloom::work::count_slots;
use crate::bloom::{ByteLimit, Filter, Format, Hash, Layer, Memory, OutOfMemory, Policy};

/// Writes a filter to a snapshot, as the newest release of its module does. O(bytes); O(bytes that may be set) for
/// everbloom's own filters. The filter changes only in the space for a head before the bits of a layer.
pub fn save(filter: &mut Filter, sink: &mut impl Sink, memory: impl Memory) {
    match filter.policy() {
        Policy::RedisBloom(policy) => redisbloom::rdb::save(policy, filter, sink),
        Policy::ValkeyBloom(policy) => {
            let policy = **policy;
            valkeybloom::save(&policy, filter.layers_mut(), sink);
        }
        _ => snapshot::save(filter, sink, memory),
    }
}

/// Reads a value of a format's data type. O(bytes); takes the memory of the filter and of its largest string.
///
/// # Errors
/// The first wrong field, [`DecodeError::TooLarge`] if the filter exceeds the limit, or [`DecodeError::OutOfMemory`].
pub fn load(
    format: Format,
    encoding_version: i32,
    source: &mut impl Source,
    limit: &dyn ByteLimit,
) -> Result<Filter, DecodeError> {
    // The other modules began with encoding version 0.
    let oldest_version = if format == Format::Everbloom { 1 } else { 0 };
    if !(oldest_version..=DataType::of(format).encoding_version).contains(&encoding_version) {
        return Err(DecodeError::unsupported("encoding version", encoding_version.unsigned_abs()));
    }
    match format {
        Format::Everbloom => {
            let filter = snapshot::load(source, limit)?;
            // A record of valkey-bloom's format is valid in a dump, but not in a snapshot.
            if filter.format() == Format::Everbloom {
                Ok(filter)
            } else {
                Err(DecodeError::Invalid("policy"))
            }
        }
        Format::RedisBloom => redisbloom::rdb::load(source, encoding_version, limit),
        Format::ValkeyBloom => valkeybloom::load(source, encoding_version, limit),
    }
}

/// Calls `emit` with the commands that recreate the filter, in order, for the module of its format. O(bytes that may
/// be set); O(bytes) for filters of other formats.
///
/// `fresh` is a number that no other rewrite has.
///
/// # Errors
/// [`OutOfMemory`] if a chunk cannot be allocated; `emit` may have been called then.
pub fn rewrite(
    filter: &Filter,
    memory: impl Memory,
    fresh: u64,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    match filter.policy() {
        Policy::RedisBloom(policy) => {
            redisbloom::rewrite(policy, filter, emit);
            return Ok(());
        }
        // If there is no memory for a string of the whole filter, the filter is written in chunks.
        Policy::ValkeyBloom(policy) => {
            if let Ok(blob) = valkeybloom::encode_blob(policy, filter.layers()) {
                emit(Rewritten::Blob(&blob));
                return Ok(());
            }
        }
        _ => {}
    }
    chunks::rewrite(filter, memory, fresh, emit)
}

/// Returns the chunk that `iterator` requests, or `None` at the end of the dump. Iterator 0 requests the header;
/// [`Filter::begin_dump`] must be called before it. O(bytes of the chunk).
///
/// # Errors
/// [`DumpError`]. A dump in RedisBloom's format never ends, because its iterators do not depend on a dump id.
pub fn chunk(filter: &Filter, iterator: u64) -> Result<Option<Chunk<'_>>, DumpError> {
    match filter.policy() {
        Policy::RedisBloom(policy) => Ok(redisbloom::chunk(policy, filter, iterator)),
        _ => chunks::chunk(filter, iterator),
    }
}

/// Returns whether data with this iterator is to be read as a header, and not as a chunk of an existing filter.
/// O(bytes).
#[must_use]
pub fn is_header(iterator: u64, data: &[u8]) -> bool {
    iterator == redisbloom::HEADER_ITERATOR || chunks::is_header(iterator, data)
}

/// Returns an empty filter of the shape that the header of a dump describes. RedisBloom's headers have no magic bytes,
/// so a header without everbloom's trailer is read as RedisBloom's. O(layers).
///
/// # Errors
/// [`DecodeError`] for a header that is damaged, invalid, or larger than `limit` allows.
pub fn from_header(data: &[u8], limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let Some((payload, id)) = chunks::open_header(data) else {
        return redisbloom::header::decode(data, limit);
    };
    let Record { mut filter, used_slots, .. } = record::decode(payload, limit)?;
    filter.begin_loading(id, used_slots);
    Ok(filter)
}

/// Adds the bits or entries of a chunk. O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then unchanged.
pub fn load_chunk(
    filter: &mut Filter,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
    limit: &dyn ByteLimit,
) -> Result<(), ChunkError> {
    match filter.format() {
        Format::RedisBloom => redisbloom::load_chunk(filter, next_iterator, data),
        Format::Everbloom | Format::ValkeyBloom => {
            chunks::load_chunk(filter, next_iterator, data, trust, limit)
        }
    }
}

/// Returns the filter in a blob of BF.LOAD, which only valkey-bloom writes. O(bytes).
///
/// # Errors
/// The first wrong field of the blob, as in [`load`].
pub fn from_blob(blob: &[u8], limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    valkeybloom::decode_blob(blob, limit)
}

/// Returns the header of a filter, which describes everything but its bits and entries. O(layers).
#[must_use]
pub fn header(filter: &Filter) -> Vec<u8> {
    match filter.policy() {
        Policy::RedisBloom(policy) => redisbloom::header::encode(policy, filter),
        _ => record::encode(filter),
    }
}

/// Calls `add` with strings of bytes. Two filters have the same strings if and only if they have the same replies and
/// the same saved form. O(bytes that may be set).
pub fn digest(filter: &Filter, memory: impl Memory, add: &mut dyn FnMut(&[u8])) {
    add(&header(filter));
    if let (Format::RedisBloom, Some(Hash::RedisBloom(Murmur2::WideCutSeeds))) =
        (filter.format(), filter.layers().first().map(Layer::hash))
    {
        // A filter of RedisBloom 1.1 has the same bytes as one of later releases, but other replies. This string makes
        // the digest differ on a replica with another `bf.assume-redisbloom-1-1`.
        add(b"1.1");
    }
    for layer in filter.layers() {
        let mut end = 0u64;
        for (bits, is_clear) in layer_chunks(layer, STRING_BYTES, memory) {
            end = end.saturating_add(bits.len() as u64);
            if !is_clear {
                add(&end.to_le_bytes());
                add(bits);
            }
        }
    }
    let Some(table) = filter.table() else { return };
    for (number, words, stamp) in table.segments() {
        count_slots(|| words.len());
        add(bytemuck::cast_slice(&[number as u64, stamp]));
        add(bytemuck::cast_slice(words));
    }
}
