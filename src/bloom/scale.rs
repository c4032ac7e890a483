//! How far a filter could grow, by the rules of growth itself.

use thiserror::Error;

use super::cells::CellType;
use super::extent::Extent;
use super::hash::Hash;
use super::layer::LayerSpec;
use super::outcome::ReserveError;
use super::policy::Policy;
/// Why a filter cannot grow to the items asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScaleError {
    /// It is of fixed size.
    #[error("the filter is of fixed size")]
    Fixed,
    /// It would take more bytes than the limit.
    #[error("the filter would take more bytes than it may")]
    TooLarge,
    /// The error rate of a layer would be too small to tell from zero.
    #[error("the error rate of a layer would be too small to tell from zero")]
    ErrorRateVanishes,
    /// It would have more layers or probes, or more items in a layer, than there may be.
    #[error("the filter would have too many layers, probes, or items in one layer")]
    TooLong,
}

impl From<ReserveError> for ScaleError {
    fn from(error: ReserveError) -> Self {
        match error {
            ReserveError::TooLarge { .. } | ReserveError::OutOfMemory => Self::TooLarge,
            ReserveError::TooLong => Self::TooLong,
            ReserveError::ErrorRateVanishes => Self::ErrorRateVanishes,
        }
    }
}

/// Checks that a filter can grow to `target_items` within `limit_bytes`: exactly when growth would. The policy must be valid.
/// O(layers), at most [`LAYERS_MAX`](super::limits::LAYERS_MAX); layers that are sized for the same are sized once.
///
/// # Errors
/// What stops it before.
pub fn validate_scale_to(
    policy: &Policy,
    hash: Hash,
    cells: CellType,
    target_items: u64,
    limit_bytes: u64,
) -> Result<(), ScaleError> {
    if policy.growth().is_fixed_size() {
        return Err(ScaleError::Fixed);
    }
    let (mut extent, mut total_items, mut before) = (Extent::default(), 0u64, None);
    let mut last: Option<((u64, f64), LayerSpec)> = None;
    for index in 0.. {
        let parameters = policy.layer_parameters(index, before)?;
        let layer = match last {
            Some((sized, layer)) if sized == parameters => layer,
            _ => policy.sized_layer(parameters, hash, cells)?,
        };
        extent = extent.and_layer(layer.size_bits.div_ceil(8), layer.placement.layout().probes());
        extent.check(&limit_bytes)?;
        total_items = total_items.saturating_add(layer.capacity_items);
        if total_items >= target_items {
            break;
        }
        before = Some(layer.capacity_items);
        last = Some((parameters, layer));
    }
    Ok(())
}
