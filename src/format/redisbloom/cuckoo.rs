//! RedisBloom's cuckoo filters in snapshots and in chunks: its type `MBbloomCF`, encoding version 4, and the header and
//! chunks of CF.SCANDUMP.
//!
//! Filters of RedisBloom before 2.2 (encoding versions 0 to 3) have another hash. Later releases read them and lose their
//! members. They are saved here with encoding version 4, no arrays, and then fields of our own, so that RedisBloom refuses
//! them.

use crate::chunks::{Chunk, ChunkError, Rewritten};
use crate::contents::CHUNK_BYTES;
use crate::payload::EncodedFields;
use crate::stream::{DecodeError, Sink, Source, append, read};
use everbloom_filter::cuckoo::array::{BucketArray, CuckooRelease, SlotsError};
use everbloom_filter::cuckoo::filter::{ARRAYS_MAX, CuckooFilter, CuckooParameters};
use everbloom_filter::{ByteLimit, OutOfMemory};

/// The name of the type in a server.
pub const TYPE_NAME: &str = "MBbloomCF";
/// The encoding version that is written. Older ones are read too.
pub const ENCODING_VERSION: i32 = 4;
/// The encoding versions of filters with the old hash.
const OLD_VERSIONS: std::ops::Range<i32> = 0..ENCODING_VERSION;
/// The parameters of filters with the old hash, besides the buckets: RedisBloom did not save them.
const OLD_PARAMETERS: CuckooParameters =
    CuckooParameters { buckets: 1, bucket_size: 2, max_iterations: 500, expansion: 1 };
/// The version of our fields of filters with the old hash.
const OLD_FIELDS_VERSION: u64 = 1;
/// The iterator of a header.
pub const HEADER_ITERATOR: u64 = 1;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 38;
/// Bytes of a header of RedisBloom 2.2.0 to 2.2.10, which ends with an address.
const LONG_HEADER_BYTES: usize = 46;

/// The fields of a header: items, buckets, deletions, arrays, slots of a bucket, iterations, expansion.
type HeaderFields = (u64, u64, u64, u64, u16, u16, u16);

/// Writes a filter: every slot, also those that were never written to, because RedisBloom has an array in one string.
/// O(bytes); this module reads none of them.
pub fn save(filter: &CuckooFilter, sink: &mut impl Sink) {
    if filter.release() == CuckooRelease::Old {
        let count = filter.arrays().len() as u64;
        let numbers =
            [0, OLD_FIELDS_VERSION, count, filter.parameters().buckets, filter.items(), filter.deletes()];
        numbers.into_iter().for_each(|number| sink.unsigned(number));
        filter.arrays().iter().for_each(|array| sink.bytes(array.bytes()));
        return;
    }
    let CuckooParameters { buckets, bucket_size, max_iterations, expansion } = *filter.parameters();
    let numbers = [filter.arrays().len() as u64, buckets, filter.items(), filter.deletes()];
    numbers.into_iter().for_each(|number| sink.unsigned(number));
    let numbers = [u16::from(bucket_size), max_iterations, expansion];
    numbers.into_iter().for_each(|number| sink.unsigned(number.into()));
    for array in filter.arrays() {
        sink.unsigned(array.buckets());
        sink.bytes(array.bytes());
    }
}

/// Reads a filter. O(bytes); takes the memory of the filter and of its largest array.
///
/// # Errors
/// The first wrong field, or [`DecodeError::TooLarge`] if the filter exceeds the limit.
pub fn load(
    encoding_version: i32,
    source: &mut impl Source,
    limit: &dyn ByteLimit,
) -> Result<CuckooFilter, DecodeError> {
    if OLD_VERSIONS.contains(&encoding_version) {
        let (count, buckets, items) = (source.unsigned()?, source.unsigned()?, source.unsigned()?);
        return load_old([count, buckets, items, 0], source, limit);
    }
    if encoding_version != ENCODING_VERSION {
        return Err(DecodeError::unsupported("encoding version", encoding_version.unsigned_abs()));
    }
    let count = source.unsigned()?;
    if count == 0 {
        let version = source.unsigned()?;
        if version != OLD_FIELDS_VERSION {
            return Err(DecodeError::unsupported("filters", version));
        }
        let (count, buckets) = (source.unsigned()?, source.unsigned()?);
        let (items, deletes) = (source.unsigned()?, source.unsigned()?);
        return load_old([count, buckets, items, deletes], source, limit);
    }
    let buckets = source.unsigned()?;
    let (items, deletes) = (source.unsigned()?, source.unsigned()?);
    let (bucket_size, max_iterations) = (source.unsigned()?, source.unsigned()?);
    let expansion = source.unsigned()?;
    let bucket_size = u8::try_from(bucket_size).map_err(|_| DecodeError::Invalid("bucket size"))?;
    let max_iterations =
        u16::try_from(max_iterations).map_err(|_| DecodeError::Invalid("maximum of iterations"))?;
    let expansion = u16::try_from(expansion).map_err(|_| DecodeError::Invalid("expansion"))?;
    let parameters = CuckooParameters { buckets, bucket_size, max_iterations, expansion };
    let arrays = load_arrays(count, bucket_size, true, source, limit)?;
    let filter = CuckooFilter::from_parts(parameters, CuckooRelease::Current, items, deletes, arrays);
    filter.map_err(DecodeError::Invalid)
}

