//! The requirements of a layer: the number of items and the error rate, for its cell type.

use std::ops::RangeInclusive;

use super::truncate;
use crate::bloom::cells::{CellType, ONE_PAGE_MAX_WORDS};
use crate::bloom::limits::{LAYER_ERROR_RATE_MIN, PAGED_MIN_BYTES};
use crate::bloom::window::{LIVE_GENERATIONS, WINDOW_GENERATIONS};

/// The requirements of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// The cell type.
    pub(super) cells: CellType,
    /// The items at its capacity.
    pub(super) items: f64,
    /// The error rate to keep with these items; for cells with columns, that of one column.
    pub(super) rate: f64,
    /// Whether `items` are counted items, which exclude false positives. Otherwise they are added items.
    pub(super) is_counted: bool,
    /// Range of numbers of probes in which the smallest layer is found.
    pub(super) probes: (u32, u32),
    /// Positions of a step between sizes of scattered layers.
    pub(super) step_positions: u64,
    /// Most steps of a scattered layer.
    pub(super) scattered_max_steps: u64,
    /// Fewest pages of a layer with pages.
    pub(super) pages_min: u64,
    /// Lines per item in a layer with pages.
    pub(super) lines: u8,
}

impl Demand {
    /// Returns the requirements of a layer with these cells that keeps `error_rate` with `capacity_items`.
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
        // Fifteen columns are live at the end of a generation. Each is a filter over the same positions, and an item
        // is found if any of them contains it. So the error rate is at most the sum of theirs.
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

    /// Returns the numbers of probes among which the smallest layer is found. The best number is `log2(1/rate)` for
    /// an ideal layer (Bloom, 1970), and a few fewer for unevenly loaded lines.
    pub(super) fn probe_candidates(&self, most: u32) -> RangeInclusive<u32> {
        let (fewer, more) = self.probes;
        let ideal = truncate(-libm::log2(self.rate));
        let ideal = u32::try_from(ideal).unwrap_or(u32::MAX).min(most);
        ideal.saturating_sub(fewer).max(1)..=ideal.saturating_add(more).min(most)
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

/// Lines per item for error rates from the given ones on.
type LinesByRate = [(f64, u8); 8];

/// The fewest lines with which a layer is at most about 1.2 % larger than a scattered one, down to 5e-7. Below that
/// an item has many probes, and one more line costs little.
const LINES_OF_ONE_COLUMN: LinesByRate =
    [(0.05, 1), (3.5e-3, 2), (5e-4, 3), (5e-5, 4), (5e-6, 5), (5e-7, 6), (1e-7, 7), (0.0, 8)];

/// By the error rate of the filter: the fewest lines with which a layer is at most about 1.5 % larger than with any
/// other number.
const LINES_OF_COLUMNS: LinesByRate =
    [(0.1, 4), (5e-3, 5), (1.5e-3, 6), (3e-4, 7), (0.0, 8), (0.0, 8), (0.0, 8), (0.0, 8)];

fn lines_by_rate(lines: &LinesByRate, rate: f64) -> u8 {
    lines.iter().find(|(from, _)| rate >= *from).map_or(8, |(_, lines)| *lines)
}

/// Standard deviations of the sum of fifteen generations, with random arrivals, for which a layer of columns is
/// sized.
const SUM_DEVIATIONS: f64 = 4.0;
/// Standard deviations of a single generation for which its column is sized, while the others have their share.
const COLUMN_DEVIATIONS: f64 = 5.0;
/// Factor by which one column may exceed its share while the others do not: the rate of a column rises with a high
/// power of its items.
const COLUMN_SURPLUS: f64 = 1.15;

/// Returns the items per generation for which a layer of columns is sized, at least one: a fourteenth of the
/// capacity, and a margin for Poisson arrivals. Fifteen generations together exceed it once in thirty thousand times,
/// one generation less often.
#[must_use]
pub fn column_items(capacity_items: u64) -> f64 {
    let mean = capacity_items as f64 / WINDOW_GENERATIONS as f64;
    let by_sum = mean + SUM_DEVIATIONS * (mean / LIVE_GENERATIONS as f64).sqrt();
    by_sum.max(arrivals(mean) / COLUMN_SURPLUS)
}

/// Returns the largest number of items of one generation at an even pace with random arrivals. One in three million
/// generations exceeds it.
#[must_use]
pub fn most_arrivals(capacity_items: u64) -> u64 {
    truncate(arrivals(capacity_items as f64 / WINDOW_GENERATIONS as f64))
}

fn arrivals(mean: f64) -> f64 {
    mean + COLUMN_DEVIATIONS * mean.sqrt() + 1.0
}
