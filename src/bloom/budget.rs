//! The budget of a filter: the error rate that it promises over its whole life, what its layers spend of it, and what is
//! left for the layers that it grows by.
//!
//! The rate of a filter is at most the sum of the rates of its layers. A filter that has grown by itself spends by the series
//! of [`Growth`]. Layers that came by a merge are not of that series: what they leave is shared among the later ones by the
//! same series. Growth decides by these numbers, so they are computed in a way that gives the same bits on every machine.

use super::growth::Growth;
use super::layer::Layer;
use super::placement::Probes;

/// What a filter promises, and what some of its layers spend of that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// How the filter grows.
    pub growth: Growth,
    /// The error rate that it promises over its whole life.
    pub promised: f64,
    /// Number of its layers.
    pub layers: usize,
    /// The sum of their error rates: of layers that take no more items as they are, of others when they are full.
    pub spent: f64,
}

/// The least part of what the series leaves at a number of layers that must be left for growth. With less, later layers would take
/// many more bits per item than those of other filters of as many layers: a quarter costs them three bits.
const LEAST_PART: f64 = 0.25;
/// How far a sum of rates may exceed the promise by rounding, as a part of it.
const ROUNDING: f64 = 1e-9;

impl Budget {
    /// Returns the least that must be left for the layers that follow.
    fn least_rest(&self) -> f64 {
        LEAST_PART * self.growth.rest_error_rate(self.promised, self.layers)
    }

    /// Returns what the filter would have to promise for one more layer, and all that follow it.
    #[must_use]
    pub fn needed(&self) -> f64 {
        let part = LEAST_PART * self.growth.rest_error_rate(1.0, self.layers);
        self.spent / (1.0 - part)
    }

    /// Returns what the error rate comes to at least with one more layer, and all that follow it.
    #[must_use]
    pub fn with_next_layer(&self) -> f64 {
        self.spent + self.least_rest()
    }

    /// Returns whether the promise has room for one more layer, and all that follow it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.with_next_layer() <= self.promised * (1.0 + ROUNDING)
    }

    /// Returns whether the filter keeps its promise whatever is added to it.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.most() <= self.promised * (1.0 + ROUNDING)
    }

    /// Returns the most that the error rate comes to over the whole life of the filter.
    #[must_use]
    pub fn most(&self) -> f64 {
        let all = if self.growth.is_fixed_size() { self.spent } else { self.with_next_layer() };
        all.max(self.promised)
    }

    /// Returns the error rate of the layer that follows: its part of what is left. A filter whose promise is broken grows too.
    #[must_use]
    pub fn next_layer_error_rate(&self) -> f64 {
        let rest = (self.promised - self.spent).max(self.least_rest());
        rest * self.growth.part_of_rest(self.layers)
    }
}

/// Returns the sum of the error rates of layers as they are now. O(layers).
#[must_use]
pub fn spent<P: Probes>(layers: &[Layer<P>]) -> f64 {
    layers.iter().map(|layer| layer.placement().error_rate_now(layer.storage())).sum()
}
