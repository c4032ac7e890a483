//! The promise of everbloom's own filters: an error rate over all layers, how they grow, and the budget that the
//! layers share.
//!
//! The error rate of a filter is at most the sum of the rates of its layers. In a filter without merged layers, the
//! layers take the shares of the series of [`Growth`]. Merged layers are not part of that series: the layers after
//! them share the remaining rate by the same series. Growth depends on these numbers, so every machine must compute
//! the same bits.

use crate::bloom::cells::CellType;
use crate::bloom::growth::Growth;
use crate::bloom::hash::Hash;
use crate::bloom::layer::{Layer, LayerSpec};
use crate::bloom::limits::{CAPACITY_DEFAULT_ITEMS, CAPACITY_MAX_ITEMS, ERROR_RATE_DEFAULT, EXPANSION_MAX};
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::sizing::{Shape, sized_rate};

/// The parameters of a filter that BF.RESERVE sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// Promised error rate over all layers; strictly between 0 and 1.
    pub error_rate: f64,
    /// The capacity of the first layer.
    pub capacity_items: u64,
    /// What happens when the last layer is full.
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
    /// The name of the first field that is out of range.
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

    /// Returns the capacity of the layer after one with a capacity of `before` items.
    ///
    /// # Errors
    /// [`ReserveError::TooLong`] if it exceeds the largest capacity of a layer.
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

    /// Returns the next layer after `layers`, some of which came from a merge if `has_merged_layers`.
    ///
    /// # Errors
    /// [`AddError`] if the filter cannot grow.
    pub(super) fn next_layer(
        &self,
        layers: &[Layer],
        has_merged_layers: bool,
        hash: Hash,
        cells: CellType,
    ) -> Result<LayerSpec, AddError> {
        if !layers.is_empty() && self.growth.is_fixed_size() {
            return Err(AddError::Full);
        }
        let before = layers.last().map(Layer::capacity_items);
        let capacity_items = self.layer_capacity(before).map_err(AddError::CannotGrow)?;
        let error_rate = if has_merged_layers {
            self.budget(layers.len(), spent(layers)).next_layer_error_rate()
        } else {
            self.layer_error_rate(layers.len())
        };
        Ok(Shape::sized(cells, capacity_items, error_rate).spec(hash, 0))
    }

    /// Returns the budget of a filter with this number of layers, whose rates sum to `spent`.
    #[must_use]
    pub const fn budget(&self, layers: usize, spent: f64) -> Budget {
        Budget { growth: self.growth, promised: self.error_rate, layers, spent }
    }
}

/// The promise of a filter, and the part of it that its layers use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// How the filter grows.
    pub growth: Growth,
    /// The error rate that it promises over its whole life.
    pub promised: f64,
    /// Number of its layers.
    pub layers: usize,
    /// The sum of the error rates of its layers: the current rate of layers that take no more items, the rate when
    /// full of the others.
    pub spent: f64,
}

/// The smallest part of the series' rest that must remain for growth. A quarter costs later layers three bits per
/// item more than in a filter without merged layers; a smaller part would cost many more.
const LEAST_PART: f64 = 0.25;
/// The relative excess of a sum of rates over the promise that rounding can cause.
const ROUNDING: f64 = 1e-9;

impl Budget {
    /// Returns the smallest error rate that must remain for later layers.
    fn least_rest(&self) -> f64 {
        LEAST_PART * self.growth.rest_error_rate(self.promised, self.layers)
    }

    /// Returns the error rate that a filter with a chosen capacity must promise to permit one more layer and later
    /// ones, for any expansion.
    #[must_use]
    pub fn needed(&self) -> f64 {
        // Layers of equal capacity leave the most for later ones.
        let growth = Growth::Scaling { expansion: 1 };
        let part = LEAST_PART * growth.rest_error_rate(1.0, self.layers);
        self.spent / (1.0 - part)
    }

    /// Returns the smallest sum of the error rates with one more layer and later ones.
    #[must_use]
    pub fn with_next_layer(&self) -> f64 {
        self.spent + self.least_rest()
    }

    /// Returns whether the promise permits one more layer and later ones.
    #[must_use]
    pub fn permits_layer(&self) -> bool {
        self.with_next_layer() <= self.promised * (1.0 + ROUNDING)
    }

    /// Returns whether the filter keeps its promise over its whole life.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.most() <= self.promised * (1.0 + ROUNDING)
    }

    /// Returns the highest error rate over the whole life of the filter.
    #[must_use]
    pub fn most(&self) -> f64 {
        let all = if self.growth.is_fixed_size() { self.spent } else { self.with_next_layer() };
        all.max(self.promised)
    }

    /// Returns the error rate of the next layer: its share of the remaining rate. A filter whose promise is broken
    /// can also grow.
    #[must_use]
    pub fn next_layer_error_rate(&self) -> f64 {
        let rest = (self.promised - self.spent).max(self.least_rest());
        rest * self.growth.part_of_rest(self.layers)
    }
}

/// Returns the sum of the current error rates of layers. O(layers).
#[must_use]
fn spent(layers: &[Layer]) -> f64 {
    layers.iter().map(|layer| layer.error_rate_at(layer.counts().set_cells)).sum()
}
