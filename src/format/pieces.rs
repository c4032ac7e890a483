//! The pieces of BF.SCANDUMP and BF.LOADCHUNK.
//!
//! The protocol is RedisBloom's: iterator 0 asks for the header, which goes with iterator 1; iterator i > 0 asks for
//! the bytes from position i - 1 on of all bit arrays laid end to end, which go with the iterator after them; a piece
//! never spans two layers. Every piece ends with a seal: the mark of the state that the header describes, and a check
//! over its bytes, its place and that mark. So a piece that is torn, altered, of another filter or of another dump is
//! refused before it changes anything.

use std::borrow::Cow;

use super::client::header::{self as client, ClientChain};
use super::everbloom::header::{self, Header};
use super::record::DecodeError;
use super::seal::{Form, Place, Sealed, Sealer};
use crate::bloom::{BitFamily, ByteLimit, Chain, Origin, OutOfMemory};

/// The iterator that goes with a header.
pub const HEADER_ITERATOR: u64 = 1;
/// Most bytes of a bit array in one piece.
pub const CHUNK_BYTES: usize = 16 << 20;

/// Bytes of the seal at the end of every piece.
pub const SEAL_BYTES: usize = Form::Marked.seal_bytes();

/// One reply of BF.SCANDUMP.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<'f> {
    /// The iterator that asks for the next piece, and that this one is loaded with.
    pub next_iterator: u64,
    /// The bytes.
    pub data: Cow<'f, [u8]>,
}

/// The piece that `iterator` asks for, or nothing past the end. O(bytes of the piece).
///
/// # Errors
/// [`OutOfMemory`] when the bytes cannot be had.
pub fn piece(chain: &Chain, iterator: u64) -> Result<Option<Piece<'_>>, OutOfMemory> {
    sealed_piece(chain, iterator, || header::encode(chain))
}

/// The piece of a filter of any kind, with its seal; `encode` writes its header.
pub(super) fn sealed_piece<F: BitFamily>(
    chain: &Chain<F>,
    iterator: u64,
    encode: impl FnOnce() -> Vec<u8>,
) -> Result<Option<Piece<'_>>, OutOfMemory> {
    let mark = chain.state_mark();
    let mut sealer = Sealer::default();
    let Some(position) = iterator.checked_sub(1) else {
        sealer.seal(&encode(), &Place::Header, mark)?;
        return Ok(Some(Piece { next_iterator: HEADER_ITERATOR, data: Cow::Owned(sealer.into_piece()) }));
    };
    let Some((index, chunk, next_iterator)) = chunk_at(chain, position) else { return Ok(None) };
    let Some(layer) = chain.layers().get(index) else { return Ok(None) };
    sealer.seal(chunk, &Place::chunk::<F>(layer, position), mark)?;
    Ok(Some(Piece { next_iterator, data: Cow::Owned(sealer.into_piece()) }))
}

/// The bytes from `position` on, of one layer and at most [`CHUNK_BYTES`], with its index and the iterator after them.
pub(super) fn chunk_at<F: BitFamily>(chain: &Chain<F>, position: u64) -> Option<(usize, &[u8], u64)> {
    let (index, offset) = locate(chain, position)?;
    let rest = chain.layers().get(index)?.bits().bytes().get(offset..)?;
    let chunk = rest.get(..CHUNK_BYTES.min(rest.len()))?;
    Some((index, chunk, iterator_after(position.checked_add(chunk.len() as u64)?)))
}

/// The iterator that goes with a chunk that ends before `position`.
pub(super) const fn iterator_after(position: u64) -> u64 {
    position.saturating_add(1)
}

/// An empty filter of the shape that a header describes.
///
/// # Errors
/// [`DecodeError`] for a header that is not possible, or larger than `limit` allows.
pub fn chain_from_header(header: Sealed<'_>, limit: &dyn ByteLimit) -> Result<Chain, DecodeError> {
    let decoded = Header::decode(header.bytes, limit)?;
    let set_bits = decoded.set_bits();
    let mut chain = decoded.build(|_, _| Ok(()))?;
    chain.set_origin(header.origin, Some(set_bits));
    Ok(chain)
}

