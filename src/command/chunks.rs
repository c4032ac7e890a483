//! The commands that move a filter between servers: BF.SCANDUMP, BF.LOADCHUNK and BF.LOAD.

use super::arguments::Arguments;
use super::effects::{Effects, KeyChange, publish};
use super::error::CommandError;
use super::keyspace::{Host, KeyValue, Keyspace, ReadKey, Reply, Value, WriteKey};
use super::number::parse_integer;
use super::spare::Spare;
use everbloom_filter::ReserveError;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_format::DecodeError;
use everbloom_format::chunks::{Chunk, ChunkError, DumpError, Trust};
use everbloom_format::{filter, value as stored_form};

/// BF.SCANDUMP: `key iterator`. Replies the chunk of the filter at the iterator, and the next iterator. O(bytes of the
/// chunk).
pub(super) fn scan_dump<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, iterator) = (arguments.key()?, arguments.required()?);
    let mut key = keyspace.open_to_read(key);
    key.slot().required()?;
    let iterator = parse_integer(iterator).ok_or(CommandError::ScanDumpIterator)?;
    // A negative iterator becomes `u64::MAX`, which no chunk has.
    let chunk = chunk_at(&mut key, u64::try_from(iterator).unwrap_or(u64::MAX), keyspace)?;
    match &chunk {
        Some(chunk) => write_chunk(chunk, reply),
        None => {
            reply.array(2);
            reply.integer(0);
            reply.bulk(b"");
        }
    }
    Ok(Effects::default())
}

/// Returns the chunk that `iterator` requests of the filter under a key; `None` at the end of the dump. Iterator 0 begins a
/// dump. O(bytes of the chunk).
pub(super) fn chunk_at<'k>(
    key: &'k mut impl ReadKey,
    iterator: u64,
    host: &dyn Host,
) -> Result<Option<Chunk<'k>>, CommandError> {
    let dump = key.remember(|filter, remembered| {
        if iterator == 0 {
            remembered.begin_dump(filter, host.random_number());
        }
        remembered.dump()
    });
    let filter = key.slot().required()?;
    let chunk = filter::chunk(filter, dump.flatten(), iterator).map_err(|error| match error {
        DumpError::Ended => CommandError::DumpEnded,
        DumpError::OutOfMemory => CommandError::OutOfMemory,
    })?;
    Spare::for_copy(chunk.as_ref().map_or(0, |chunk| chunk.data.len()))?.free();
    Ok(chunk)
}

/// Replies a chunk and the iterator of the next one.
pub(super) fn write_chunk(chunk: &Chunk<'_>, reply: &mut impl Reply) {
    reply.array(2);
    reply.integer(chunk.next_iterator);
    reply.bulk(&chunk.data);
}

/// BF.LOADCHUNK: `key iterator data`, with the iterator and data of a reply of BF.SCANDUMP. Creates an empty filter
/// from a header, or adds the bits or entries of a chunk. O(bytes).
///
/// # Errors
/// The chunk is refused. The key is unchanged.
pub(super) fn load_chunk<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let iterator = parse_integer(arguments.required()?).ok_or(CommandError::LoadChunkIterator)?;
    // A negative iterator becomes 0, which no chunk has.
    let iterator = u64::try_from(iterator).unwrap_or(0);
    let data = arguments.required()?;
    let mut open = keyspace.open_to_write(key);
    let change = match open.slot() {
        KeyValue::Vacant if stored_form::is_header(iterator, data) => {
            KeyChange::received(Some(filter_of_header(data, keyspace)?), true)
        }
        _ => KeyChange::received(None, add_chunk(&mut open, iterator, data, keyspace)?),
    };
    let effects = publish(&mut open, key, change)?;
    reply.simple("OK");
    Ok(effects)
}

/// Adds the bits or entries of a chunk to the filter of a key. Returns whether it has changed.
///
/// # Errors
/// The chunk is refused. The filter is unchanged.
pub(super) fn add_chunk(
    open: &mut impl WriteKey,
    iterator: u64,
    data: &[u8],
    host: &dyn Host,
) -> Result<bool, CommandError> {
    let client = Trust::Client { now_ms: host.now_ms() };
    let trust = if host.is_replicated() { Trust::Sender } else { client };
    match open.slot() {
        KeyValue::Loading if stored_form::is_whole_header(data) => return Err(CommandError::Loading),
        KeyValue::Loading => {}
        value => {
            value.required()?;
        }
    }
    let value = open.filter_value().ok_or(CommandError::WrongType)?;
    stored_form::load_chunk(value, iterator, data, trust, host).map_err(chunk_error)
}

/// Returns the filter that a header describes: empty, or being loaded.
pub(super) fn filter_of_header(data: &[u8], host: &dyn Host) -> Result<Value, CommandError> {
    let mut value = stored_form::from_header(data, host).map_err(header_error)?;
    let filter = value.filter_mut();
    if !host.is_replicated() && filter.is_ahead_of(host.now_ms()) {
        return Err(CommandError::ItemsAhead);
    }
    if host.settings().assume_redisbloom_1_1 {
        filter.assume_redisbloom_1_1();
    }
    Ok(match value {
        FilterValue::Complete(filter) => Value::Filter(Box::new(filter)),
        FilterValue::Loading(loading) => Value::Loading(loading),
    })
}

/// Returns the error for a filter that cannot be decoded.
fn header_error(error: DecodeError) -> CommandError {
    match error {
        DecodeError::TooLarge { needed_bytes, limit } => {
            CommandError::Reserve(ReserveError::TooLarge { needed_bytes, limit })
        }
        DecodeError::OutOfMemory => CommandError::Reserve(ReserveError::OutOfMemory),
        _ => CommandError::BadData,
    }
}

fn chunk_error(error: ChunkError) -> CommandError {
    match error {
        ChunkError::BadData => CommandError::BadData,
        ChunkError::OtherDump => CommandError::OtherDump,
        ChunkError::Complete => CommandError::LoadIsComplete,
        ChunkError::Overlapping => CommandError::ChunksDiffer,
        ChunkError::Ahead => CommandError::ItemsAhead,
        ChunkError::BeyondEnd => CommandError::InvalidOffset,
        ChunkError::TooBig => CommandError::ChunkTooBig,
        ChunkError::NoRoom(error) => CommandError::Reserve(error),
    }
}

/// BF.LOAD: `key blob`. Creates a filter from the bytes that valkey-bloom writes to an append-only file. O(bytes).
pub(super) fn load<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, blob) = (arguments.key()?, arguments.required()?);
    let mut open = keyspace.open_to_write(key);
    open.slot().vacant(CommandError::KeyExists)?;
    let filter = filter::from_blob(blob, keyspace).map_err(|error| match error {
        DecodeError::Unsupported { .. } => CommandError::BadBlobVersion,
        DecodeError::TooLarge { .. } | DecodeError::OutOfMemory => header_error(error),
        DecodeError::Truncated
        | DecodeError::PrereleaseOrder
        | DecodeError::Invalid(_)
        | DecodeError::Loading => CommandError::BadBlob,
    })?;
    let effects = publish(&mut open, key, KeyChange::received(Some(Value::Filter(Box::new(filter))), true))?;
    reply.simple("OK");
    Ok(effects)
}
