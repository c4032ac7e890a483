//! What a filter of everbloom's own kind is reserved with, how it hashes and how it grows.

use super::hash::{ItemHash, hash128};
use super::probing::Probing;
use super::shape::LayerShape;
use super::sizing::{full_rate, sized_rate};
use crate::bloom::budget::{Budget, spent};
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

    /// Returns the budget of a filter with these parameters and so many layers, which spend so much of it.
    #[must_use]
    pub const fn budget(&self, layers: usize, spent: f64) -> Budget {
        Budget { growth: self.growth, promised: self.error_rate, layers, spent }
    }

    /// Returns whether no layer has a higher rate when it is full than the series gives it. O(layers).
    fn is_series(&self, layers: &[Layer<Probing>]) -> bool {
        /// Far more than what rounding does to a rate.
        const MARGIN: f64 = 1.0 + 1e-6;
        let mut end: usize = 0;
        // Late layers are all of one shape, and the last of a shape gets the least.
        layers.chunk_by(|before, layer| before.shape() == layer.shape()).all(|alike| {
            let (first, last) = (alike.first(), end.saturating_add(alike.len()).saturating_sub(1));
            end = end.saturating_add(alike.len());
            let asked = sized_rate(self.growth.layer_error_rate(self.error_rate, last));
            first.is_none_or(|layer| full_rate(&layer.shape()) <= asked * MARGIN)
        })
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

    /// The layers that a filter grows by itself have capacities that follow from the one it was reserved with. If they are all the
    /// same, so can those of a merge be: then the rates tell.
    fn are_layers_united(&self, layers: &[Layer<Probing>]) -> bool {
        let factor = u64::from(self.growth.expansion());
        let mut capacity_items = self.capacity_items;
        for layer in layers {
            if layer.capacity_items() != capacity_items {
                return true;
            }
            capacity_items = capacity_items.saturating_mul(factor);
        }
        factor == 1 && !self.is_series(layers)
    }

    /// Each item sets a bit that was clear, and only a filter that saturates goes on beyond the capacity of a layer.
    fn validate_layers(&self, layers: &[Layer<Probing>]) -> Result<(), &'static str> {
        self.validate()?;
        layers.iter().try_for_each(|layer| {
            let shape = layer.shape();
            shape.validate()?;
            let saturates = self.growth == Growth::Saturating;
            let most_items = if saturates { shape.size_bits } else { shape.capacity_items };
            if layer.counts().items > most_items { Err("items") } else { Ok(()) }
        })
    }

    fn next_layer(&self, layers: &[Layer<Probing>]) -> Result<LayerPlan<Probing>, AddError> {
        if !layers.is_empty() && self.growth.is_fixed_size() {
            return Err(AddError::Full);
        }
        let before = layers.last().map(Layer::capacity_items);
        let (capacity_items, of_series) =
            self.layer_parameters(layers.len(), before).map_err(AddError::CannotGrow)?;
        let error_rate = if self.are_layers_united(layers) {
            self.budget(layers.len(), spent(layers)).next_layer_error_rate()
        } else {
            of_series
        };
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
