//! The options of a new filter.

use thiserror::Error;

use everbloom_filter::{Growth, Promise, ReserveError};

/// The options of a new filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Promised false-positive rate over the whole life of the filter; strictly between 0 and 1.
    pub error_rate: f64,
    /// The number of items before the filter grows, 1 to 2^40.
    pub capacity_items: u64,
    /// What a full filter does. [`Growth::Fixed`] refuses new items. [`Growth::Saturating`] adds new items and exceeds
    /// the error rate. [`Growth::Scaling`] adds a table, which grows with its items; until then, the filter is no
    /// larger than its capacity needs. [`Growth::Unreserved`] begins with a table.
    pub growth: Growth,
}

impl Default for Options {
    /// Returns the options of `BF.RESERVE key 0.01 100`: 100 items at 1 %, and growth.
    fn default() -> Self {
        let Promise { error_rate, capacity_items, growth } = Promise::default();
        Self { error_rate, capacity_items, growth }
    }
}

impl Options {
    /// Returns the options of a filter that BF.ADD creates: its memory follows its items, whatever their number.
    ///
    /// ```
    /// use everbloom::{Format, Options, filter_size};
    ///
    /// for items in [10_000, 1_000_000, 100_000_000] {
    ///     let size = filter_size(Format::Everbloom, Options::unreserved(), items)?;
    ///     assert!(size.size_bits() < 20 * items);
    /// }
    /// # Ok::<(), everbloom::CreateError>(())
    /// ```
    #[must_use]
    pub fn unreserved() -> Self {
        let options = Self::default();
        Self { growth: options.growth.unreserved(), ..options }
    }

    /// Returns the promise with these options.
    pub(super) fn promise(self) -> Result<Promise, CreateError> {
        let Self { error_rate, capacity_items, growth } = self;
        let promise = Promise { error_rate, capacity_items, growth };
        promise.validate().map_err(CreateError::Option)?;
        Ok(promise)
    }
}

/// Why a filter was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// An option is out of range; holds its name.
    #[error("{0} is out of range")]
    Option(&'static str),
    /// There is not enough memory for the filter, or it exceeds the largest size.
    #[error("{0}")]
    Reserve(ReserveError),
}
