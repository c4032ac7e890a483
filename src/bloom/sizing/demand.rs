//! What is asked of a layer: how many items at which rate, and what its cells make of that.

use std::ops::RangeInclusive;

use super::truncate;
use crate::bloom::cells::{CellType, ONE_PAGE_MAX_WORDS};
use crate::bloom::limits::{LAYER_ERROR_RATE_MIN, PAGED_MIN_BYTES};
use crate::bloom::window::{LIVE_GENERATIONS, WINDOW_GENERATIONS};

/// What is asked of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// What stands at a position.
    pub(super) cells: CellType,
    /// The items that it must take.
    pub(super) items: f64,
    /// The error rate that it must keep with them: of one column, where cells have columns.
    pub(super) rate: f64,
    /// Whether only items count that were new to the layer; else all that it has met.
    pub(super) is_counted: bool,
    /// Numbers of probes among which the smallest layer is found.
    pub(super) probes: (u32, u32),
    /// Positions by which scattered layers differ in size.
    pub(super) step_positions: u64,
    /// Most such steps of a scattered layer.
    pub(super) scattered_max_steps: u64,
    /// Fewest pages of a layer with pages.
    pub(super) pages_min: u64,
    /// Lines per item in a layer with pages.
    pub(super) lines: u8,
}

impl Demand {
    /// Returns what is asked of a layer of these cells that keeps `error_rate` with `capacity_items`.
    pub(super) fn new(cells: CellType, capacity_items: u64, error_rate: f64) -> Self {
        let (items, rate) = (capacity_items.max(1), sized_rate(error_rate));
        let measures = cells.measures();
        if measures.columns == 1 {
            return Self {
                cells,
                items: items as f64,
                rate,
                is_counted: true,
                probes: (2, 1),
                step_positions: CellType::Bits.measures().word_positions,
                scattered_max_steps: PAGED_MIN_BYTES / 8 - 1,
                pages_min: 1,
                lines: lines_by_rate(&LINES_OF_ONE_COLUMN, rate),
            };
        }
        // Fifteen columns are live at the end of a generation, each a filter of its own over the same positions, and an absent
        // item is found if any of them has it: the rate is at most the sum of theirs.
        Self {
            cells,
            items: column_items(items),
            rate: (rate / LIVE_GENERATIONS as f64).max(LAYER_ERROR_RATE_MIN),
            is_counted: false,
            probes: (3, 2),
            step_positions: measures.word_positions,
            scattered_max_steps: ONE_PAGE_MAX_WORDS - measures.stamp_words,
            pages_min: ONE_PAGE_MAX_WORDS / measures.page_words() + 1,
            lines: lines_by_rate(&LINES_OF_COLUMNS, rate),
        }
    }

    /// Returns the numbers of probes among which the smallest layer is found: the best one is `log2(1/rate)` for an ideal
    /// layer (Bloom, 1970), a few fewer for unevenly loaded lines.
    pub(super) fn probe_candidates(&self, most: u32) -> RangeInclusive<u32> {
        let (fewer, more) = self.probes;
        let ideal = truncate(-libm::log2(self.rate));
        let ideal = u32::try_from(ideal).unwrap_or(u32::MAX).min(most);
        ideal.saturating_sub(fewer).max(1)..=ideal.saturating_add(more).min(most)
    }
}

/// Returns the rate that a layer is sized for when `error_rate` is asked for. Layers of the same capacity and the
/// same such rate have the same size.
#[must_use]
pub fn sized_rate(error_rate: f64) -> f64 {
    let rate = if error_rate.is_nan() { LAYER_ERROR_RATE_MIN } else { error_rate };
    rate.clamp(LAYER_ERROR_RATE_MIN, RATE_MAX)
}

/// Largest error rate a layer is sized for; above it the logarithm of the rate loses its meaning in rounding.
const RATE_MAX: f64 = 1.0 - 1.0 / (1u64 << 20) as f64;

/// Lines per item by error rate, from that rate on.
type LinesByRate = [(f64, u8); 8];

/// The fewest with which a layer is at most some 1.2 % larger than a scattered one, down to 5e-7; below, an item has so many
/// probes that one more line is a small price.
const LINES_OF_ONE_COLUMN: LinesByRate =
    [(0.05, 1), (3.5e-3, 2), (5e-4, 3), (5e-5, 4), (5e-6, 5), (5e-7, 6), (1e-7, 7), (0.0, 8)];

/// By the error rate of the filter: the fewest with which a layer takes at most some 1.5 % more than with any other number.
const LINES_OF_COLUMNS: LinesByRate =
    [(0.1, 4), (5e-3, 5), (1.5e-3, 6), (3e-4, 7), (0.0, 8), (0.0, 8), (0.0, 8), (0.0, 8)];

fn lines_by_rate(lines: &LinesByRate, rate: f64) -> u8 {
    lines.iter().find(|(from, _)| rate >= *from).map_or(8, |(_, lines)| *lines)
}

/// Standard deviations of the sum of fifteen generations, at random arrivals, that a layer of columns is sized for.
const SUM_DEVIATIONS: f64 = 4.0;
/// The same of a single generation, whose column may have more than the others as long as these have not.
const COLUMN_DEVIATIONS: f64 = 5.0;
/// By how much one column may exceed its share where the others keep to theirs: the rate of a column rises with a high power
/// of its items.
const COLUMN_SURPLUS: f64 = 1.15;

/// Returns the items of a generation that a layer of columns is sized for: the share of the capacity, and what Poisson numbers of
/// items exceed that by, in fifteen generations together once in thirty thousand, in one generation less often. At least one.
#[must_use]
pub fn column_items(capacity_items: u64) -> f64 {
    let mean = capacity_items as f64 / WINDOW_GENERATIONS as f64;
    let by_sum = mean + SUM_DEVIATIONS * (mean / LIVE_GENERATIONS as f64).sqrt();
    let by_column = (mean + COLUMN_DEVIATIONS * mean.sqrt() + 1.0) / COLUMN_SURPLUS;
    by_sum.max(by_column)
}
