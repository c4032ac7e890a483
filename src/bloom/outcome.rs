//! The results of reserving a filter and of adding to it, and the byte limit of both.

use thiserror::Error;

use super::hash::scheme::{ItemEncoding, NotEncodable};
use super::memory::OutOfMemory;

/// A limit on the bytes of a filter, structs and cells: [`Extent::needed_bytes`](crate::bloom::Extent::needed_bytes).
/// It is called only before a layer is created, so it may be slow.
pub trait ByteLimit {
    /// Returns the most bytes of one filter.
    fn max_filter_bytes(&self) -> u64;

    /// Checks that a filter may take `needed_bytes`.
    ///
    /// # Errors
    /// The limit, if it is exceeded.
    fn permits(&self, needed_bytes: u64) -> Result<(), u64> {
        let limit_bytes = self.max_filter_bytes();
        if needed_bytes > limit_bytes { Err(limit_bytes) } else { Ok(()) }
    }
}

impl ByteLimit for u64 {
    fn max_filter_bytes(&self) -> u64 {
        *self
    }
}

/// Why a layer could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReserveError {
    /// The filter would take `needed_bytes`, more than `limit_bytes`.
    #[error("the filter would take {needed_bytes} bytes, more than {limit_bytes}")]
    TooLarge {
        /// Bytes of the filter with the new layer.
        needed_bytes: u64,
        /// The limit that it would exceed.
        limit_bytes: u64,
    },
    /// The filter would have more layers than [`LAYERS_MAX`](super::limits::LAYERS_MAX), more probes than
    /// [`PROBES_TOTAL_MAX`](super::limits::PROBES_TOTAL_MAX), or too many items in one layer.
    #[error("the filter would have too many layers, probes, or items in one layer")]
    TooLong,
    /// The error rate of the next layer would be too small: it would round to 0.
    #[error("the error rate of the next layer would be too small: it would round to 0")]
    ErrorRateVanishes,
    /// An allocation failed.
    #[error("out of memory")]
    OutOfMemory,
}

impl From<OutOfMemory> for ReserveError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// The result of adding an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The item was not in the filter.
    New,
    /// The item was in the filter, or is a false positive. It was counted again.
    Again,
    /// The item was in the filter, or is a false positive. Nothing changed.
    Present,
}

/// Why an item could not be added; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AddError {
    /// The filter is fixed and has as many items as its capacity.
    #[error("the filter is fixed and full")]
    Full,
    /// The filter is full and cannot grow.
    #[error("the filter is full and cannot grow")]
    CannotGrow(#[source] ReserveError),
    /// The encoding of an imported filter cannot express the item.
    #[error("{}", NotEncodable(*.0))]
    NotEncodable(ItemEncoding),
}
