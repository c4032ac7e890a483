//! The commands that move a filter between servers: BF.SCANDUMP, BF.LOADCHUNK and BF.LOAD.

use super::arguments::Arguments;
use super::effects::{Effects, KeyChange, publish};
use super::error::CommandError;
use super::keyspace::{Host, KeyValue, Keyspace, OpenKey, Reply};
use super::number::parse_integer;
use super::spare::Spare;
use super::table::KeyAccess;
use crate::bloom::{Filter, ReserveError};
use crate::format::DecodeError;
use crate::format::chunks::{ChunkError, DumpError, Trust};
use crate::format::filter;

/// BF.SCANDUMP: `key iterator`. Replies the chunk of the filter at the iterator, and the next iterator. Changes only
/// the dump id of the filter, which is not saved. O(bytes of the chunk).
///
/// # Errors
/// The iterator is not an integer, or not one of the last dump. Or there is no memory for the chunk.
pub(super) fn scan_dump<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, iterator) = (arguments.key()?, arguments.required()?);
    let mut key = keyspace.open(key, KeyAccess::ReadOnly);
    let filter = key.slot().required()?;
    let iterator = parse_integer(iterator).ok_or(CommandError::ScanDumpIterator)?;
    if iterator == 0 {
        filter.begin_dump(keyspace.random_number());
    }
    // A negative iterator becomes `u64::MAX`, which no chunk has.
    let iterator = u64::try_from(iterator).unwrap_or(u64::MAX);
    let chunk = filter::chunk(filter, iterator).map_err(|error| match error {
        DumpError::Ended => CommandError::DumpEnded,
        DumpError::OutOfMemory => CommandError::OutOfMemory,
    })?;
    let (iterator, data) = chunk.as_ref().map_or((0, &b""[..]), |chunk| (chunk.next_iterator, &chunk.data));
    Spare::for_copy(data.len())?.free();
    reply.array(2);
    reply.integer(iterator);
    reply.bulk(data);
    Ok(Effects::default())
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
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let created = match open.slot() {
        KeyValue::WrongType => return Err(CommandError::WrongType),
        KeyValue::Vacant if filter::is_header(iterator, data) => Some(empty_filter(data, keyspace)?),
        KeyValue::Vacant => return Err(CommandError::NotFound),
        KeyValue::Present(filter) => {
            let client = Trust::Client { now_ms: keyspace.now_ms() };
            let trust = if keyspace.is_replicated() { Trust::Sender } else { client };
            filter::load_chunk(filter, iterator, data, trust, keyspace).map_err(chunk_error)?;
            None
        }
    };
    let effects = publish(&mut open, key, KeyChange::received(created))?;
    reply.simple("OK");
    Ok(effects)
}

/// Returns the empty filter that a header describes.
fn empty_filter(data: &[u8], host: &dyn Host) -> Result<Box<Filter>, CommandError> {
    let mut filter = filter::from_header(data, host).map_err(header_error)?;
    if !host.is_replicated() && filter.is_ahead_of(host.now_ms()) {
        return Err(CommandError::ItemsAhead);
    }
    if host.settings().assume_redisbloom_1_1 {
        filter.assume_redisbloom_1_1();
    }
    Ok(Box::new(filter))
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
        ChunkError::Ahead => CommandError::ItemsAhead,
        ChunkError::BeyondEnd => CommandError::InvalidOffset,
        ChunkError::TooBig => CommandError::ChunkTooBig,
        ChunkError::NoRoom(error) => CommandError::Reserve(error),
    }
}

/// BF.LOAD: `key blob`. Creates a filter from the bytes that valkey-bloom writes to an append-only file. O(bytes).
///
/// # Errors
/// The key exists, or the blob is not a filter.
pub(super) fn load<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let (key, blob) = (arguments.key()?, arguments.required()?);
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    open.slot().vacant(CommandError::KeyExists)?;
    let filter = filter::from_blob(blob, keyspace).map_err(|error| match error {
        DecodeError::Unsupported { .. } => CommandError::BadBlobVersion,
        DecodeError::TooLarge { .. } | DecodeError::OutOfMemory => header_error(error),
        DecodeError::Truncated | DecodeError::PrereleaseOrder | DecodeError::Invalid(_) => {
            CommandError::BadBlob
        }
    })?;
    let effects = publish(&mut open, key, KeyChange::received(Some(Box::new(filter))))?;
    reply.simple("OK");
    Ok(effects)
}
