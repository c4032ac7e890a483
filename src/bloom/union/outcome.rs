//! What a merge may do, what it comes to, and why it is refused.

use std::fmt;

use super::layers::LastLayer;
use super::placement::UnionPlacement;
use crate::bloom::everbloom::Everbloom;
use crate::bloom::layer::Layer;
use crate::bloom::memory::OutOfMemory;
use crate::bloom::outcome::ReserveError;

/// What a merge may do to its destination.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// What it promises, once it is a filter of our own.
    pub promise: Everbloom,
    /// Whether layers may be appended to it: to filters of our own format.
    pub takes_layers: bool,
    /// Whether some of its layers came by a merge.
    pub is_united: bool,
    /// Whether it is merged into although that breaks the promised error rate.
    pub is_forced: bool,
}

/// Why filters are not merged; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MergeError {
    /// The filter would be too large, or have too many layers or probes.
    Reserve(ReserveError),
    /// The destination's format holds no layer of the shape or hash of one of the source's.
    Mismatch,
    /// A layer of the destination would hold more than it was sized for.
    TooFull,
    /// The filter would come to err more often than it promises.
    ErrorRate {
        /// The error rate that it would come to.
        rate: f64,
        /// What it promises.
        promised: f64,
        /// What a filter of all these layers has to promise.
        needed: f64,
    },
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserve(error) => error.fmt(f),
            Self::Mismatch => f.write_str("the destination has no layer of that shape and hash"),
            Self::TooFull => f.write_str("a layer would hold more items than it was sized for"),
            Self::ErrorRate { rate, promised, .. } => {
                write!(f, "the filter would come to an error rate of {rate}, and promises {promised}")
            }
        }
    }
}

impl std::error::Error for MergeError {}

impl From<ReserveError> for MergeError {
    fn from(error: ReserveError) -> Self {
        Self::Reserve(error)
    }
}

impl From<OutOfMemory> for MergeError {
    fn from(OutOfMemory: OutOfMemory) -> Self {
        Self::Reserve(ReserveError::OutOfMemory)
    }
}

/// A layer of a source that is set in one of the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Which layer of the source, 0 being the oldest.
    pub source_layer: usize,
    /// Which layer of the destination.
    pub layer: usize,
}

/// What a merge comes to, once the layers that are set in others are.
#[derive(Debug, Default)]
pub struct Merged {
    /// The layers that the destination gains.
    pub added: Vec<Layer<UnionPlacement>>,
    /// What becomes of its last one.
    pub last: LastLayer,
}
