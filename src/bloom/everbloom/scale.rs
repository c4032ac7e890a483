//! How far a filter of everbloom's own kind could grow.

use super::family::Everbloom;
use super::shape::LayerShape;
use super::sizing::sized_rate;
use crate::bloom::scale::{PaperLayer, ScaleError, grow_on_paper};

impl Everbloom {
    /// Checks that a filter with these parameters can grow to `target_items` within `limit_bytes`: exactly
    /// when growth would. O(layers), of which at most fifty differ in what they are sized for; each of those
    /// is sized once.
    ///
    /// # Errors
    /// What stops it before.
    pub fn validate_scale_to(&self, target_items: u64, limit_bytes: u64) -> Result<(), ScaleError> {
        if self.growth.is_fixed_size() {
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
