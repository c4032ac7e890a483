//! The promise of everbloom's own filters: an error rate over the whole filter, and a capacity.

use crate::bloom::filter::growth::Growth;
use crate::bloom::limits::{CAPACITY_DEFAULT_ITEMS, CAPACITY_MAX_ITEMS, ERROR_RATE_DEFAULT, EXPANSION_MAX};

/// The parameters of a filter that BF.RESERVE sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// Promised error rate; strictly between 0 and 1.
    pub error_rate: f64,
    /// The capacity, 1 to [`CAPACITY_MAX_ITEMS`].
    pub capacity_items: u64,
    /// What happens when the filter has as many items.
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
