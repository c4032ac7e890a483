//! How far a filter that counts could grow.

use super::family::Counting;
use super::line::COUNTER_BITS;
use crate::bloom::growth::Growth;
use crate::bloom::scale::{PaperLayer, ScaleError, grow_on_paper};

impl Counting {
    /// Checks that a filter with these parameters can grow to `target_items` within `limit_bytes`: exactly when growth
    /// would. O(layers).
    ///
    /// # Errors
    /// What stops it before.
    pub fn validate_scale_to(&self, target_items: u64, limit_bytes: u64) -> Result<(), ScaleError> {
        if self.0.growth == Growth::Fixed {
            return Err(ScaleError::Fixed);
        }
        grow_on_paper::<Self>(target_items, &limit_bytes, |index, before| {
            let shape = self.layer_shape(index, before)?;
            let size_bytes = shape.size_bytes().saturating_mul(COUNTER_BITS);
            Ok(PaperLayer { capacity_items: shape.capacity_items, size_bytes, probes: shape.probes })
        })
    }
}
