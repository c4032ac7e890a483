//! Why a merge is refused.

use thiserror::Error;

use crate::memory::OutOfMemory;
use crate::outcome::ReserveError;
use crate::table::UnionError;

/// Why filters are not merged; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum MergeError {
    /// The filter would be too large, or have too many layers or probes.
    #[error(transparent)]
    Reserve(#[from] ReserveError),
    /// The destination cannot have bits or entries with the hash or the shape of those of a source.
    #[error("a source does not fit the destination")]
    Mismatch,
    /// The destination, or a layer of it, would exceed its capacity.
    #[error("the destination would exceed its capacity")]
    TooFull,
    /// An item would be counted too often.
    #[error("an item would be counted too often")]
    TooOften,
    /// The error rate of the filter would exceed the promised one.
    #[error("the merged filter would have an error rate of {rate}, above the {promised} of the destination")]
    ErrorRate {
        /// The error rate that the filter would have.
        rate: f64,
        /// The promised error rate.
        promised: f64,
        /// The error rate that a filter with all these layers must promise.
        needed: f64,
    },
}

impl From<UnionError> for MergeError {
    fn from(error: UnionError) -> Self {
        match error {
            UnionError::NoRoom(error) => Self::Reserve(error),
            UnionError::TooOften => Self::TooOften,
        }
    }
}

impl From<OutOfMemory> for MergeError {
    fn from(OutOfMemory: OutOfMemory) -> Self {
        Self::Reserve(ReserveError::OutOfMemory)
    }
}
