//! The header of a counting filter: that of everbloom's own with another kind, the items being occurrences, and the number
//! of distinct items behind the header of each layer. docs/formats.md has the byte table.

use crate::bloom::{ByteLimit, Chain, Counting};
use crate::format::envelope::Kind;
use crate::format::everbloom::header::{
    CHAIN_HEADER_BYTES, ChainHeader, HASH_MURMUR3_X64_128, LAYER_HEADER_BYTES, LayerHeader,
};
use crate::format::fields::append;
use crate::format::plan::FilterPlan;
use crate::format::record::DecodeError;

/// Bytes of a layer.
const LAYER_BYTES: usize = LAYER_HEADER_BYTES + 8;

/// Writes the header of a filter. O(layers).
#[must_use]
pub fn encode(chain: &Chain<Counting>) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, &ChainHeader::of(Kind::Counting, chain.layers().len(), &chain.family().0));
    for layer in chain.layers() {
        append(
            &mut bytes,
            &LayerHeader::of(layer.shape(), layer.counts(), HASH_MURMUR3_X64_128, chain.family().0.growth),
        );
        append(&mut bytes, &layer.storage().distinct_items);
    }
    bytes
}

/// Reads a header and checks every field. O(layers).
///
/// # Errors
/// The first field that is wrong, or [`DecodeError::TooLarge`] when the filter breaks the limit.
pub fn decode(bytes: &[u8], limit: &dyn ByteLimit) -> Result<FilterPlan<Counting>, DecodeError> {
    let (chain_bytes, rest) = bytes.split_at_checked(CHAIN_HEADER_BYTES).ok_or(DecodeError::Truncated)?;
    let (layer_bytes, rest) = rest.as_chunks::<LAYER_BYTES>();
    let parameters = ChainHeader::open_chain(chain_bytes, Kind::Counting, layer_bytes.len())?;
    if !rest.is_empty() {
        return Err(DecodeError::Invalid("header length"));
    }
    let (mut layers, mut distinct_items) = (Vec::new(), Vec::new());
    for bytes in layer_bytes {
        let (header, distinct) = bytes.split_last_chunk::<8>().ok_or(DecodeError::Truncated)?;
        let (shape, counts) = LayerHeader::decode(header)?.unpack(HASH_MURMUR3_X64_128, parameters.growth)?;
        Counting::validate_shape(&shape).map_err(DecodeError::Invalid)?;
        layers.push((shape.into(), counts));
        distinct_items.push(u64::from_le_bytes(*distinct));
    }
    let plan = FilterPlan::new(Counting(parameters), layers, limit)?;
    Ok(plan.prepared(Box::new(move |index, counters| {
        counters.distinct_items = distinct_items.get(index).copied().unwrap_or(0);
    })))
}
