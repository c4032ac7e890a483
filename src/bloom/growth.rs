//! When a filter grows, by how much, and which share of its error rate each layer gets.

use super::limits::EXPANSION_DEFAULT;

/// What happens when the last layer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The filter refuses further items.
    Fixed,
    /// The filter goes on accepting items, and its error rate rises beyond the promised one.
    Saturating,
    /// A layer with `expansion` times the last capacity is added.
    Scaling {
        /// Growth factor, 1 to [`EXPANSION_MAX`](super::limits::EXPANSION_MAX).
        expansion: u32,
    },
}

impl Growth {
    /// Returns whether the filter never gets another layer.
    #[must_use]
    pub const fn is_fixed_size(self) -> bool {
        matches!(self, Self::Fixed | Self::Saturating)
    }

    /// Returns the growth with a factor: 0 means fixed, as in RedisBloom.
    #[must_use]
    pub const fn from_expansion(expansion: u32) -> Self {
        if expansion == 0 { Self::Fixed } else { Self::Scaling { expansion } }
    }

    /// Returns the growth factor: 0 for a filter of fixed size.
    #[must_use]
    pub const fn expansion(self) -> u32 {
        match self {
            Self::Fixed | Self::Saturating => 0,
            Self::Scaling { expansion } => expansion,
        }
    }

    /// Returns the error rate of layer `index` (0 is the first) of a filter that promises `error_rate` over all
    /// layers.
    ///
    /// A filter of fixed size spends it all. A scaling one spends 3/4 on the first layer, which is the only one of
    /// most filters, and half of the rest on each later layer. So the sum over any number of layers stays below the
    /// promise (the series of Almeida et al., "Scalable Bloom Filters", 2007, with another first term).
    #[must_use]
    pub fn layer_error_rate(self, error_rate: f64, index: usize) -> f64 {
        match (self, index) {
            (Self::Fixed | Self::Saturating, _) => error_rate,
            (Self::Scaling { .. }, 0) => error_rate * 0.75,
            (Self::Scaling { .. }, _) => {
                let halvings = i32::try_from(index).unwrap_or(i32::MAX).saturating_add(2);
                error_rate * 0.5f64.powi(halvings)
            }
        }
    }

    /// Returns the share that layer `index` takes of what the layers before it leave of the promise.
    #[must_use]
    pub const fn part_of_rest(self, index: usize) -> f64 {
        match (self, index) {
            (Self::Fixed | Self::Saturating, _) => 1.0,
            (Self::Scaling { .. }, 0) => 0.75,
            (Self::Scaling { .. }, _) => 0.5,
        }
    }

    /// Returns the sum of the error rates of layer `index` and all later ones, without end, of a promise of
    /// `error_rate`.
    #[must_use]
    pub fn rest_error_rate(self, error_rate: f64, index: usize) -> f64 {
        self.layer_error_rate(error_rate, index) / self.part_of_rest(index)
    }
}

impl Default for Growth {
    fn default() -> Self {
        Self::Scaling { expansion: EXPANSION_DEFAULT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_layers_spend_and_what_they_leave_is_the_promise() {
        let growth = Growth::default();
        let mut spent = 0.0;
        for index in 0..40 {
            let (rest, share) = (growth.rest_error_rate(0.01, index), growth.layer_error_rate(0.01, index));
            assert!((spent + rest - 0.01).abs() < 1e-15, "{index}: {spent} {rest}");
            assert!(share > 0.0 && share < rest, "{index}: {share} of {rest}");
            spent += share;
        }
        assert_eq!(growth.rest_error_rate(0.01, usize::MAX), 0.0);
    }
}
