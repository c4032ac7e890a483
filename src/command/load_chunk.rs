//! BF.LOADCHUNK.

use super::arguments::Arguments;
use super::change::{Change, publish};
use super::effects::Effects;
use super::error::CommandError;
use super::keyspace::{Keyspace, OpenKey, Slot};
use super::number::parse_integer;
use super::reply::Reply;
use super::settings::Host;
use super::table::KeyAccess;
use crate::bloom::{Filter, ReserveError};
use crate::format::DecodeError;
use crate::format::chunks::{ChunkError, HEADER_ITERATOR, Trust};
use crate::format::filter::{from_header, load_chunk};

/// BF.LOADCHUNK: `key iterator data`, the iterator that BF.SCANDUMP answered together with the data. Makes
/// an empty filter of a header, which has iterator 1, or sets the bits of a chunk. O(bytes).
///
/// # Errors
/// What the piece is refused for; the key is then as it was.
pub(super) fn run<'a>(
    mut arguments: Arguments<'a>,
    keyspace: &impl Keyspace,
    reply: &mut impl Reply,
) -> Result<Effects<'a>, CommandError> {
    let key = arguments.key()?;
    let iterator = parse_integer(arguments.required()?).ok_or(CommandError::LoadChunkIterator)?;
    let iterator = u64::try_from(iterator);
    let data = arguments.required()?;
    let mut open = keyspace.open(key, KeyAccess::ReadWrite);
    let made = match open.slot() {
        Slot::WrongType => return Err(CommandError::WrongType),
        Slot::Vacant if iterator == Ok(HEADER_ITERATOR) => Some(empty_filter(data, keyspace)?),
        Slot::Vacant => return Err(CommandError::NotFound),
        Slot::Filter(filter) => {
            let trust = if keyspace.must_obey() { Trust::Sender } else { Trust::Marks };
            let iterator = iterator.map_err(|_| CommandError::BadData)?;
            load_chunk(filter, iterator, data, trust).map_err(chunk_error)?;
            None
        }
    };
    let ((), effects) = publish(&mut open, key, Change::received(made))?;
    reply.simple("OK");
    Ok(effects)
}

/// The empty filter that a header describes.
fn empty_filter(data: &[u8], host: &dyn Host) -> Result<Box<Filter>, CommandError> {
    let mut filter = from_header(data, host).map_err(header_error)?;
    if host.settings().assume_redisbloom_1_1 {
        filter.assume_redisbloom_1_1();
    }
    Ok(Box::new(filter))
}

pub(super) fn header_error(error: DecodeError) -> CommandError {
    match error {
        DecodeError::TooLarge { needed_bytes, limit_bytes } => {
            CommandError::Reserve(ReserveError::TooLarge { needed_bytes, limit_bytes })
        }
        DecodeError::OutOfMemory => CommandError::Reserve(ReserveError::OutOfMemory),
        _ => CommandError::BadData,
    }
}

fn chunk_error(error: ChunkError) -> CommandError {
    match error {
        ChunkError::BadData => CommandError::BadData,
        ChunkError::OtherDump => CommandError::OtherDump,
        ChunkError::BeyondEnd => CommandError::InvalidOffset,
        ChunkError::TooBig => CommandError::ChunkTooBig,
    }
}
