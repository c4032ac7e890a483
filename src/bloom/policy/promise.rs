//! The promise of everbloom's own filters: an error rate over all layers, and how they grow.

use crate::bloom::budget::{Budget, spent};
use crate::bloom::cells::CellType;
use crate::bloom::growth::Growth;
use crate::bloom::hash::Hash;
use crate::bloom::layer::{Layer, LayerSpec};
use crate::bloom::limits::{CAPACITY_DEFAULT_ITEMS, CAPACITY_MAX_ITEMS, ERROR_RATE_DEFAULT, EXPANSION_MAX};
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::sizing::{Shape, full_rate, sized_rate};

/// What a filter is reserved with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// Promised share of false positives among absent items, over all layers; strictly between 0 and 1.
    pub error_rate: f64,
    /// Items of the first layer.
    pub capacity_items: u64,
    /// What happens when it is full.
    pub growth: Growth,
}

impl Default for Promise {
    fn default() -> Self {
        Self {
            error_rate: ERROR_RATE_DEFAULT,
            capacity_items: CAPACITY_DEFAULT_ITEMS,
            growth: Growth::default(),
        }
    }
}

impl Promise {
    /// Checks every field.
    ///
    /// # Errors
    /// The name of the first field that is out of its range.
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

    /// Returns the items of the layer behind one with a capacity of `before` items.
    ///
    /// # Errors
    /// [`ReserveError::TooLong`] when it would hold more items than a layer may.
    pub fn layer_capacity(&self, before: Option<u64>) -> Result<u64, ReserveError> {
        let capacity_items = match before {
            None => Some(self.capacity_items),
            Some(capacity_items) => capacity_items.checked_mul(self.growth.expansion().into()),
        };
        capacity_items.filter(|items| *items <= CAPACITY_MAX_ITEMS).ok_or(ReserveError::TooLong)
    }

    /// Returns the error rate that layer `index`, 0 being the first, is sized for.
    #[must_use]
    pub fn layer_error_rate(&self, index: usize) -> f64 {
        sized_rate(self.growth.layer_error_rate(self.error_rate, index))
    }

    /// Returns the layer that comes after `layers`, some of which came by a merge, or none.
    ///
    /// # Errors
    /// [`AddError`] when the filter cannot grow.
    pub(super) fn next_layer(
        &self,
        layers: &[Layer],
        are_united: bool,
        hash: Hash,
        cells: CellType,
    ) -> Result<LayerSpec, AddError> {
        if !layers.is_empty() && self.growth.is_fixed_size() {
            return Err(AddError::Full);
        }
        let before = layers.last().map(Layer::capacity_items);
        let capacity_items = self.layer_capacity(before).map_err(AddError::CannotGrow)?;
        let error_rate = if are_united {
            self.budget(layers.len(), spent(layers)).next_layer_error_rate()
        } else {
            self.layer_error_rate(layers.len())
        };
        Ok(Shape::sized(cells, capacity_items, error_rate).spec(hash, 0))
    }

    /// Returns the budget of a filter of so many layers, which spend so much of it.
    #[must_use]
    pub const fn budget(&self, layers: usize, spent: f64) -> Budget {
        Budget { growth: self.growth, promised: self.error_rate, layers, spent }
    }

    /// Returns whether some of the layers, which are bits, came by a merge, as far as they tell. The layers that a filter grows by
    /// itself have capacities that follow from the one it was reserved with. If they are all the same, so can those of a merge be:
    /// then the rates tell. O(layers).
    #[must_use]
    pub fn are_layers_united(&self, layers: &[Layer]) -> bool {
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

    /// Returns whether no layer has a higher rate when it is full than the series gives it. O(layers).
    fn is_series(&self, layers: &[Layer]) -> bool {
        /// Far more than what rounding does to a rate.
        const MARGIN: f64 = 1.0 + 1e-6;
        let mut end: usize = 0;
        // Late layers are all of one shape, and the last of a shape gets the least.
        layers.chunk_by(|before, layer| before.shape() == layer.shape()).all(|alike| {
            let (shape, last) =
                (alike.first().and_then(Layer::shape), end.saturating_add(alike.len()).saturating_sub(1));
            end = end.saturating_add(alike.len());
            shape.is_none_or(|shape| full_rate(&shape) <= self.layer_error_rate(last) * MARGIN)
        })
    }
}
