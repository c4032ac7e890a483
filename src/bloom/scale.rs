//! How far a filter could grow: growth on paper, by the rules of growth itself.

use super::chain::{ByteLimit, ChainParameters, ReserveError};
use super::extent::Extent;
use super::family::Family;
use super::growth::Growth;
use super::layer::LayerShape;
use super::sizing::sized_rate;

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
pub(super) struct PaperLayer {
    pub(super) capacity_items: u64,
    pub(super) size_bytes: u64,
    pub(super) probes: u32,
}

/// Grows a filter of kind `F` on paper until it has room for `target_items`. `next` makes each layer from its index and
/// the capacity of the one before. O(layers), at most [`LAYERS_MAX`](super::limits::LAYERS_MAX).
pub(super) fn grow_on_paper<F: Family>(
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

impl ChainParameters {
    /// Checks that a filter with these parameters can grow to `target_items` within `limit_bytes`: exactly when growth
    /// would. O(layers), of which at most fifty differ in what they are sized for; each of those is sized once.
    ///
    /// # Errors
    /// What stops it before.
    pub fn validate_scale_to(&self, target_items: u64, limit_bytes: u64) -> Result<(), ScaleError> {
        if self.growth == Growth::Fixed {
            return Err(ScaleError::Fixed);
        }
        let mut last: Option<((u64, f64), LayerShape)> = None;
        grow_on_paper::<Self>(target_items, &limit_bytes, |index, before| {
            let (capacity_items, error_rate) = self.layer_parameters(index, before)?;
            let asked = (capacity_items, sized_rate(error_rate));
            let shape = match last {
                Some((sized, shape)) if sized == asked => shape,
                _ => LayerShape::sized(capacity_items, error_rate),
            };
            last = Some((asked, shape));
            Ok(PaperLayer { capacity_items, size_bytes: shape.size_bytes(), probes: shape.probes })
        })
    }
}
