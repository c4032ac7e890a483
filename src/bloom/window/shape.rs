//! What never changes about a layer that forgets, and how its error rate goes with its items.

use super::columns::{ONE_PAGE_MAX_WORDS, STAMPED_PAGE_WORDS, WORD_POSITIONS};
use super::sizing::{self, PAGE_POSITIONS};
use crate::bloom::everbloom::Layout;
use crate::bloom::everbloom::layout::{LINE_PROBES_MAX, LINES_MAX};
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, LAYER_MAX_BYTES, PROBES_MAX};

/// What never changes about a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowShape {
    /// How probes are placed.
    pub layout: Layout,
    /// Probes per item.
    pub probes: u32,
    /// Positions, each a word of sixteen bits.
    pub positions: u64,
    /// Items in a window that the layer is sized for.
    pub capacity_items: u64,
}

impl WindowShape {
    /// The smallest shape that keeps `error_rate` while it is given `capacity_items` in every window.
    #[must_use]
    pub fn sized(capacity_items: u64, error_rate: f64) -> Self {
        let (layout, probes, positions) = sizing::solve(capacity_items, error_rate);
        Self { layout, probes, positions, capacity_items }
    }

    /// Bits of the storage: of the positions, and 64 for every page.
    #[must_use]
    pub const fn size_bits(&self) -> u64 {
        let (unit, unit_words) = match self.layout {
            // One page, whatever its length.
            Layout::Scattered => {
                return (self.positions / WORD_POSITIONS).saturating_add(1).saturating_mul(64);
            }
            Layout::Paged { .. } => (PAGE_POSITIONS, STAMPED_PAGE_WORDS as u64 * 64),
        };
        (self.positions / unit).saturating_mul(unit_words)
    }

    /// The first rule that the shape breaks, if it breaks one. Every decoder asks before it allocates.
    ///
    /// # Errors
    /// The name of the field that is out of its range.
    pub fn validate(&self) -> Result<(), &'static str> {
        let (most_probes, unit) = match self.layout {
            Layout::Scattered => (PROBES_MAX, WORD_POSITIONS),
            Layout::Paged { lines } if (1..=LINES_MAX).contains(&lines) => {
                (PROBES_MAX.min(u32::from(lines) * LINE_PROBES_MAX), PAGE_POSITIONS)
            }
            Layout::Paged { .. } => return Err("lines"),
        };
        if self.probes == 0 || self.probes > most_probes {
            return Err("probes");
        }
        let is_one_page = self.size_bits() / 64 <= ONE_PAGE_MAX_WORDS as u64;
        if self.positions == 0
            || !self.positions.is_multiple_of(unit)
            || self.size_bits() / 8 > LAYER_MAX_BYTES
            || is_one_page != (self.layout == Layout::Scattered)
        {
            return Err("positions");
        }
        // Of what it takes in a window each item sets a bit of one of the columns.
        let most_items = CAPACITY_MAX_ITEMS.min(self.positions.saturating_mul(super::clock::COLUMNS));
        if self.capacity_items == 0 || self.capacity_items > most_items {
            return Err("capacity");
        }
        Ok(())
    }
}

/// The error rate of one column by its items: that of an array without pages, times what the pages make of it at the
/// share of items that the layer was sized for. With more items in the column it errs to the safe side, with
/// fewer the rate is next to nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnRate {
    scale: f64,
    probes: f64,
    per_item: f64,
}

impl ColumnRate {
    /// Of the columns of a layer of this shape, which must be valid. O(1), some microseconds.
    #[must_use]
    pub fn of(shape: &WindowShape) -> Self {
        let share = sizing::share(shape.capacity_items);
        let probes = f64::from(shape.probes);
        let positions = shape.positions as f64;
        let rate = match shape.layout {
            Layout::Scattered => sizing::scattered_rate(shape.positions, shape.probes, share),
            Layout::Paged { lines } => {
                sizing::paged_rate(share * PAGE_POSITIONS as f64 / positions, shape.probes, lines)
            }
        };
        let mut curve = Self { scale: 1.0, probes, per_item: probes / positions };
        let ideal = curve.rate(share);
        if ideal > 0.0 {
            curve.scale = (rate / ideal).clamp(1.0, SCALE_MAX);
        }
        curve
    }

    /// The error rate of a column of so many items. O(1).
    #[must_use]
    pub fn rate(&self, items: f64) -> f64 {
        let fill = -libm::expm1(-items * self.per_item);
        (self.scale * libm::pow(fill, self.probes)).min(1.0)
    }

    /// The items with which a column has the error rate. O(1).
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
