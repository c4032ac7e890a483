//! Reading and writing filters that are complete or that are being loaded.

use super::chunks::{self, ChunkError, ChunkProgress, Rewritten, Trust};
use super::record::{self, Record};
use super::stream::{DecodeError, Sink, Source};
use super::{DataType, filter, loading, redisbloom, snapshot, valkeybloom};
use everbloom_filter::bits::is_clear;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::{ByteLimit, Format, Memory, OutOfMemory};

/// Does [`filter::save`] for a complete filter. Writes a filter that is being loaded with the parts that have arrived.
/// O(bytes).
pub fn save(value: &FilterValue, sink: &mut impl Sink, memory: impl Memory) {
    match value {
        FilterValue::Complete(filter) => filter::save(filter, sink, memory),
        FilterValue::Loading(load) => loading::save(load, sink, memory),
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
) -> Result<FilterValue, DecodeError> {
    // The other modules began with encoding version 0.
    let oldest_version = if format == Format::Everbloom { 1 } else { 0 };
    if !(oldest_version..=DataType::of(format).encoding_version).contains(&encoding_version) {
        return Err(DecodeError::unsupported("encoding version", encoding_version.unsigned_abs()));
    }
    match format {
        Format::Everbloom => {
            let header = source.bytes()?;
            if *header == *loading::MARK {
                return loading::load(source, limit).map(|load| FilterValue::Loading(Box::new(load)));
            }
            let filter = snapshot::load(&header, source, limit)?;
            // A record of valkey-bloom's format is valid in a dump, but not in a snapshot.
            if filter.format() != Format::Everbloom {
                return Err(DecodeError::Invalid("policy"));
            }
            Ok(FilterValue::Complete(filter))
        }
        Format::RedisBloom => {
            redisbloom::rdb::load(source, encoding_version, limit).map(FilterValue::Complete)
        }
        Format::ValkeyBloom => valkeybloom::load(source, encoding_version, limit).map(FilterValue::Complete),
    }
}

/// Does [`filter::rewrite`] for a complete filter. Emits the header and the chunks that have arrived of a filter that is
/// being loaded. O(bytes).
///
/// # Errors
/// [`OutOfMemory`] if a chunk cannot be allocated; `emit` may have been called then.
pub fn rewrite(
    value: &FilterValue,
    memory: impl Memory,
    fresh: u64,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    match value {
        FilterValue::Complete(filter) => filter::rewrite(filter, memory, fresh, emit),
        FilterValue::Loading(load) => loading::rewrite(load, memory, emit),
    }
}

/// Returns whether data with this iterator is to be read as a header, and not as a chunk of an existing filter.
/// O(bytes).
#[must_use]
pub fn is_header(iterator: u64, data: &[u8]) -> bool {
    iterator == redisbloom::HEADER_ITERATOR || chunks::is_header(iterator, data)
}

/// Returns whether data is an undamaged header of everbloom's. O(bytes).
#[must_use]
pub fn is_whole_header(data: &[u8]) -> bool {
    chunks::open_header(data).is_some()
}

/// Returns the filter that the header of a dump describes: empty, or being loaded if it has a table. RedisBloom's headers
/// have no magic bytes, so a header without everbloom's trailer is read as RedisBloom's. O(layers).
///
/// # Errors
/// [`DecodeError`] for a header that is damaged, invalid, or larger than `limit` allows.
pub fn from_header(data: &[u8], limit: &dyn ByteLimit) -> Result<FilterValue, DecodeError> {
    let Some((payload, id)) = chunks::open_header(data) else {
        return redisbloom::header::decode(data, limit).map(FilterValue::Complete);
    };
    let Record { mut filter, table, .. } = record::decode(payload, limit)?;
    if let Some(table) = table {
        let load = loading::begin(filter, payload, table, id)?;
        return Ok(FilterValue::Loading(Box::new(load)));
    }
    filter.set_origin(id);
    Ok(FilterValue::Complete(filter))
}

/// Adds the bits or segments of a chunk to a filter. Returns whether the filter may have changed. The last chunk that was
/// missing completes a filter that is being loaded. O(bytes); for that chunk, see
/// [`LoadingFilter::add`](everbloom_filter::filter::loading::LoadingFilter::add).
///
/// # Errors
/// [`ChunkError`]; the filter is then unchanged.
pub fn load_chunk(
    value: &mut FilterValue,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
    limit: &dyn ByteLimit,
) -> Result<bool, ChunkError> {
    match value {
        FilterValue::Complete(filter) if filter.format() == Format::RedisBloom => {
            let has_changed = redisbloom::load_chunk(filter, next_iterator, data)?;
            // A replica may be an old RedisBloom, whose array of a header is not clear.
            Ok(has_changed || is_clear(data))
        }
        FilterValue::Complete(filter) => chunks::load_chunk(filter, next_iterator, data, trust),
        FilterValue::Loading(loading) => {
            let progress = chunks::load_part(loading, next_iterator, data, trust, limit)?;
            let has_changed = !matches!(progress, ChunkProgress::Unchanged);
            if let ChunkProgress::Complete(filter) = progress {
                *value = FilterValue::Complete(filter);
            }
            Ok(has_changed)
        }
    }
}

/// Calls `add` with strings of bytes. Two values have the same strings if and only if they have the same replies and
/// the same saved form. O(bytes that may be set).
pub fn digest(value: &FilterValue, memory: impl Memory, add: &mut dyn FnMut(&[u8])) {
    match value {
        FilterValue::Complete(filter) => filter::digest(filter, memory, add),
        FilterValue::Loading(load) => loading::digest(load, memory, add),
    }
}
