//! What a filter of everbloom's own kind is reserved with, how it hashes and how it grows.

use super::hash::{ItemHash, hash128};
use super::probing::Probing;
use super::shape::LayerShape;
use crate::bloom::chain::Chain;
use crate::bloom::family::Family;
use crate::bloom::growth::Growth;
use crate::bloom::layer::Layer;
use crate::bloom::limits::{CAPACITY_DEFAULT_ITEMS, CAPACITY_MAX_ITEMS, ERROR_RATE_DEFAULT, EXPANSION_MAX};
use crate::bloom::outcome::{AddError, ByteLimit, ReserveError};
use crate::bloom::placement::LayerPlan;

/// What a filter is reserved with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Everbloom {
    /// Promised share of false positives among absent items, over all layers; strictly between 0 and 1.
    pub error_rate: f64,
    /// Items of the first layer.
    pub capacity_items: u64,
    /// What happens when it is full.
    pub growth: Growth,
}

impl Default for Everbloom {
    fn default() -> Self {
        Self {
            error_rate: ERROR_RATE_DEFAULT,
            capacity_items: CAPACITY_DEFAULT_ITEMS,
            growth: Growth::default(),
        }
    }
}

impl Everbloom {
    /// The first rule that the parameters break, if they break one.
    ///
    /// # Errors
    /// The name of the field that is out of its range.
    pub fn validate(&self) -> Result<(), &'static str> {
        if !(self.error_rate > 0.0 && self.error_rate < 1.0) {
            return Err("error rate");
        }
        if self.capacity_items == 0 || self.capacity_items > CAPACITY_MAX_ITEMS {
            return Err("capacity");
        }
        if self.growth.expansion() > EXPANSION_MAX {
            return Err("expansion");
        }
        Ok(())
    }

    /// Items and error rate of layer `index`, 0 being the first, behind one with a capacity of `before`
    /// items.
    ///
    /// # Errors
    /// [`ReserveError::TooLong`] when it would hold more items than a layer may.
    pub fn layer_parameters(&self, index: usize, before: Option<u64>) -> Result<(u64, f64), ReserveError> {
        let capacity_items = match before {
            None => Some(self.capacity_items),
            Some(capacity_items) => capacity_items.checked_mul(self.growth.expansion().into()),
        };
        let capacity_items =
            capacity_items.filter(|items| *items <= CAPACITY_MAX_ITEMS).ok_or(ReserveError::TooLong)?;
        Ok((capacity_items, self.growth.layer_error_rate(self.error_rate, index)))
    }
}

impl Family for Everbloom {
    type Digest<'i> = ItemHash;
    type Placement = Probing;

    #[inline(always)]
    fn digest(&self, item: &[u8]) -> ItemHash {
        hash128(item)
    }

    fn growth(&self) -> Growth {
        self.growth
    }

    /// Of those that it grows by itself each has as many times the capacity of the one before.
    fn are_layers_united(&self, layers: &[Layer<Probing>]) -> bool {
        let factor = u64::from(self.growth.expansion());
        let pairs = layers.iter().zip(layers.iter().skip(1));
        pairs
            .into_iter()
            .any(|(before, layer)| layer.capacity_items() != before.capacity_items().saturating_mul(factor))
    }

    fn next_layer(&self, layers: &[Layer<Probing>]) -> Result<LayerPlan<Probing>, AddError> {
        if !layers.is_empty() && self.growth.is_fixed_size() {
            return Err(AddError::Full);
        }
        let before = layers.last().map(Layer::capacity_items);
        let (capacity_items, error_rate) =
            self.layer_parameters(layers.len(), before).map_err(AddError::CannotGrow)?;
        Ok(LayerShape::sized(capacity_items, error_rate).into())
    }
}

impl Chain<Everbloom> {
    /// An empty filter of one layer. The parameters must be valid.
    ///
    /// # Errors
    /// When the first layer is larger than `limit` allows or than the memory there is.
    pub fn reserve(parameters: Everbloom, limit: &dyn ByteLimit) -> Result<Self, ReserveError> {
        Self::try_new(parameters, limit)
    }

    /// What the filter was reserved with.
    #[must_use]
    pub fn parameters(&self) -> Everbloom {
        *self.family()
    }
}
