//! The header of a union. docs/formats.md has the byte table.

use serde::{Deserialize, Serialize};

use super::layer::LayerRecord;
use crate::bloom::{ByteLimit, Chain, Everbloom, Growth, Union};
use crate::format::envelope::{Kind, Opening};
use crate::format::fields::{append, read};
use crate::format::plan::{FilterPlan, PlannedLayer};
use crate::format::record::DecodeError;

/// Bytes of the part that every header has.
pub const UNION_HEADER_BYTES: usize = 32;
/// Bytes of the part that a header has once per layer.
pub const UNION_LAYER_BYTES: usize = 96;

#[derive(Serialize, Deserialize)]
struct UnionHeader {
    opening: Opening,
    expansion: u32,
    error_rate: f64,
    capacity_items: u64,
}

/// Writes the header of a filter. O(layers).
#[must_use]
pub fn encode(chain: &Chain<Union>) -> Vec<u8> {
    let Union(Everbloom { error_rate, capacity_items, growth }) = *chain.family();
    let views = chain.views();
    let mut bytes = Vec::with_capacity(UNION_HEADER_BYTES + UNION_LAYER_BYTES * views.len());
    let opening = Opening::new(Kind::Union, views.len());
    append(&mut bytes, &UnionHeader { opening, expansion: growth_code(growth), error_rate, capacity_items });
    for view in &views {
        append(&mut bytes, &LayerRecord::of(view));
    }
    bytes
}

/// Reads a header and checks every field. O(layers).
///
/// # Errors
/// The first field that is wrong, or [`DecodeError::TooLarge`] when the filter breaks the limit.
pub fn decode(bytes: &[u8], limit: &dyn ByteLimit) -> Result<FilterPlan<Union>, DecodeError> {
    let (chain_bytes, layer_bytes) =
        bytes.split_at_checked(UNION_HEADER_BYTES).ok_or(DecodeError::Truncated)?;
    let header: UnionHeader = read(chain_bytes)?;
    let (layers, rest) = layer_bytes.as_chunks::<UNION_LAYER_BYTES>();
    header.opening.check(Kind::Union, layers.len())?;
    if !rest.is_empty() {
        return Err(DecodeError::Invalid("header length"));
    }
    let UnionHeader { expansion, error_rate, capacity_items, .. } = header;
    let own = Everbloom { error_rate, capacity_items, growth: growth_of(expansion) };
    let layers = layers.iter().map(|bytes| read::<LayerRecord>(bytes)?.unpack());
    let layers: Vec<PlannedLayer<_>> = layers.collect::<Result<_, DecodeError>>()?;
    FilterPlan::new(Union(own), layers, limit)
}

/// The growth code of a union that goes on accepting items when it is full.
const SATURATES: u32 = u32::MAX;

fn growth_code(growth: Growth) -> u32 {
    if growth == Growth::Saturating { SATURATES } else { growth.expansion() }
}

fn growth_of(code: u32) -> Growth {
    if code == SATURATES { Growth::Saturating } else { Growth::from_expansion(code) }
}
