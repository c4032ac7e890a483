//! When a filter grows, by how much, and what share of its error rate each layer may use.

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
    /// Whether the filter never gets another layer.
    #[must_use]
    pub const fn is_fixed_size(self) -> bool {
        matches!(self, Self::Fixed | Self::Saturating)
    }

    /// The growth that a factor stands for: 0 means fixed, as in RedisBloom.
    #[must_use]
    pub const fn from_expansion(expansion: u32) -> Self {
        if expansion == 0 { Self::Fixed } else { Self::Scaling { expansion } }
    }

    /// The factor that stands for this growth: 0 for a filter of fixed size.
    #[must_use]
    pub const fn expansion(self) -> u32 {
        match self {
            Self::Fixed | Self::Saturating => 0,
            Self::Scaling { expansion } => expansion,
        }
    }

    /// The error rate of layer `index` (0 is the first) of a filter that promises `error_rate` over all
    /// layers.
    ///
    /// A filter of fixed size spends it all. A scaling one spends 3/4 on the first layer, which for most filters
    /// stays the only one, and on each later layer half of what is left, so that the sum over any number of
    /// layers stays below the promise (the series of Almeida et al., "Scalable Bloom Filters", 2007, with
    /// another first term).
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
}

impl Default for Growth {
    fn default() -> Self {
        Self::Scaling { expansion: EXPANSION_DEFAULT }
    }
}
