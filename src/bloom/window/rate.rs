//! How the error rate of a column rises with its items.

use crate::bloom::sizing::{self, Shape};

/// The error rate of one column by its items: that of a layer without pages, times what the pages make of it at the
/// items that the layer was sized for. With more items in the column it errs to the safe side, with
/// fewer the rate is next to nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnRate {
    scale: f64,
    probes: f64,
    per_item: f64,
}

impl ColumnRate {
    /// Returns the curve of the columns of a layer of this shape, which must be valid. O(1), some microseconds.
    #[must_use]
    pub fn of(shape: &Shape) -> Self {
        let share = sizing::column_items(shape.capacity_items);
        let (probes, positions) = (f64::from(shape.probes), shape.positions as f64);
        let rate = sizing::rate_of(shape, share);
        let mut curve = Self { scale: 1.0, probes, per_item: probes / positions };
        let ideal = curve.rate(share);
        if ideal > 0.0 {
            curve.scale = (rate / ideal).clamp(1.0, SCALE_MAX);
        }
        curve
    }

    /// Returns the error rate of a column of so many items. O(1).
    #[must_use]
    pub fn rate(&self, items: f64) -> f64 {
        let fill = -libm::expm1(-items * self.per_item);
        (self.scale * libm::pow(fill, self.probes)).min(1.0)
    }

    /// Returns the items with which a column has an error rate. O(1).
    #[must_use]
    pub fn items(&self, rate: f64) -> u64 {
        if rate <= 0.0 {
            return 0;
        }
        let fill = libm::pow(rate / self.scale, 1.0 / self.probes);
        if fill >= 1.0 { u64::MAX } else { sizing::truncate(-libm::log1p(-fill) / self.per_item) }
    }
}

/// More than pages make of the rate of any layer that is sized here.
const SCALE_MAX: f64 = 1e6;
