//! BF.SCANDUMP, BF.LOADCHUNK and BF.LOAD.

use super::Slot;
use super::effects::{Effects, Replication};
use super::error::CommandError;
use super::number::parse_integer;
use super::reply::Reply;
use super::settings::Host;
use crate::bloom::{Filter, OutOfMemory, ReserveError};
use crate::format::DecodeError;
use crate::format::filter::{from_header, load_chunk, piece};
use crate::format::pieces::{ChunkError, HEADER_ITERATOR, Trust};
use crate::format::valkeybloom::decode_blob;

/// BF.SCANDUMP: the piece of the filter that `iterator` stands for, and the iterator after it.
///
/// # Errors
/// [`CommandError::ScanDumpIterator`] when the iterator is not an integer; [`CommandError::OutOfMemory`].
pub fn scan(
    filter: &mut Filter,
    iterator: &[u8],
    host: &dyn Host,
    reply: &mut impl Reply,
) -> Result<(), CommandError> {
    let iterator = parse_integer(iterator).ok_or(CommandError::ScanDumpIterator)?;
    if iterator == 0 {
        filter.mark_state(host.random_number());
    }
    let piece = match u64::try_from(iterator) {
        Ok(iterator) => piece(filter, iterator).map_err(|OutOfMemory| CommandError::OutOfMemory)?,
        Err(_) => None,
    };
    reply.array(2);
    match piece {
        Some(piece) => {
            reply.integer(piece.next_iterator);
            reply.bulk(&piece.data);
        }
        None => {
            reply.integer(0);
            reply.bulk(b"");
        }
    }
    Ok(())
}

/// BF.LOADCHUNK with its arguments understood.
#[derive(Debug)]
pub struct LoadChunk<'a> {
    /// The iterator that BF.SCANDUMP answered together with the data.
    pub iterator: i64,
    /// A header for iterator 1, else a chunk of bits.
    pub data: &'a [u8],
}

impl LoadChunk<'_> {
    /// Makes an empty filter of a header, or sets the bits of a chunk.
    ///
    /// # Errors
    /// What the piece is refused for; the key is then as it was.
    pub fn run<'a>(self, slot: Slot<&mut Filter>, host: &dyn Host) -> Result<Effects<'a>, CommandError> {
        let iterator = u64::try_from(self.iterator);
        let publish = match slot {
            Slot::WrongType => return Err(CommandError::WrongType),
            Slot::Vacant if iterator == Ok(HEADER_ITERATOR) => Some(self.header(host)?),
            Slot::Vacant => return Err(CommandError::NotFound),
            // Release 0.1 took a header over a filter for a new start: its logs and its primaries may hold one.
            Slot::Filter(_) if iterator == Ok(HEADER_ITERATOR) && host.must_obey() => {
                Some(self.header(host)?)
            }
            Slot::Filter(filter) => {
                let trust = if host.must_obey() { Trust::Sender } else { Trust::Marks };
                let iterator = iterator.map_err(|_| CommandError::BadData)?;
                load_chunk(filter, iterator, self.data, trust).map_err(chunk_error)?;
                None
            }
        };
        let created = publish.is_some();
        Ok(Effects { publish, replication: Replication::Verbatim, created, items_added: 0 })
    }

    fn header(&self, host: &dyn Host) -> Result<Box<Filter>, CommandError> {
        let mut filter = from_header(self.data, host).map_err(header_error)?;
        if host.settings().assume_redisbloom_1_1 {
            filter.assume_redisbloom_1_1();
        }
        Ok(Box::new(filter))
    }
}

/// BF.LOAD with its arguments understood.
#[derive(Debug)]
pub struct Load<'a> {
    /// A filter as valkey-bloom writes it to an append-only file.
    pub blob: &'a [u8],
}

impl Load<'_> {
    /// Makes the filter. O(bytes).
    ///
    /// # Errors
    /// When the key is taken or the blob is not a filter.
    pub fn run<'a>(self, slot: &Slot<&mut Filter>, host: &dyn Host) -> Result<Effects<'a>, CommandError> {
        match slot {
            Slot::WrongType => return Err(CommandError::WrongType),
            Slot::Filter(_) => return Err(CommandError::KeyExists),
            Slot::Vacant => {}
        }
        let chain = decode_blob(self.blob, host).map_err(|error| match error {
            DecodeError::Unsupported { .. } => CommandError::BadBlobVersion,
            DecodeError::TooLarge { .. } | DecodeError::OutOfMemory => header_error(error),
            DecodeError::Truncated | DecodeError::PrereleaseOrder | DecodeError::Invalid(_) => {
                CommandError::BadBlob
            }
        })?;
        let publish = Some(Box::new(Filter::ValkeyBloom(Box::new(chain))));
        Ok(Effects { publish, replication: Replication::Verbatim, created: true, items_added: 0 })
    }
}

fn header_error(error: DecodeError) -> CommandError {
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
        ChunkError::BeyondEnd => CommandError::InvalidOffset,
        ChunkError::TooBig => CommandError::ChunkTooBig,
    }
}