/// The piece of a client's filter that was taken over.
///
/// # Errors
/// [`OutOfMemory`] when the bytes cannot be had.
pub fn client_piece(chain: &ClientChain, iterator: u64) -> Result<Option<Piece<'_>>, OutOfMemory> {
    sealed_piece(chain, iterator, || client::encode(chain))
}

/// An empty filter of a client's shape that a header describes.
///
/// # Errors
/// [`DecodeError`] for a header that is not possible, or larger than `limit` allows.
pub fn client_from_header(header: Sealed<'_>, limit: &dyn ByteLimit) -> Result<ClientChain, DecodeError> {
    let mut set_bits = 0u64;
    let mut chain = client::build(header.bytes, limit, |_, counts| {
        set_bits = set_bits.saturating_add(counts.set_bits);
        Ok(())
    })?;
    chain.set_origin(header.origin, Some(set_bits));
    Ok(chain)
}

/// Why a chunk was not loaded; the filter is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// Torn, altered, or of another filter, dump or place.
    BadData,
    /// Begins beyond the last layer.
    BeyondEnd,
    /// Longer than what is left of its layer.
    TooBig,
}

/// Who says that a chunk belongs to the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nobody: it must have the mark of the header that made the filter.
    Marks,
    /// A primary or an append-only file, where that was seen to: the filter may have come by a snapshot since, which has
    /// no marks.
    Sender,
}

/// Sets the bits of a chunk. `next_iterator` is what BF.SCANDUMP answered with it. O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then as it was.
pub fn load_chunk<F: BitFamily>(
    chain: &mut Chain<F>,
    next_iterator: u64,
    data: &[u8],
    trust: Trust,
) -> Result<(), ChunkError> {
    match (trust, chain.origin()) {
        (Trust::Sender, _) => {
            let outcome = load_sealed(chain, next_iterator, data, Form::Marked, |_| true);
            outcome.or_else(|error| {
                load_sealed(chain, next_iterator, data, Form::Unmarked, |_| true).map_err(|_| error)
            })
        }
        (Trust::Marks, Origin::Marked(mark)) => {
            load_sealed(chain, next_iterator, data, Form::Marked, |other| other == mark)
        }
        (Trust::Marks, Origin::Unmarked) => load_sealed(chain, next_iterator, data, Form::Unmarked, |_| true),
        (Trust::Marks, Origin::NoHeader) => load_sealed(chain, next_iterator, data, Form::Marked, |_| false),
    }
}

fn load_sealed<F: BitFamily>(
    chain: &mut Chain<F>,
    next_iterator: u64,
    data: &[u8],
    form: Form,
    is_wanted: impl FnOnce(u64) -> bool,
) -> Result<(), ChunkError> {
    let chunk_bytes = data.len().checked_sub(form.seal_bytes()).ok_or(ChunkError::BadData)?;
    let position = next_iterator
        .checked_sub(1)
        .and_then(|end| end.checked_sub(chunk_bytes as u64))
        .ok_or(ChunkError::BadData)?;
    let (index, offset) = locate(chain, position).ok_or(ChunkError::BeyondEnd)?;
    let layer = chain.layers_mut().get_mut(index).ok_or(ChunkError::BeyondEnd)?;
    if layer.bits().bytes().len().saturating_sub(offset) < chunk_bytes {
        return Err(ChunkError::TooBig);
    }
    let (chunk, mark) = form.open(data, &Place::chunk::<F>(layer, position)).ok_or(ChunkError::BadData)?;
    if !is_wanted(mark) {
        return Err(ChunkError::BadData);
    }
    if layer.bits_mut().add_bytes(offset, chunk) { Ok(()) } else { Err(ChunkError::TooBig) }
}

/// The layer that holds byte `position` of all bit arrays laid end to end, and the byte's place in it.
pub(super) fn locate<F: BitFamily>(chain: &Chain<F>, position: u64) -> Option<(usize, usize)> {
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
