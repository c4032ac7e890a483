//! What a filter that counts is reserved with, how it hashes and how it grows: as everbloom's own, in whole lines.

use super::line::{COUNTER_BITS, LINE_POSITIONS};
use super::placement::CountedProbing;
use crate::bloom::everbloom::{Everbloom, ItemHash, LayerShape, hash128};
use crate::bloom::family::Family;
use crate::bloom::growth::Growth;
use crate::bloom::layer::Layer;
use crate::bloom::limits::LAYER_OCCURRENCES_MAX;
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::placement::LayerPlan;
use crate::bloom::storage::Storage;

/// What a filter that counts is reserved with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counting(
    /// What a filter of everbloom's own kind with the same promise is reserved with.
    pub Everbloom,
);

impl Counting {
    /// The shape of layer `index`, 0 being the first, behind one with a capacity of `before` items. `size_bits` are its
    /// positions.
    pub(super) fn layer_shape(&self, index: usize, before: Option<u64>) -> Result<LayerShape, ReserveError> {
        let (capacity_items, error_rate) = self.0.layer_parameters(index, before)?;
        let shape = LayerShape::sized(capacity_items, error_rate);
        // More positions than are asked for only lower the rate.
        Ok(LayerShape { size_bits: shape.size_bits.next_multiple_of(LINE_POSITIONS), ..shape })
    }

    /// The first rule that the shape of a layer breaks, if it breaks one. Every decoder asks before it allocates.
    ///
    /// # Errors
    /// The name of the field that is out of its range.
    pub fn validate_shape(shape: &LayerShape) -> Result<(), &'static str> {
        shape.validate()?;
        if shape.size_bits.is_multiple_of(LINE_POSITIONS) { Ok(()) } else { Err("size in bits") }
    }
}

impl Family for Counting {
    type Digest<'i> = ItemHash;
    type Placement = CountedProbing;

    const COUNTS_OCCURRENCES: bool = true;

    #[inline(always)]
    fn digest(&self, item: &[u8]) -> ItemHash {
        hash128(item)
    }

    fn growth(&self) -> Growth {
        self.0.growth
    }

    /// Items that are there already are counted beyond the capacity.
    fn validate_layers(&self, layers: &[Layer<CountedProbing>]) -> Result<(), &'static str> {
        self.0.validate()?;
        if self.growth() == Growth::Saturating {
            return Err("growth");
        }
        layers.iter().try_for_each(|layer| {
            Self::validate_shape(&layer.shape())?;
            let items = layer.counts().items;
            if items > LAYER_OCCURRENCES_MAX {
                return Err("items");
            }
            let is_possible = layer.storage().distinct_items <= items.min(layer.capacity_items());
            if is_possible { Ok(()) } else { Err("distinct items") }
        })
    }

    fn next_layer(&self, layers: &[Layer<CountedProbing>]) -> Result<LayerPlan<CountedProbing>, AddError> {
        if !layers.is_empty() && self.growth() == Growth::Fixed {
            return Err(AddError::Full);
        }
        let before = layers.last().map(Layer::capacity_items);
        self.layer_shape(layers.len(), before).map(LayerPlan::from).map_err(AddError::CannotGrow)
    }
}

impl From<LayerShape> for LayerPlan<CountedProbing> {
    /// Of a valid shape, whose `size_bits` are the positions.
    fn from(shape: LayerShape) -> Self {
        let LayerPlan { placement, size_bits: positions, capacity_items, has_head } = shape.into();
        let placement = CountedProbing::new(placement, &shape);
        Self { placement, size_bits: positions.saturating_mul(COUNTER_BITS), capacity_items, has_head }
    }
}

impl Layer<CountedProbing> {
    /// What never changes about the layer; `size_bits` are its positions.
    #[must_use]
    pub fn shape(&self) -> LayerShape {
        let positions = self.storage().size_bits() / COUNTER_BITS;
        self.placement().probing().shape(positions, self.capacity_items())
    }
}