/// Reads the arrays of a filter with the old hash. `numbers` are its arrays, buckets, items and deletions.
fn load_old(
    numbers: [u64; 4],
    source: &mut impl Source,
    limit: &dyn ByteLimit,
) -> Result<CuckooFilter, DecodeError> {
    let [count, buckets, items, deletes] = numbers;
    let parameters = CuckooParameters { buckets, ..OLD_PARAMETERS };
    let arrays = load_arrays(count, parameters.bucket_size, false, source, limit)?;
    let filter = CuckooFilter::from_parts(parameters, CuckooRelease::Old, items, deletes, arrays);
    filter.map_err(DecodeError::Invalid)
}

/// The error of an array whose bytes are not the slots of its buckets.
const ARRAY_LENGTH: DecodeError = DecodeError::Invalid("array length");

/// Reads arrays, each after its number of buckets if that `has_buckets`.
fn load_arrays(
    count: u64,
    bucket_size: u8,
    has_buckets: bool,
    source: &mut impl Source,
    limit: &dyn ByteLimit,
) -> Result<Vec<BucketArray>, DecodeError> {
    if count == 0 || count > ARRAYS_MAX as u64 {
        return Err(DecodeError::Invalid("filters"));
    }
    let (mut arrays, mut needed_bytes) = (Vec::new(), 0u64);
    for _ in 0..count {
        let buckets = if has_buckets { Some(source.unsigned()?) } else { None };
        source.expect_bytes(buckets.unwrap_or(0).saturating_mul(bucket_size.into()))?;
        let read = source.bytes()?;
        let buckets = buckets.unwrap_or(read.len() as u64 / u64::from(bucket_size.max(1)));
        let array_bytes = BucketArray::needed_bytes(read.len() as u64, 1).ok_or(ARRAY_LENGTH)?;
        needed_bytes = needed_bytes.saturating_add(array_bytes);
        limit.permits(needed_bytes).map_err(|limit| DecodeError::TooLarge { needed_bytes, limit })?;
        let array = BucketArray::of_bytes(buckets, bucket_size, &read).map_err(|error| match error {
            SlotsError::Length => ARRAY_LENGTH,
            SlotsError::OutOfMemory => DecodeError::OutOfMemory,
        })?;
        arrays.try_reserve(1).map_err(|_| DecodeError::OutOfMemory)?;
        arrays.push(array);
    }
    Ok(arrays)
}

/// Returns the header of a filter.
#[must_use]
pub fn header(filter: &CuckooFilter) -> Vec<u8> {
    let CuckooParameters { buckets, bucket_size, max_iterations, expansion } = *filter.parameters();
    let fields: HeaderFields = (
        filter.items(),
        buckets,
        filter.deletes(),
        filter.arrays().len() as u64,
        bucket_size.into(),
        max_iterations,
        expansion,
    );
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    append(&mut bytes, &fields);
    bytes
}

/// Returns the filter that a header describes, with free slots. O(arrays).
///
/// # Errors
/// [`DecodeError::Truncated`] for another length, and any other error for a filter that is refused.
pub fn from_header(data: &[u8], limit: &dyn ByteLimit) -> Result<CuckooFilter, DecodeError> {
    if ![HEADER_BYTES, LONG_HEADER_BYTES].contains(&data.len()) {
        return Err(DecodeError::Truncated);
    }
    let mut rest = data;
    let fields: HeaderFields = read(&mut rest)?;
    let (items, buckets, deletes, count, bucket_size, max_iterations, expansion) = fields;
    let bucket_size = u8::try_from(bucket_size).map_err(|_| DecodeError::Invalid("bucket size"))?;
    // RedisBloom reads the low 16 bits.
    let [low, high, ..] = count.to_le_bytes();
    let count = usize::from(u16::from_le_bytes([low, high]));
    let parameters = CuckooParameters { buckets, bucket_size, max_iterations, expansion };
    parameters.check_header(count).map_err(DecodeError::Invalid)?;
    Ok(CuckooFilter::of_header(parameters, items, deletes, count, limit)?)
}

