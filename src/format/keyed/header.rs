//! The header of a keyed filter. docs/formats.md has the byte table.

use crate::bloom::keyed::{HashKey, KEY_BYTES};
use crate::bloom::{ByteLimit, Chain, Keyed};
use crate::format::envelope::Kind;
use crate::format::everbloom::header::{
    CHAIN_HEADER_BYTES, ChainHeader, HASH_SIPHASH_1_3_128, append_layers, read_layers,
};
use crate::format::fields::append;
use crate::format::plan::FilterPlan;
use crate::format::record::DecodeError;

/// Bytes of the part that every header has.
pub const KEYED_HEADER_BYTES: usize = CHAIN_HEADER_BYTES + KEY_BYTES;

/// Writes the header of a filter. O(layers).
#[must_use]
pub fn encode(chain: &Chain<Keyed>) -> Vec<u8> {
    let Keyed { parameters, key } = *chain.family();
    let mut bytes = Vec::new();
    append(&mut bytes, &ChainHeader::of(Kind::Keyed, chain.layers().len(), &parameters));
    bytes.extend(key.bytes());
    append_layers(&mut bytes, chain.layers(), HASH_SIPHASH_1_3_128, parameters.growth);
    bytes
}

/// Reads a header and checks every field. O(layers).
///
/// # Errors
/// The first field that is wrong, or [`DecodeError::TooLarge`] when the filter breaks the limit.
pub fn decode(bytes: &[u8], limit: &dyn ByteLimit) -> Result<FilterPlan<Keyed>, DecodeError> {
    let (chain_bytes, rest) = bytes.split_at_checked(CHAIN_HEADER_BYTES).ok_or(DecodeError::Truncated)?;
    let (key, layer_bytes) = rest.split_first_chunk::<KEY_BYTES>().ok_or(DecodeError::Truncated)?;
    let (parameters, layers) = ChainHeader::open_parts(chain_bytes, layer_bytes, Kind::Keyed)?;
    let layers = read_layers(layers, HASH_SIPHASH_1_3_128, parameters.growth)?;
    FilterPlan::new(Keyed { parameters, key: HashKey::new(*key) }, layers, limit)
}
