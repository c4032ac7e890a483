//! How large a layer must be to keep its error rate.
//!
//! The textbook size, `-n ln p / ln(2)^2`, does not keep it. It ignores that the fill of a small layer varies and
//! that the pages and lines of a paged layer are not equally loaded. It also ignores that a filter does not count
//! false positives: a full filter has more added items than counted ones. The models [`scattered`] and [`paged`]
//! account for this; tests/measured/sizing.rs and tests/measured/accuracy.rs check it.
//!
//! Replicas must build the same layer. So the functions here use IEEE 754 arithmetic, including square roots, and
//! `exp` and `log` of the libm crate, which give the same bits on every machine, unlike those of the C library.

pub(super) mod double_hashing;
pub mod estimate;
mod paged;
mod scattered;

use std::ops::RangeInclusive;

use super::layout::{LINE_PROBES_MAX, LINES_MAX, Layout, PAGE_BITS, Paged, Scattered};
use crate::limits::{CAPACITY_MAX_ITEMS, LAYER_ERROR_RATE_MIN, LAYER_MAX_BYTES, PROBES_MAX};
use crate::number::truncate;

/// The fixed parameters of a layer of everbloom's own layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// Lines per item; 0 in a scattered layout.
    pub lines: u8,
    /// Probes per item.
    pub probes: u32,
    /// Positions of the layer, which are its bits.
    pub positions: u64,
    /// The capacity.
    pub capacity_items: u64,
}

impl LayerShape {
    /// Returns the smallest shape that keeps `error_rate` with `capacity_items` distinct items.
    ///
    /// A rate below [`LAYER_ERROR_RATE_MIN`] is sized as that rate, and a rate above `1 - 2^-20` as `1 - 2^-20`. A
    /// shape for more items is never smaller. A shape for a lower rate is never smaller within one layout, and at most
    /// 1.3 % smaller if it has more lines. O(1), no allocation; measured at 1 to 16 us for a scattered layer and 10 to
    /// 90 us for a paged one.
    #[must_use]
    pub fn sized(capacity_items: u64, error_rate: f64) -> Self {
        let demand = Demand::new(capacity_items, error_rate);
        let (lines, (probes, positions)) = match scattered::solve(&demand) {
            Some(solution) => (0, solution),
            None => (demand.lines, paged::solve(&demand)),
        };
        Self { lines, probes, positions, capacity_items }
    }

    /// Returns the shape of a layer with one of everbloom's own layouts; `None` for other layouts.
    #[must_use]
    pub(super) fn of(layout: Layout, positions: u64, capacity_items: u64) -> Option<Self> {
        let (lines, probes) = match layout {
            Layout::Scattered(layout) => (0, layout.probes()),
            Layout::Paged(layout) => (layout.lines(), layout.probes()),
            Layout::Modulo(_) | Layout::Prime(_) | Layout::Scheme(_) => return None,
        };
        Some(Self { lines, probes, positions, capacity_items })
    }

    /// Returns the layout.
    #[must_use]
    pub fn layout(&self) -> Layout {
        // A valid shape has at most `PROBES_MAX` probes.
        let probes = u8::try_from(self.probes).unwrap_or(u8::MAX);
        match self.lines {
            0 => Layout::Scattered(Scattered::new(probes)),
            lines => Layout::Paged(Paged::new(probes, lines)),
        }
    }

    /// Checks every field. Every decoder calls it before it allocates.
    ///
    /// # Errors
    /// The name of the first field that is out of range.
    pub fn validate(&self) -> Result<(), &'static str> {
        let (probes_max, unit) = match self.lines {
            0 => (PROBES_MAX, 64),
            lines if lines <= LINES_MAX => (PROBES_MAX.min(u32::from(lines) * LINE_PROBES_MAX), PAGE_BITS),
            _ => return Err("lines"),
        };
        if self.probes == 0 || self.probes > probes_max {
            return Err("probes");
        }
        if self.positions == 0 || !self.positions.is_multiple_of(unit) || self.positions / 8 > LAYER_MAX_BYTES
        {
            return Err("positions");
        }
        // Each counted item has set a clear bit.
        if self.capacity_items == 0 || self.capacity_items > CAPACITY_MAX_ITEMS.min(self.positions) {
            return Err("capacity");
        }
        Ok(())
    }
}

/// The requirements of a layer: the number of items and the error rate.
#[derive(Clone, Copy, Debug)]
struct Demand {
    /// The counted items of a full layer. False positives are not counted.
    items: f64,
    /// The error rate to keep with these items.
    rate: f64,
    /// Lines per item in a layer with pages.
    lines: u8,
}

impl Demand {
    /// Returns the requirements of a layer that keeps `error_rate` with `capacity_items`.
    fn new(capacity_items: u64, error_rate: f64) -> Self {
        let rate = sized_rate(error_rate);
        Self { items: capacity_items.max(1) as f64, rate, lines: lines_by_rate(rate) }
    }

    /// Returns a range of numbers of probes, one of which gives the smallest layer. The best number is `log2(1/rate)`
    /// for an ideal layer (Bloom, 1970), and a few fewer for unevenly loaded lines.
    fn probe_candidates(&self, most: u32) -> RangeInclusive<u32> {
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

/// Each number of lines per item, with the lowest error rate for which it is used. Down to 5e-7 it is the fewest lines
/// with which a layer is at most about 1.2 % larger than a scattered one. Below that an item has many probes, and one
/// more line costs little.
const LINES_BY_RATE: [(f64, u8); 8] =
    [(0.05, 1), (3.5e-3, 2), (5e-4, 3), (5e-5, 4), (5e-6, 5), (5e-7, 6), (1e-7, 7), (0.0, 8)];

/// Returns the lines per item for an error rate.
fn lines_by_rate(rate: f64) -> u8 {
    LINES_BY_RATE.iter().find(|(from, _)| rate >= *from).map_or(8, |(_, lines)| *lines)
}
