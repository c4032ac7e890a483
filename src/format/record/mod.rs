//! The record of a filter of everbloom's own format: everything but its cells. A part for its policy is followed by
//! one for each layer, the oldest first. docs/formats.md has the bytes.
//!
//! The record is the header of a dump, also for valkey-bloom's filters, and the first string of a snapshot.

mod layer;
mod policy;

use layer::LayerPart;
use policy::PolicyPart;

use super::client::GuavaHeader;
use super::stream::DecodeError;
use crate::bloom::policy::BitOrder;
use crate::bloom::{ByteLimit, Extent, Filter, Layer, LayerSpec, Policy};

pub use layer::LAYER_BYTES;
pub use policy::POLICY_BYTES;

/// Returns the record of a filter. O(layers).
#[must_use]
pub fn encode(filter: &Filter) -> Vec<u8> {
    encode_with(filter, |_, layer| layer.counts().set_cells)
}

/// Returns the record of a filter with the given numbers of set cells.
fn encode_with(filter: &Filter, set_cells: impl Fn(usize, &Layer) -> u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(POLICY_BYTES + LAYER_BYTES * filter.layer_count());
    PolicyPart::of(filter).append(&mut bytes);
    for (index, layer) in filter.layers().iter().enumerate() {
        LayerPart::append(layer, set_cells(index, layer), &mut bytes);
    }
    bytes
}

/// A record that was read and checked. No memory is allocated for cells yet.
#[derive(Debug)]
pub struct Header<'b> {
    bytes: &'b [u8],
    policy: Policy,
    layers: Vec<PlannedLayer>,
}

/// The spec of a layer, with its items and set cells.
#[derive(Debug)]
struct PlannedLayer {
    spec: LayerSpec,
    items: u64,
    set_cells: u64,
}

impl<'b> Header<'b> {
    /// Reads a whole record and checks the shape of every layer. O(layers).
    ///
    /// # Errors
    /// The first wrong field, or [`DecodeError::TooLarge`] if the filter exceeds the limit.
    pub fn decode(bytes: &'b [u8], limit: &dyn ByteLimit) -> Result<Self, DecodeError> {
        let (part, mut rest) = PolicyPart::read(bytes)?;
        let layer_count = part.layer_count()?;
        let (mut layers, mut extent) = (Vec::with_capacity(layer_count), Extent::default());
        for _ in 0..layer_count {
            let layer = LayerPart::read(&mut rest, part.has_heads())?;
            let LayerSpec { placement, size_bits, .. } = &layer.spec;
            extent = extent.and_layer(size_bits.div_ceil(8), placement.layout().probes());
            extent.check(limit)?;
            layers.push(layer);
        }
        if !rest.is_empty() {
            return Err(DecodeError::Invalid("header length"));
        }
        Ok(Self { bytes, policy: part.policy()?, layers })
    }

    /// Returns the filter with all cells clear, and the number of set cells of each layer from the record. O(layers):
    /// memory is zeroed when it is first used.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] if the filter breaks a rule, [`DecodeError::OutOfMemory`].
    pub fn build(self) -> Result<(Filter, Vec<u64>), DecodeError> {
        let (mut layers, mut set_cells) = (Vec::with_capacity(self.layers.len()), Vec::new());
        for PlannedLayer { spec, items, set_cells: set } in self.layers {
            if set > spec.size_bits {
                return Err(DecodeError::Invalid("set cells"));
            }
            let mut layer = Layer::try_new(spec).map_err(|_| DecodeError::OutOfMemory)?;
            layer.set_items(items);
            layers.push(layer);
            set_cells.push(set);
        }
        let filter = Filter::from_layers(self.policy, layers).map_err(DecodeError::Invalid)?;
        if !has_possible_order(&filter) {
            return Err(DecodeError::Invalid("bit order"));
        }
        // Unused fields must be 0, so that each filter has a single valid record.
        let written = encode_with(&filter, |index, _| set_cells.get(index).copied().unwrap_or(0));
        if written == self.bytes {
            Ok((filter, set_cells))
        } else {
            Err(DecodeError::Invalid("unused field"))
        }
    }
}

/// Returns whether the string of an imported filter can have its bits in that order: only Guava's strings consist of
/// words. True for other filters.
fn has_possible_order(filter: &Filter) -> bool {
    match (filter.policy(), filter.clients_layer()) {
        (Policy::Imported(policy), Some((layout, _))) if policy.form.order == BitOrder::BigEndianWords => {
            GuavaHeader::of(&layout.parameters()).is_some()
        }
        _ => true,
    }
}
