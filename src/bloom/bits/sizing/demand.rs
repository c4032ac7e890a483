//! The requirements of a layer: the number of items and the error rate.

use std::ops::RangeInclusive;

use super::truncate;
use crate::bloom::limits::LAYER_ERROR_RATE_MIN;

/// The requirements of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// The counted items at its capacity, which exclude false positives.
    pub(super) items: f64,
    /// The error rate to keep with these items.
    pub(super) rate: f64,
    /// Lines per item in a layer with pages.
    pub(super) lines: u8,
}

impl Demand {
    /// Returns the requirements of a layer that keeps `error_rate` with `capacity_items`.
    pub(super) fn new(capacity_items: u64, error_rate: f64) -> Self {
        let rate = sized_rate(error_rate);
        Self { items: capacity_items.max(1) as f64, rate, lines: lines_by_rate(rate) }
    }

    /// Returns the numbers of probes among which the smallest layer is found. The best number is `log2(1/rate)` for
    /// an ideal layer (Bloom, 1970), and a few fewer for unevenly loaded lines.
    pub(super) fn probe_candidates(&self, most: u32) -> RangeInclusive<u32> {
        let ideal = truncate(-libm::log2(self.rate));
        let ideal = u32::try_from(ideal).unwrap_or(u32::MAX).min(most);
        ideal.saturating_sub(2).max(1)..=ideal.saturating_add(1).min(most)
    }
}

/// Returns the error rate that a layer for `error_rate` is sized for: the nearest one within the limits.
#[must_use]
pub fn sized_rate(error_rate: f64) -> f64 {
    let rate = if error_rate.is_nan() { LAYER_ERROR_RATE_MIN } else { error_rate };
    rate.clamp(LAYER_ERROR_RATE_MIN, RATE_MAX)
}

/// Largest error rate that a layer is sized for: the logarithm of a higher one is lost in rounding.
const RATE_MAX: f64 = 1.0 - 1.0 / (1u64 << 20) as f64;

/// The fewest lines with which a layer is at most about 1.2 % larger than a scattered one, down to 5e-7. Below that
/// an item has many probes, and one more line costs little.
const LINES_BY_RATE: [(f64, u8); 8] =
    [(0.05, 1), (3.5e-3, 2), (5e-4, 3), (5e-5, 4), (5e-6, 5), (5e-7, 6), (1e-7, 7), (0.0, 8)];

/// Returns the lines per item for an error rate.
fn lines_by_rate(rate: f64) -> u8 {
    LINES_BY_RATE.iter().find(|(from, _)| rate >= *from).map_or(8, |(_, lines)| *lines)
}
