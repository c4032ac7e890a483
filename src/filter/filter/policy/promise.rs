//! The promise of everbloom's own filters: an error rate over the whole filter, a capacity, and what happens when the
//! capacity is reached.

use crate::limits::{
    CAPACITY_DEFAULT_ITEMS, CAPACITY_MAX_ITEMS, ERROR_RATE_DEFAULT, EXPANSION_DEFAULT, EXPANSION_MAX,
};

/// The parameters of a filter that BF.RESERVE sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// Promised error rate; strictly between 0 and 1.
    pub error_rate: f64,
    /// The capacity, 1 to [`CAPACITY_MAX_ITEMS`].
    pub capacity_items: u64,
    /// What happens when the filter has as many items as its capacity.
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

    /// Returns the error rate that the bits of the filter are sized for.
    #[must_use]
    pub fn bits_error_rate(&self) -> f64 {
        self.growth.bits_error_rate(self.error_rate)
    }

    /// Returns the error rate that the table of the filter keeps.
    #[must_use]
    pub fn table_error_rate(&self) -> f64 {
        self.growth.table_error_rate(self.error_rate)
    }
}

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
        /// only report it. 1 to [`EXPANSION_MAX`].
        expansion: u32,
    },
    /// As `Scaling`, for a filter whose capacity nobody chose: it is a table from the first item on.
    Unreserved {
        /// As that of `Scaling`.
        expansion: u32,
    },
}

/// The share of the error rate that the bits of a growing filter get. The rest is for the table that follows.
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
