//! The pieces of BF.SCANDUMP and BF.LOADCHUNK, and the digest, of a filter of any kind: each has its own bytes.

use super::client::header as client;
use super::everbloom::header;
use super::pieces::{self as dump, ChunkError, Piece, Trust};
use super::record::DecodeError;
use super::seal::Sealed;
use super::{redisbloom, valkeybloom};
use crate::bloom::{ByteLimit, Filter, OutOfMemory};

/// The piece that `iterator` asks for, or nothing past the end. O(bytes of the piece).
///
/// # Errors
/// [`OutOfMemory`] when the bytes cannot be had.
pub fn piece(filter: &Filter, iterator: u64) -> Result<Option<Piece<'_>>, OutOfMemory> {
    match filter {
        Filter::Everbloom(chain) => dump::piece(chain, iterator),
        Filter::RedisBloom(chain) => Ok(redisbloom::dump::piece(chain, iterator)),
        Filter::ValkeyBloom(chain) => valkeybloom::dump::piece(chain, iterator),
        Filter::Client(chain) => dump::client_piece(chain, iterator),
    }
}

/// An empty filter of the shape that a header of any kind describes. RedisBloom's headers have nothing that tells them
/// from others, so whatever has no seal of ours is one.
///
/// # Errors
/// [`DecodeError`] for a header that is of no kind, torn, altered, or larger than `limit` allows.
pub fn from_header(data: &[u8], limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let Ok(sealed) = Sealed::open(data) else {
        return redisbloom::dump::chain_from_header(data, limit).map(Filter::RedisBloom);
    };
    match header::kind_of(data) {
        Some(header::KIND_VALKEYBLOOM) => valkeybloom::dump::chain_from_header(sealed, limit)
            .map(|chain| Filter::ValkeyBloom(Box::new(chain))),
        Some(header::KIND_CLIENT) => {
            dump::client_from_header(sealed, limit).map(|chain| Filter::Client(Box::new(chain)))
        }
        _ => dump::chain_from_header(sealed, limit).map(Filter::Everbloom),
    }
}

/// Sets the bits of a chunk. O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then as it was.
pub fn load_chunk(
    filter: &mut Filter,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
) -> Result<(), ChunkError> {
    match filter {
        Filter::Everbloom(chain) => dump::load_chunk(chain, next_iterator, data, trust),
        Filter::RedisBloom(chain) => redisbloom::dump::load_chunk(chain, next_iterator, data),
        Filter::ValkeyBloom(chain) => dump::load_chunk(chain, next_iterator, data, trust),
        Filter::Client(chain) => dump::load_chunk(chain, next_iterator, data, trust),
    }
}

/// The header of a filter, which together with its bits tells it from every other. O(layers).
#[must_use]
pub fn header(filter: &Filter) -> Vec<u8> {
    match filter {
        Filter::Everbloom(chain) => header::encode(chain),
        Filter::RedisBloom(chain) => redisbloom::header::encode(chain),
        Filter::ValkeyBloom(chain) => valkeybloom::dump::encode(chain),
        Filter::Client(chain) => client::encode(chain),
    }
}
