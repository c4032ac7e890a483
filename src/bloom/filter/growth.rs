//! When a filter grows, and how its error rate is divided.

use crate::bloom::limits::EXPANSION_DEFAULT;

/// What happens when a filter has as many items as its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The filter refuses further items.
    Fixed,
    /// The filter accepts more items, and its error rate rises above the promised one.
    Saturating,
    /// The filter accepts more items at the promised error rate. Its capacity was chosen, so it begins with bits, which
    /// get most of the error rate.
    Scaling {
        /// In other formats, the factor from the capacity of one layer to that of the next. Everbloom's own filters
        /// only report it. 1 to [`EXPANSION_MAX`](crate::bloom::limits::EXPANSION_MAX).
        expansion: u32,
    },
    /// As `Scaling`, for a filter whose capacity nobody chose: it is a table from the first item on.
    Unreserved {
        /// As that of `Scaling`.
        expansion: u32,
    },
}

/// The share of the error rate that the bits of a filter get which can grow. The rest is for the table that follows.
pub const BITS_SHARE: f64 = 0.75;

impl Growth {
    /// Returns whether the filter never grows.
    #[must_use]
    pub const fn is_fixed_size(self) -> bool {
        matches!(self, Self::Fixed | Self::Saturating)
    }

    /// Returns the growth for an expansion: 0 means fixed, as in RedisBloom.
    #[must_use]
    pub const fn from_expansion(expansion: u32) -> Self {
        if expansion == 0 { Self::Fixed } else { Self::Scaling { expansion } }
    }

    /// Returns the same growth for a filter whose capacity nobody chose.
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

    /// Returns whether nobody chose the capacity.
    #[must_use]
    #[inline(always)]
    pub const fn is_unreserved(self) -> bool {
        matches!(self, Self::Unreserved { .. })
    }

    /// Returns the error rate that the bits are sized for, in a filter that promises `error_rate`.
    #[must_use]
    pub fn bits_error_rate(self, error_rate: f64) -> f64 {
        if self.is_fixed_size() { error_rate } else { error_rate * BITS_SHARE }
    }

    /// Returns the error rate that a table keeps, in a filter that promises `error_rate`.
    #[must_use]
    pub fn table_error_rate(self, error_rate: f64) -> f64 {
        if self.is_unreserved() { error_rate } else { error_rate * (1.0 - BITS_SHARE) }
    }
}

impl Default for Growth {
    fn default() -> Self {
        Self::Scaling { expansion: EXPANSION_DEFAULT }
    }
}
