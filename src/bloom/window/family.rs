//! How a filter that forgets hashes, adds and grows.

use super::parameters::{TimedHash, Window};
use super::placement::WindowProbing;
use super::shape::WindowShape;
use crate::bloom::everbloom::hash128;
use crate::bloom::family::Family;
use crate::bloom::growth::Growth;
use crate::bloom::layer::Layer;
use crate::bloom::outcome::{AddError, Added};
use crate::bloom::placement::LayerPlan;

impl Family for Window {
    type Digest<'i> = TimedHash;
    type Placement = WindowProbing;

    const KEEPS_TIME: bool = true;

    #[inline(always)]
    fn digest(&self, item: &[u8]) -> TimedHash {
        TimedHash { hash: hash128(item), at: self.told }
    }

    fn growth(&self) -> Growth {
        self.parameters.growth
    }

    fn emptied(&self) -> Self {
        Self::new(self.parameters, self.span, self.keeps_first)
    }

    fn next_layer(&self, layers: &[Layer<WindowProbing>]) -> Result<LayerPlan<WindowProbing>, AddError> {
        if !layers.is_empty() && self.growth().is_fixed_size() {
            return Err(AddError::Full);
        }
        let before = layers.last().map(Layer::capacity_items);
        self.layer_shape(before).map(LayerPlan::from).map_err(AddError::CannotGrow)
    }

    #[inline(always)]
    fn add_in_time(
        &mut self,
        layers: &mut [Layer<WindowProbing>],
        item: TimedHash,
        is_forced: bool,
    ) -> Option<Added> {
        self.add(layers, item, is_forced)
    }
}

impl From<WindowShape> for LayerPlan<WindowProbing> {
    /// Of a valid shape.
    fn from(shape: WindowShape) -> Self {
        Self {
            placement: WindowProbing::of(&shape),
            size_bits: shape.size_bits(),
            capacity_items: shape.capacity_items,
            has_head: false,
        }
    }
}

impl Layer<WindowProbing> {
    /// What never changes about the layer.
    #[must_use]
    pub fn shape(&self) -> WindowShape {
        self.placement().shape(self.storage().positions(), self.capacity_items())
    }
}
