//! The header of a filter that counts: that of everbloom's own with another kind, the items being
//! occurrences. docs/formats.md has the byte table.

use crate::bloom::limits::LAYER_OCCURRENCES_MAX;
use crate::bloom::{ByteLimit, Chain, Counting, Growth};
use crate::format::envelope::Kind;
use crate::format::everbloom::header::{ChainHeader, HASH_MURMUR3_X64_128, LayerHeader};
use crate::format::fields::append;
use crate::format::plan::FilterPlan;
use crate::format::record::DecodeError;

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
    }
    bytes
}

/// Reads a header and checks every field. O(layers).
///
/// # Errors
/// The first field that is wrong, or [`DecodeError::TooLarge`] when the filter breaks the limit.
pub fn decode(bytes: &[u8], limit: &dyn ByteLimit) -> Result<FilterPlan<Counting>, DecodeError> {
    let (parameters, layers) = ChainHeader::open(bytes, Kind::Counting)?;
    if parameters.growth == Growth::Saturating {
        return Err(DecodeError::Invalid("growth"));
    }
    let layers = layers.iter().map(|bytes| {
        let (shape, counts) = LayerHeader::decode(bytes)?.unpack(HASH_MURMUR3_X64_128, parameters.growth)?;
        Counting::validate_shape(&shape).map_err(DecodeError::Invalid)?;
        // Items that are there already are counted beyond the capacity.
        if counts.items > LAYER_OCCURRENCES_MAX {
            return Err(DecodeError::Invalid("items"));
        }
        Ok((shape.into(), counts))
    });
    FilterPlan::new(Counting(parameters), layers.collect::<Result<_, DecodeError>>()?, limit)
}
