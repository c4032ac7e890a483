//! The error rate of a generation of a layer, by its items.

use crate::bloom::cells::CellType;
use crate::bloom::sizing::{self, Shape};

/// The error rate of one generation of a layer as a function of its items: that of a layer without pages, times a
/// factor for its pages. It is exact at the items that the layer was sized for. With more items it is an upper bound;
/// with fewer the rate is close to 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnRate {
    scale: f64,
    probes: f64,
    per_item: f64,
}

impl ColumnRate {
    /// Returns the curve of a layer of this shape, which must be valid. O(1), some microseconds.
    #[must_use]
    pub fn of(shape: &Shape) -> Self {
        let share = column_items(shape.cells, shape.capacity_items);
        let (probes, positions) = (f64::from(shape.probes), shape.positions as f64);
        let rate = sizing::rate_of(shape, share);
        let mut curve = Self { scale: 1.0, probes, per_item: probes / positions };
        let ideal = curve.rate(share);
        if ideal > 0.0 {
            curve.scale = (rate / ideal).clamp(1.0, SCALE_MAX);
        }
        curve
    }

    /// Returns the error rate of a generation with `items` items. O(1).
    #[must_use]
    pub fn rate(&self, items: f64) -> f64 {
        let fill = -libm::expm1(-items * self.per_item);
        (self.scale * libm::pow(fill, self.probes)).min(1.0)
    }

    /// Returns the number of items with which a generation has the error rate `rate`. O(1).
    #[must_use]
    pub fn items(&self, rate: f64) -> u64 {
        if rate <= 0.0 {
            return 0;
        }
        let fill = libm::pow(rate / self.scale, 1.0 / self.probes);
        if fill >= 1.0 { u64::MAX } else { sizing::truncate(-libm::log1p(-fill) / self.per_item) }
    }
}

/// An upper bound of the factor for pages.
const SCALE_MAX: f64 = 1e6;

/// Returns the number of items of a generation for which a layer of these cells is sized.
#[must_use]
pub(in crate::bloom) fn column_items(cells: CellType, capacity_items: u64) -> f64 {
    if cells == CellType::Burst { capacity_items as f64 } else { sizing::column_items(capacity_items) }
}
