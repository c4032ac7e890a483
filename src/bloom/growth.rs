//! When a filter grows, by how much, and the share of its error rate that each layer gets.

use super::limits::EXPANSION_DEFAULT;

/// What happens when the last layer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The filter refuses further items.
    Fixed,
    /// The filter accepts more items, and its error rate rises above the promised one.
    Saturating,
    /// A layer with `expansion` times the capacity of the last one is added. The capacity of the first layer was
    /// chosen, so it gets most of the error rate.
    Scaling {
        /// Growth factor, 1 to [`EXPANSION_MAX`](super::limits::EXPANSION_MAX).
        expansion: u32,
    },
    /// As `Scaling`, for a filter with the default capacity, which will grow often: later layers get more of the
    /// error rate.
    Unreserved {
        /// As that of `Scaling`.
        expansion: u32,
    },
}

/// Shares of an error rate, one per layer. Their sum over any number of layers is below 1.
struct Series {
    /// The shares of the first layers.
    first: &'static [f64],
    /// The remaining share, for layer `index` and all later ones, falls as `index^-exponent` after the first layers.
    exponent: f64,
}

/// For a filter with a chosen capacity: most have one layer, the others few more.
const RESERVED: Series = Series {
    first: &[
        0.75, 0.0954, 0.0551, 0.027, 0.0133, 0.0102, 0.009, 0.0068, 0.0053, 0.0043, 0.0035, 0.0028, 0.0022,
        0.002,
    ],
    exponent: 2.0,
};

/// For a filter that grows from the default capacity: with expansion 2 it has at most this number of layers.
const UNRESERVED: Series = Series {
    first: &[
        0.4, 0.1423, 0.0716, 0.047, 0.0298, 0.0277, 0.0217, 0.0196, 0.0166, 0.0162, 0.0147, 0.0133, 0.0123,
        0.0122, 0.0115, 0.0107, 0.01, 0.0094, 0.0087, 0.0081, 0.0081, 0.0079, 0.0076, 0.0074, 0.0071, 0.0069,
        0.0067, 0.0064, 0.0062, 0.006, 0.0058, 0.0056, 0.0055, 0.0053,
    ],
    exponent: 2.0,
};

/// For a filter whose layers all have the same capacity: it may have thousands of layers.
const EQUAL_LAYERS: Series = Series { first: &[0.7], exponent: 0.3 };

impl Series {
    /// Returns the share of layer `index`.
    fn share(&self, index: usize) -> f64 {
        match self.first.get(index) {
            Some(share) => *share,
            None => self.rest(index) - self.rest(index.saturating_add(1)),
        }
    }

    /// Returns the sum of the shares of layer `index` and all later ones.
    fn rest(&self, index: usize) -> f64 {
        let rest = 1.0 - self.first.iter().take(index).sum::<f64>();
        let end = self.first.len().min(index);
        if end == index { rest } else { rest * libm::pow(end as f64 / index as f64, self.exponent) }
    }
}

impl Growth {
    /// Returns whether the filter never gets another layer.
    #[must_use]
    pub const fn is_fixed_size(self) -> bool {
        matches!(self, Self::Fixed | Self::Saturating)
    }

    /// Returns the growth for an expansion: 0 means fixed, as in RedisBloom.
    #[must_use]
    pub const fn from_expansion(expansion: u32) -> Self {
        if expansion == 0 { Self::Fixed } else { Self::Scaling { expansion } }
    }

    /// Returns the same growth for a filter with the default capacity.
    #[must_use]
    pub const fn unreserved(self) -> Self {
        if let Self::Scaling { expansion } = self { Self::Unreserved { expansion } } else { self }
    }

    /// Returns the same growth for a filter with a chosen capacity.
    #[must_use]
    pub const fn reserved(self) -> Self {
        if let Self::Unreserved { expansion } = self { Self::Scaling { expansion } } else { self }
    }

    /// Returns the expansion; 0 for a fixed filter.
    #[must_use]
    pub const fn expansion(self) -> u32 {
        match self {
            Self::Fixed | Self::Saturating => 0,
            Self::Scaling { expansion } | Self::Unreserved { expansion } => expansion,
        }
    }

    /// Returns how the layers share the error rate; `None` for a fixed filter, whose only layer has all of it.
    ///
    /// A smaller share makes a layer larger: `log2(1 / share)` costs 1.44 bits per item. So the share of a layer is
    /// about the share of items that it holds in filters that have it
    /// (docs/decisions/0019-shares-of-the-error-rate.md).
    const fn series(self) -> Option<Series> {
        match self {
            Self::Fixed | Self::Saturating => None,
            Self::Scaling { expansion: 1 } | Self::Unreserved { expansion: 1 } => Some(EQUAL_LAYERS),
            Self::Scaling { .. } => Some(RESERVED),
            Self::Unreserved { .. } => Some(UNRESERVED),
        }
    }

    /// Returns the error rate of layer `index` (0 is the first) of a filter that promises `error_rate` over all
    /// layers. The sum over any number of layers is at most the promise.
    #[must_use]
    pub fn layer_error_rate(self, error_rate: f64, index: usize) -> f64 {
        self.series().map_or(error_rate, |series| error_rate * series.share(index))
    }

    /// Returns the share that layer `index` takes of the part that the layers before it leave.
    #[must_use]
    pub fn part_of_rest(self, index: usize) -> f64 {
        self.series().map_or(1.0, |series| series.share(index) / series.rest(index))
    }

    /// Returns the sum of the error rates of layer `index` and of all later ones, for a promise of `error_rate`.
    #[must_use]
    pub fn rest_error_rate(self, error_rate: f64, index: usize) -> f64 {
        self.series().map_or(error_rate, |series| error_rate * series.rest(index))
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

    const GROWTHS: [Growth; 5] = [
        Growth::Scaling { expansion: 2 },
        Growth::Unreserved { expansion: 2 },
        Growth::Unreserved { expansion: 32_768 },
        Growth::Scaling { expansion: 1 },
        Growth::Unreserved { expansion: 1 },
    ];

    #[test]
    fn error_rates_of_layers_and_the_rest_sum_up_to_the_promise() {
        for growth in GROWTHS {
            let (mut spent, mut before) = (0.0, 0.01);
            for index in 0..100_000 {
                let (rest, rate) =
                    (growth.rest_error_rate(0.01, index), growth.layer_error_rate(0.01, index));
                assert!((spent + rest - 0.01).abs() < 1e-14, "{growth:?} {index}: {spent} {rest}");
                assert!(rate > 0.0 && rate <= before && rate < rest, "{growth:?} {index}: {rate} of {rest}");
                assert!((growth.part_of_rest(index) * rest - rate).abs() < 1e-17, "{growth:?} {index}");
                (spent, before) = (spent + rate, rate);
                assert!(spent < 0.01, "{growth:?} {index}: {spent}");
            }
            assert!(growth.layer_error_rate(0.01, usize::MAX) >= 0.0);
            assert!(growth.part_of_rest(usize::MAX).is_finite());
        }
    }

    #[test]
    fn the_layer_of_a_fixed_filter_has_the_whole_error_rate() {
        for growth in [Growth::Fixed, Growth::Saturating] {
            assert_eq!((growth.layer_error_rate(0.01, 0), growth.rest_error_rate(0.01, 0)), (0.01, 0.01));
            assert_eq!((growth.part_of_rest(0), growth.unreserved()), (1.0, growth));
        }
    }
}
