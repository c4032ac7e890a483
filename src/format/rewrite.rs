//! The commands that make a filter again, as an append-only file holds them after a rewrite without a snapshot in front.

use super::client::header as client;
use super::everbloom::header;
use super::pieces::{self as dump, CHUNK_BYTES, HEADER_ITERATOR};
use super::seal::{Place, Sealer};
use super::{redisbloom, valkeybloom};
use crate::bloom::bits::is_clear;
use crate::bloom::{BitFamily, Chain, Filter, Memory, Occupancy, OutOfMemory};

/// One command of a rewritten file, without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewritten<'d> {
    /// BF.LOADCHUNK.
    Piece {
        /// Its iterator.
        iterator: u64,
        /// Its bytes.
        data: &'d [u8],
    },
    /// BF.LOAD, of valkey-bloom's filters.
    Blob(
        /// Its bytes.
        &'d [u8],
    ),
}

/// Shows `emit` the commands that make the filter again, in order: in words that the module whose format it has
/// understands. O(bytes that may be set, as far as is known), for filters of RedisBloom's format O(bytes).
///
/// # Errors
/// [`OutOfMemory`] when a piece cannot be had; a part may have been shown then.
pub fn rewrite(
    filter: &Filter,
    memory: impl Memory,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    match filter {
        Filter::Everbloom(chain) => rewrite_sealed(chain, &header::encode(chain), memory, emit),
        Filter::Client(chain) => rewrite_sealed(chain, &client::encode(chain), memory, emit),
        Filter::RedisBloom(chain) => {
            // All chunks, clear ones too: RedisBloom before 2.2.19, 2.4.8 and 2.6.11 does not clear the array that a
            // header makes.
            let mut iterator = 0;
            while let Some(piece) = redisbloom::dump::piece(chain, iterator) {
                iterator = piece.next_iterator;
                emit(Rewritten::Piece { iterator, data: &piece.data });
            }
            Ok(())
        }
        Filter::ValkeyBloom(chain) => match valkeybloom::encode_blob(chain) {
            Ok(blob) => {
                emit(Rewritten::Blob(&blob));
                Ok(())
            }
            // One string of the whole filter is too much to ask; our own pieces are not.
            Err(OutOfMemory) => rewrite_sealed(chain, &valkeybloom::dump::encode(chain), memory, emit),
        },
    }
}

/// Pieces with our seal; the header makes an array of clear bits, so clear chunks are left out.
fn rewrite_sealed<F: BitFamily>(
    chain: &Chain<F>,
    header: &[u8],
    memory: impl Memory,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    let mut sealer = Sealer::default();
    // They belong to no dump, so they have no mark.
    let data = sealer.seal(header, &Place::Header, 0)?;
    emit(Rewritten::Piece { iterator: HEADER_ITERATOR, data });
    let mut position = 0u64;
    for layer in chain.layers() {
        let occupancy = Occupancy::of(layer.bits(), memory);
        for (chunk, start) in layer.bits().bytes().chunks(CHUNK_BYTES).zip((0..).step_by(CHUNK_BYTES)) {
            let next_position = position.saturating_add(chunk.len() as u64);
            if !occupancy.is_clear(start..start.saturating_add(chunk.len())) && !is_clear(chunk) {
                let data = sealer.seal(chunk, &Place::chunk::<F>(layer, position), 0)?;
                emit(Rewritten::Piece { iterator: dump::iterator_after(next_position), data });
            }
            position = next_position;
        }
    }
    Ok(())
}
