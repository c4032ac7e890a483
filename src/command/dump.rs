//! BF.SCANDUMP, BF.LOADCHUNK and BF.LOAD.

use super::Slot;
use super::effects::{Effects, Replication};
use super::error::CommandError;
use super::number::parse_integer;
use super::reply::Reply;
use super::settings::Host;
use crate::bloom::{Filter, ReserveError};
use crate::format::DecodeError;
use crate::format::dump::{ChunkError, HEADER_ITERATOR};
use crate::format::filter::{from_header, load_chunk, piece};
use crate::format::valkeybloom::decode_blob;

/// BF.SCANDUMP: the piece of the filter that `iterator` stands for, and the iterator after it.
///
/// # Errors
/// [`CommandError::ScanDumpIterator`] when the iterator is not an integer.
pub fn scan(filter: &Filter, iterator: &[u8], reply: &mut impl Reply) -> Result<(), CommandError> {
    let iterator = parse_integer(iterator).ok_or(CommandError::ScanDumpIterator)?;
    let piece = u64::try_from(iterator).ok().and_then(|iterator| piece(filter, iterator));
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
    /// Loads the piece. A header starts over: it puts an empty filter in place of one that is there.
    ///
    /// # Errors
    /// What the piece is refused for; the key is then as it was.
    pub fn run<'a>(self, slot: Slot<&mut Filter>, host: &dyn Host) -> Result<Effects<'a>, CommandError> {
        let publish = match (slot, u64::try_from(self.iterator)) {
            (Slot::WrongType, _) => return Err(CommandError::WrongType),
            (_, Ok(HEADER_ITERATOR)) => {
                let mut filter = from_header(self.data, host).map_err(header_error)?;
                if host.settings().assume_redisbloom_1_1 {
                    filter.assume_redisbloom_1_1();
                }
                Some(Box::new(filter))
            }
            (Slot::Vacant, _) => return Err(CommandError::NotFound),
            (Slot::Filter(_), Err(_)) => return Err(CommandError::BadData),
            (Slot::Filter(filter), Ok(iterator)) => {
                load_chunk(filter, iterator, self.data).map_err(chunk_error)?;
                None
            }
        };
        Ok(Effects { publish, replication: Replication::Verbatim, ..Effects::default() })
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
