//! The pieces of BF.SCANDUMP and BF.LOADCHUNK.
//!
//! The protocol is RedisBloom's: iterator 0 asks for the header, which goes with iterator 1; iterator i > 0 asks for
//! the bytes from position i - 1 on of all bit arrays laid end to end, which go with the iterator after them; a piece
//! never spans two layers. Every piece ends with a check of 16 bytes over its bytes and its place, so that a torn or
//! altered piece, or one of another filter, is refused before it changes anything.

use super::header::{self, Header};
use super::imported::{self, ImportedChain};
use super::record::DecodeError;
use crate::bloom::{ByteLimit, Chain, Family, ItemHash, Layer, Placement, hash128};

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
    checked_piece(chain, iterator, || header::encode(chain))
}

/// The piece of a filter of any kind, with its check; `encode` writes its header.
pub(super) fn checked_piece<F: Family>(
    chain: &Chain<F>,
    iterator: u64,
    encode: impl FnOnce() -> Vec<u8>,
) -> Option<Piece> {
    let Some(position) = iterator.checked_sub(1) else {
        let data = with_check(&encode(), &Place::Header);
        return Some(Piece { next_iterator: HEADER_ITERATOR, data });
    };
    let (index, offset) = locate(chain, position)?;
    let layer = chain.layers().get(index)?;
    let rest = layer.bits().bytes().get(offset..)?;
    let chunk = rest.get(..CHUNK_BYTES.min(rest.len()))?;
    let data = with_check(chunk, &Place::chunk::<F>(layer, position));
    Some(Piece { next_iterator: iterator.checked_add(chunk.len() as u64)?, data })
}

/// An empty filter of the shape that a header describes.
///
/// # Errors
/// [`DecodeError`] for a header that is torn, altered, or larger than `limit` allows.
pub fn chain_from_header(data: &[u8], limit: &dyn ByteLimit) -> Result<Chain, DecodeError> {
    Header::decode(checked_header(data)?, limit)?.build(|_, _| Ok(()))
}

/// The piece of a client's filter that was taken over.
#[must_use]
pub fn imported_piece(chain: &ImportedChain, iterator: u64) -> Option<Piece> {
    checked_piece(chain, iterator, || imported::encode(chain))
}

/// An empty filter of a client's shape that a header describes.
///
/// # Errors
/// [`DecodeError`] for a header that is torn, altered, or larger than `limit` allows.
pub fn imported_from_header(data: &[u8], limit: &dyn ByteLimit) -> Result<ImportedChain, DecodeError> {
    imported::build(checked_header(data)?, limit, |_, _| Ok(()))
}

/// The header before its check.
pub(super) fn checked_header(data: &[u8]) -> Result<&[u8], DecodeError> {
    without_check(data, &Place::Header).ok_or(DecodeError::Truncated)
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
pub fn load_chunk<F: Family>(
    chain: &mut Chain<F>,
    next_iterator: u64,
    data: &[u8],
) -> Result<(), ChunkError> {
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
    let chunk = without_check(data, &Place::chunk::<F>(layer, position)).ok_or(ChunkError::BadData)?;
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
enum Place {
    Header,
    Chunk { position: u64, size_bits: u64, capacity_items: u64, probes: u32 },
}

impl Place {
    fn chunk<F: Family>(layer: &Layer<F::Placement>, position: u64) -> Self {
        Self::Chunk {
            position,
            size_bits: layer.bits().len(),
            capacity_items: layer.capacity_items(),
            probes: <F::Placement as Placement<F::Digest<'_>>>::probes(&layer.placement()),
        }
    }

    /// The check of `bytes` at this place: the digest of their digest and of what tells the place from others.
    fn check(&self, bytes: &[u8]) -> [u8; CHECK_BYTES] {
        let ItemHash { h1, h2 } = hash128(bytes);
        let words = match *self {
            Self::Header => [h1, h2, 0, 0, 0, 0],
            Self::Chunk { position, size_bits, capacity_items, probes } => {
                [h1, h2, position, size_bits, capacity_items, probes.into()]
            }
        };
        let digest = hash128(bytemuck::bytes_of(&words));
        bytemuck::cast([digest.h1, digest.h2])
    }
}

fn with_check(bytes: &[u8], place: &Place) -> Vec<u8> {
    [bytes, &place.check(bytes)].concat()
}

/// The bytes before a check that holds.
fn without_check<'a>(data: &'a [u8], place: &Place) -> Option<&'a [u8]> {
    let (bytes, check) = data.split_last_chunk::<CHECK_BYTES>()?;
    (place.check(bytes) == *check).then_some(bytes)
}
