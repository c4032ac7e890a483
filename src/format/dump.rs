//! The pieces of BF.SCANDUMP and BF.LOADCHUNK.
//!
//! The protocol is RedisBloom's: iterator 0 asks for the header, which goes with iterator 1; iterator i > 0 asks for
//! the bytes from position i - 1 on of all bit arrays laid end to end, which go with the iterator after them; a piece
//! never spans two layers. Every piece ends with a check of 16 bytes over its bytes and its place, so that a torn or
//! altered piece, or one of another filter, is refused before it changes anything.

use super::header::{self, Header};
use super::record::DecodeError;
use crate::bloom::{ByteLimit, Chain, Family, ItemHash, Layer, hash128};

/// The iterator that goes with a header.
pub const HEADER_ITERATOR: u64 = 1;
/// Most bytes of a bit array in one piece.
pub const CHUNK_BYTES: usize = 16 << 20;
/// Bytes of the check at the end of every piece.
pub const CHECK_BYTES: usize = 16;

/// One reply of BF.SCANDUMP.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// The iterator that asks for the next piece, and that this one is loaded with.
    pub next_iterator: u64,
    /// The bytes.
    pub data: Vec<u8>,
}

/// The piece that `iterator` asks for, or nothing past the end. O(bytes of the piece).
#[must_use]
pub fn piece(chain: &Chain, iterator: u64) -> Option<Piece> {
    let Some(position) = iterator.checked_sub(1) else {
        let header = header::encode(chain);
        let data = with_check(&header, &Place::Header);
        return Some(Piece { next_iterator: HEADER_ITERATOR, data });
    };
    let (index, offset) = locate(chain, position)?;
    let layer = chain.layers().get(index)?;
    let rest = layer.bits().bytes().get(offset..)?;
    let chunk = rest.get(..CHUNK_BYTES.min(rest.len()))?;
    let data = with_check(chunk, &Place::Chunk { layer, position });
    Some(Piece { next_iterator: iterator.checked_add(chunk.len() as u64)?, data })
}

/// An empty filter of the shape that a header describes.
///
/// # Errors
/// [`DecodeError`] for a header that is torn, altered, or larger than `limit` allows.
pub fn chain_from_header(data: &[u8], limit: &dyn ByteLimit) -> Result<Chain, DecodeError> {
    let header = without_check(data, &Place::Header).ok_or(DecodeError::Truncated)?;
    Header::decode(header, limit)?.build(|_, _| Ok(()))
}

/// Why a chunk was not loaded; the filter is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// Torn, altered, or of another filter or place.
    BadData,
    /// Begins beyond the last layer.
    BeyondEnd,
    /// Longer than what is left of its layer.
    TooBig,
}

/// Overwrites the bits that a chunk stands for. `next_iterator` is what BF.SCANDUMP answered with it. O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then as it was.
pub fn load_chunk(chain: &mut Chain, next_iterator: u64, data: &[u8]) -> Result<(), ChunkError> {
    let chunk_bytes = data.len().checked_sub(CHECK_BYTES).ok_or(ChunkError::BadData)?;
    let position = next_iterator
        .checked_sub(1)
        .and_then(|end| end.checked_sub(chunk_bytes as u64))
        .ok_or(ChunkError::BadData)?;
    let (index, offset) = locate(chain, position).ok_or(ChunkError::BeyondEnd)?;
    let layer = chain.layers_mut().get_mut(index).ok_or(ChunkError::BeyondEnd)?;
    if layer.bits().bytes().len().saturating_sub(offset) < chunk_bytes {
        return Err(ChunkError::TooBig);
    }
    let chunk = without_check(data, &Place::Chunk { layer, position }).ok_or(ChunkError::BadData)?;
    if layer.bits_mut().write_bytes(offset, chunk) { Ok(()) } else { Err(ChunkError::TooBig) }
}

/// The layer that holds byte `position` of all bit arrays laid end to end, and the byte's place in it.
pub(super) fn locate<F: Family>(chain: &Chain<F>, position: u64) -> Option<(usize, usize)> {
    let mut offset = usize::try_from(position).ok()?;
    for (index, layer) in chain.layers().iter().enumerate() {
        let size_bytes = layer.bits().bytes().len();
        match offset.checked_sub(size_bytes) {
            None => return Some((index, offset)),
            Some(rest) => offset = rest,
        }
    }
    None
}

/// Where a piece belongs; part of its check.
enum Place<'a> {
    Header,
    Chunk { layer: &'a Layer, position: u64 },
}

impl Place<'_> {
    /// The check of `bytes` at this place: the digest of their digest and of what tells the place from others.
    fn check(&self, bytes: &[u8]) -> [u8; CHECK_BYTES] {
        let ItemHash { h1, h2 } = hash128(bytes);
        let place = match self {
            Place::Header => [0; 4],
            Place::Chunk { layer, position } => {
                let shape = layer.shape();
                [*position, shape.size_bits, shape.capacity_items, shape.probes.into()]
            }
        };
        let [position, size_bits, capacity_items, probes] = place;
        let digest = hash128(bytemuck::bytes_of(&[h1, h2, position, size_bits, capacity_items, probes]));
        bytemuck::cast([digest.h1, digest.h2])
    }
}

fn with_check(bytes: &[u8], place: &Place<'_>) -> Vec<u8> {
    [bytes, &place.check(bytes)].concat()
}

/// The bytes before a check that holds.
fn without_check<'a>(data: &'a [u8], place: &Place<'_>) -> Option<&'a [u8]> {
    let (bytes, check) = data.split_last_chunk::<CHECK_BYTES>()?;
    (place.check(bytes) == *check).then_some(bytes)
}