/// Returns the chunk that `iterator` requests; `None` at the end. Iterator 0 requests the header. O(bytes of the chunk).
#[must_use]
pub fn chunk(filter: &CuckooFilter, iterator: u64) -> Option<Chunk<'_>> {
    if iterator == 0 {
        return Some(Chunk { next_iterator: HEADER_ITERATOR, data: header(filter).into() });
    }
    let position = iterator.saturating_sub(1);
    let mut offset = position;
    for array in filter.arrays() {
        let length = array.slots();
        let Some(rest) = length.checked_sub(offset).filter(|rest| *rest > 0) else {
            offset = offset.saturating_sub(length);
            continue;
        };
        // An array of one chunk is sent whole, whatever position in it is requested.
        let (start, most) = if length <= CHUNK_BYTES as u64 { (0, length) } else { (offset, rest) };
        let start = usize::try_from(start).ok()?;
        let bytes = array.bytes().get(start..)?;
        let data = bytes.get(..bytes.len().min(usize::try_from(most).ok()?).min(CHUNK_BYTES))?;
        let next_iterator = iterator.saturating_add(data.len() as u64);
        return Some(Chunk { next_iterator, data: data.into() });
    }
    None
}

/// Writes the bytes of a chunk. `iterator` is the one that CF.SCANDUMP replied with it. Returns whether the filter has
/// changed. O(bytes).
///
/// # Errors
/// [`ChunkError::BadData`]; the filter is then unchanged.
pub fn load_chunk(filter: &mut CuckooFilter, iterator: u64, data: &[u8]) -> Result<bool, ChunkError> {
    let position = iterator.checked_sub(1).and_then(|end| end.checked_sub(data.len() as u64));
    let mut offset = position.filter(|_| !data.is_empty()).ok_or(ChunkError::BadData)?;
    let last = filter.arrays().len().saturating_sub(1);
    for (index, array) in filter.arrays_mut().iter_mut().enumerate() {
        let length = array.slots();
        // As in RedisBloom, a position after the end is one of the last array, counted from that end.
        if offset >= length && index < last {
            offset = offset.saturating_sub(length);
            continue;
        }
        if offset >= length {
            offset = offset.saturating_sub(length);
        }
        return array.write(offset, data).ok_or(ChunkError::BadData);
    }
    Err(ChunkError::BadData)
}

/// Calls `add` with strings of bytes that differ if filters differ. Does not touch memory that was never written to. O(arrays
/// + bytes that may have a fingerprint).
pub fn digest(filter: &CuckooFilter, add: &mut dyn FnMut(&[u8])) {
    add(&header(filter));
    for array in filter.arrays() {
        add(&array.buckets().to_le_bytes());
        for (position, slots) in array.parts(CHUNK_BYTES) {
            add(&(position as u64).to_le_bytes());
            add(slots);
        }
    }
}

/// Calls `emit` with the commands that recreate the filter, in order. Pages of free slots are omitted, because the header
/// creates free slots. O(arrays + bytes that may have a fingerprint); O(bytes) for a payload.
///
/// # Errors
/// [`OutOfMemory`] if a payload cannot be allocated.
pub fn rewrite(filter: &CuckooFilter, emit: &mut dyn FnMut(Rewritten<'_>)) -> Result<(), OutOfMemory> {
    if !filter.has_header() {
        let mut fields = EncodedFields::default();
        save(filter, &mut fields);
        emit(Rewritten::Payload(&fields.payload(TYPE_NAME, ENCODING_VERSION)?));
        return Ok(());
    }
    let mut start = HEADER_ITERATOR;
    emit(Rewritten::CuckooChunk { iterator: start, data: &header(filter) });
    for array in filter.arrays() {
        for (position, data) in array.parts(CHUNK_BYTES) {
            let iterator = start.saturating_add(position as u64).saturating_add(data.len() as u64);
            emit(Rewritten::CuckooChunk { iterator, data });
        }
        start = start.saturating_add(array.slots());
    }
    Ok(())
}
