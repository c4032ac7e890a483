//! How large a layer must be to keep its error rate.
//!
//! The textbook size, `-n ln p / ln(2)^2`, does not keep it. It ignores that the fill of a small layer varies and
//! that the pages and lines of a paged layer are not equally loaded. It also ignores that a filter does not count
//! false positives: a full filter has more added items than counted ones. The models [`scattered`] and [`page`]
//! account for this; tests/pure/sizing.rs and tests/pure/accuracy.rs check it.
//!
//! Replicas must build the same layer. So the functions here use IEEE 754 arithmetic, including square roots, and
//! `exp` and `log` of the libm crate, which give the same bits on every machine, unlike those of the C library.

mod demand;
mod fill;
mod page;
mod paged;
mod scattered;

pub use self::demand::sized_rate;
pub use self::fill::{
    added_anywhere, error_rate_now, estimated_items, expected_bits, full_rate, full_rate_anywhere, rate_of,
};

use self::demand::Demand;
use super::layer::LayerSpec;
use super::layout::{LINE_PROBES_MAX, LINES_MAX, PAGE_BITS, Paged, Scattered};
use super::placement::{Layout, Placement};
use crate::bloom::hash::Hash;
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, LAYER_MAX_BYTES, PROBES_MAX};

/// The fixed parameters of a layer of everbloom's own layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Lines per item; 0 in a scattered layout.
    pub lines: u8,
    /// Probes per item.
    pub probes: u32,
    /// Positions of the layer, which are its bits.
    pub positions: u64,
    /// The capacity.
    pub capacity_items: u64,
}

impl Shape {
    /// Returns the smallest shape that keeps `error_rate` with `capacity_items` distinct items.
    ///
    /// Rates below [`LAYER_ERROR_RATE_MIN`](crate::bloom::limits::LAYER_ERROR_RATE_MIN) are sized as that rate, rates
    /// above `1 - 2^-20` as that one. A shape for more items is never smaller. A shape for a lower rate is never
    /// smaller within one layout, and at most 1.3 % smaller if it has more lines. O(1), no allocation; measured at 1
    /// to 16 us for a scattered layer and 10 to 90 us for a paged one.
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

    /// Returns the number of pages, or 1 for a layer without pages.
    #[must_use]
    pub const fn regions(&self) -> u64 {
        if self.lines == 0 { 1 } else { self.positions / PAGE_BITS }
    }

    /// Returns the layout.
    #[must_use]
    pub fn layout(&self) -> Layout {
        // A valid shape has no more probes.
        let probes = u8::try_from(self.probes).unwrap_or(u8::MAX);
        match self.lines {
            0 => Layout::Scattered(Scattered::new(probes)),
            lines => Layout::Paged(Paged::new(probes, lines)),
        }
    }

    /// Returns the layer of this shape, which must be valid.
    #[must_use]
    pub fn spec(&self, hash: Hash) -> LayerSpec {
        let placement = Placement::new(hash, self.layout());
        let (size_bits, capacity_items) = (self.positions, self.capacity_items);
        LayerSpec { placement, size_bits, capacity_items, has_head: false }
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

/// Returns `value` without its fraction; 0 for negative values and NaN, `u64::MAX` for too large ones.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is wanted"
)]
pub(in crate::bloom) const fn truncate(value: f64) -> u64 {
    value as u64
}
