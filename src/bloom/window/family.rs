//! How a filter that forgets hashes, adds and grows.

use super::parameters::{TimedHash, Window};
use super::placement::WindowProbing;
use super::rules::ADDRESS_MAX;
use super::shape::WindowShape;
use crate::bloom::everbloom::hash128;
use crate::bloom::family::Family;
use crate::bloom::growth::Growth;
use crate::bloom::layer::Layer;
use crate::bloom::outcome::{AddError, Added, ReserveError};
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

    fn validate_layers(&self, layers: &[Layer<WindowProbing>]) -> Result<(), &'static str> {
        self.validate(layers)
    }

    fn next_layer(&self, layers: &[Layer<WindowProbing>]) -> Result<LayerPlan<WindowProbing>, AddError> {
        if !layers.is_empty() && self.growth().is_fixed_size() {
            return Err(AddError::Full);
        }
        let before = layers.last().map(Layer::capacity_items);
        let shape = self.layer_shape(before).map_err(AddError::CannotGrow)?;
        let address = layers.last().map_or(0, |last| last.dump_range(0).end);
        if address > ADDRESS_MAX {
            return Err(AddError::CannotGrow(ReserveError::TooLong));
        }
        Ok(shape.plan(address))
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

impl WindowShape {
    /// Returns the layer of this shape, which must be valid, that begins at `address`.
    #[must_use]
    pub fn plan(&self, address: u64) -> LayerPlan<WindowProbing> {
        LayerPlan {
            placement: WindowProbing::of(self, address),
            size_bits: self.size_bits(),
            capacity_items: self.capacity_items,
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
