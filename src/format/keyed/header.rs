//! The header of a keyed filter. docs/formats.md has the byte table.

use crate::bloom::keyed::{HashKey, KEY_BYTES};
use crate::bloom::{ByteLimit, Chain, Keyed};
use crate::format::envelope::Kind;
use crate::format::everbloom::header::{
    CHAIN_HEADER_BYTES, HASH_SIPHASH_1_3_128, append_chain, append_layers, read_layers, read_parameters,
};
use crate::format::plan::FilterPlan;
use crate::format::record::DecodeError;

/// Bytes of the part that every header has.
pub const KEYED_HEADER_BYTES: usize = CHAIN_HEADER_BYTES + KEY_BYTES;

/// Writes the header of a filter. O(layers).
#[must_use]
pub fn encode(chain: &Chain<Keyed>) -> Vec<u8> {
    let Keyed { parameters, key } = *chain.family();
    let mut bytes = Vec::new();
    append_chain(&mut bytes, Kind::Keyed, &parameters, chain.layers().len());
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
    let parameters = read_parameters(chain_bytes, Kind::Keyed, layer_bytes)?;
    let layers = read_layers(layer_bytes, HASH_SIPHASH_1_3_128, parameters.growth)?;
    FilterPlan::new(Keyed { parameters, key: HashKey::new(*key) }, layers, limit)
}
