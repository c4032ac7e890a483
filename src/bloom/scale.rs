//! How far a filter could grow: growth on paper, by the rules of growth itself.

use std::fmt;

use super::extent::Extent;
use super::family::Family;
use super::outcome::{ByteLimit, ReserveError};

/// Why a filter cannot grow to the items asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleError {
    /// It is of fixed size.
    Fixed,
    /// It would take more bytes than the limit.
    TooLarge,
    /// The error rate of a layer would be too small to tell from zero.
    ErrorRateVanishes,
    /// It would have more layers or probes, or more items in a layer, than there may be.
    TooLong,
}

impl fmt::Display for ScaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixed => "the filter is of fixed size",
            Self::TooLarge => "the filter would take more bytes than it may",
            Self::ErrorRateVanishes => "the error rate of a layer would be too small to tell from zero",
            Self::TooLong => "the filter would have too many layers, probes, or items in one layer",
        })
    }
}

impl std::error::Error for ScaleError {}

impl From<ReserveError> for ScaleError {
    fn from(error: ReserveError) -> Self {
        match error {
            ReserveError::TooLarge { .. } | ReserveError::OutOfMemory => Self::TooLarge,
            ReserveError::TooLong => Self::TooLong,
            ReserveError::ErrorRateVanishes => Self::ErrorRateVanishes,
        }
    }
}

/// What growth on paper must know of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaperLayer {
    pub(crate) capacity_items: u64,
    pub(crate) size_bytes: u64,
    pub(crate) probes: u32,
}

/// Grows a filter of kind `F` on paper until it has room for `target_items`. `next` makes each layer from its
/// index and the capacity of the one before. O(layers), at most
/// [`LAYERS_MAX`](crate::bloom::limits::LAYERS_MAX).
pub(crate) fn grow_on_paper<F: Family>(
    target_items: u64,
    limit: &dyn ByteLimit,
    mut next: impl FnMut(usize, Option<u64>) -> Result<PaperLayer, ReserveError>,
) -> Result<(), ScaleError> {
    let (mut extent, mut total_items, mut before) = (Extent::default(), 0u64, None);
    for index in 0.. {
        let layer = next(index, before)?;
        extent = extent.and_layer(layer.size_bytes, layer.probes);
        extent.check::<F>(limit)?;
        total_items = total_items.saturating_add(layer.capacity_items);
        if total_items >= target_items {
            break;
        }
        before = Some(layer.capacity_items);
    }
    Ok(())
}
