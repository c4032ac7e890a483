//! How large a layer that forgets must be to keep its error rate.
//!
//! Fifteen columns are live at the end of a generation, each a filter of its own over the same positions, and
//! an absent item is found if any of them has it: the rate is at most the sum of theirs. A layer is sized for
//! columns of a fourteenth of the capacity each, and for what random arrivals add to that.
//!
//! Made of the portable `exp` and `log` of the libm crate, so that a replica builds the very same layer.

use super::clock::LIVE_GENERATIONS;
use super::columns::{ONE_PAGE_MAX_WORDS, STAMPED_PAGE_WORDS, WORD_POSITIONS};
use crate::bloom::everbloom::layout::{LINE_PROBES_MAX, LINES_MAX, Layout, PAGE_LINES};
use crate::bloom::limits::{LAYER_ERROR_RATE_MIN, PROBES_MAX};

/// Positions of a page.
pub(super) const PAGE_POSITIONS: u64 = PAGE_LINES * LINE_POSITIONS;
/// Positions of a line.
pub(super) const LINE_POSITIONS: u64 = 32;

/// Standard deviations of the sum of fifteen generations, at random arrivals, that a layer has room for.
const SUM_DEVIATIONS: f64 = 4.0;
/// The same of a single generation, whose column may have more than the others as long as these have not.
const COLUMN_DEVIATIONS: f64 = 5.0;
/// By how much one column may exceed its share where the others keep to theirs: the rate of a column goes with a high power
/// of its items.
const COLUMN_SURPLUS: f64 = 1.15;

/// The items of a generation that a layer is sized for: the share of the capacity, and what Poisson numbers of items exceed
/// that by, in fifteen generations together once in thirty thousand, in one generation less often. At least one.
pub(super) fn share(capacity_items: u64) -> f64 {
    let mean = capacity_items as f64 / super::clock::WINDOW_GENERATIONS as f64;
    let by_sum = mean + SUM_DEVIATIONS * (mean / LIVE_GENERATIONS as f64).sqrt();
    let by_column = (mean + COLUMN_DEVIATIONS * mean.sqrt() + 1.0) / COLUMN_SURPLUS;
    by_sum.max(by_column)
}

/// Layout, probes and positions of the smallest layer that keeps `rate` while it is given `capacity_items` in every
/// window, at an even pace. O(1);
/// measured at 5 to 30 us, in pages at 100 to 400 us.
pub(super) fn solve(capacity_items: u64, rate: f64) -> (Layout, u32, u64) {
    let column_rate = (rate / LIVE_GENERATIONS as f64).max(LAYER_ERROR_RATE_MIN);
    let share = share(capacity_items);
    scattered(share, column_rate).unwrap_or_else(|| paged(share, rate, column_rate))
}

/// Numbers of probes among which the smallest layer is found.
fn candidates(column_rate: f64, most: u32) -> std::ops::RangeInclusive<u32> {
    let ideal = truncate(-libm::log2(column_rate));
    let ideal = u32::try_from(ideal).unwrap_or(u32::MAX).min(most);
    ideal.saturating_sub(3).max(1)..=ideal.saturating_add(2).min(most)
}

/// The smallest one of a single page.
fn scattered(share: f64, column_rate: f64) -> Option<(Layout, u32, u64)> {
    let most = (ONE_PAGE_MAX_WORDS as u64).saturating_sub(1);
    let mut best: Option<(u64, u32)> = None;
    for probes in candidates(column_rate, PROBES_MAX) {
        let words = fewest_words(share, probes, column_rate);
        if words <= most && best.is_none_or(|(fewest, _)| words < fewest) {
            best = Some((words, probes));
        }
    }
    best.map(|(words, probes)| (Layout::Scattered, probes, words * WORD_POSITIONS))
}

/// The fewest words of four positions in which a column of so many items keeps the rate.
fn fewest_words(share: f64, probes: u32, column_rate: f64) -> u64 {
    let keeps = |words: u64| scattered_rate(words * WORD_POSITIONS, probes, share) <= column_rate;
    let fill = libm::exp(libm::log(column_rate) / f64::from(probes));
    // Without variance; small arrays need more.
    let positions = share * f64::from(probes) / -libm::log1p(-fill);
    let mut words = truncate(positions / WORD_POSITIONS as f64).clamp(1, ONE_PAGE_MAX_WORDS as u64);
    let mut step = 1;
    let mut below = words.saturating_sub(1);
    while !keeps(words) && words <= ONE_PAGE_MAX_WORDS as u64 {
        below = words;
        words += step;
        step *= 2;
    }
    while words - below > 1 {
        let middle = below.midpoint(words);
        if keeps(middle) { words = middle } else { below = middle }
    }
    words
}

/// The error rate of one column of an array without pages that has met so many items: the second-order
/// expansion of `E[fill^k]` (Bose et al., "On the False-Positive Rate of Bloom Filters", 2008).
pub(super) fn scattered_rate(positions: u64, probes: u32, items: f64) -> f64 {
    let (m, k) = (positions as f64, f64::from(probes));
    if m < 2.0 || items <= 0.0 {
        return if items <= 0.0 { 0.0 } else { 1.0 };
    }
    let throws = items * k;
    let clear = libm::exp(throws * libm::log1p(-1.0 / m));
    let pair_clear = libm::exp(throws * libm::log1p(-2.0 / m));
    let fill = 1.0 - clear;
    let variance = (clear / m + (1.0 - 1.0 / m) * pair_clear - clear * clear).max(0.0);
    (libm::pow(fill, k) * libm::exp(k * (k - 1.0) / 2.0 * variance / (fill * fill))).min(1.0)
}

/// Lines per item by error rate of the filter: the fewest with which an array takes at most some 1.5 % more than with
/// any other number.
const LINES_BY_RATE: [(f64, u8); 5] = [(0.1, 4), (5e-3, 5), (1.5e-3, 6), (3e-4, 7), (0.0, 8)];

/// The smallest one in pages.
fn paged(share: f64, rate: f64, column_rate: f64) -> (Layout, u32, u64) {
    let lines = LINES_BY_RATE.iter().find(|(from, _)| rate >= *from).map_or(LINES_MAX, |(_, lines)| *lines);
    let (mut best, mut best_probes) = (0.0, u32::from(lines));
    let most = PROBES_MAX.min(u32::from(lines) * LINE_PROBES_MAX);
    for probes in candidates(column_rate, most) {
        let load = load_at(column_rate, probes, lines);
        if load > best {
            (best, best_probes) = (load, probes);
        }
    }
    let fewest = ONE_PAGE_MAX_WORDS / STAMPED_PAGE_WORDS + 1;
    let pages = truncate(libm::ceil(share / best)).max(fewest as u64);
    (Layout::Paged { lines }, best_probes, pages.saturating_mul(PAGE_POSITIONS))
}

/// Items of one column per page, on average, at which the column has the rate.
fn load_at(column_rate: f64, probes: u32, lines: u8) -> f64 {
    let fill = libm::exp(libm::log(column_rate) / f64::from(probes));
    let ideal = -libm::log1p(-fill) * PAGE_POSITIONS as f64 / f64::from(probes);
    let excess = |load: f64| libm::log(paged_rate(load, probes, lines) / column_rate);
    let (mut before, mut before_excess) = (ideal, excess(ideal));
    let mut load = ideal * 0.97;
    // Secant steps in logarithms, in which the rate is almost a power of the load.
    for _ in 0..STEPS_MAX {
        let found = excess(load);
        if found.abs() < TOLERANCE {
            break;
        }
        let slope = (found - before_excess) / libm::log(load / before);
        (before, before_excess) = (load, found);
        load = (load * libm::exp(-found / slope)).clamp(LOAD_MIN, ideal);
        if load == before {
            break;
        }
    }
    load
}

/// Steps that suffice at every rate.
const STEPS_MAX: u32 = 12;
/// Relative deviation from the asked rate at which the search ends.
const TOLERANCE: f64 = 1e-9;
/// Items per page below which a rate is that of so many: an upper bound.
const LOAD_MIN: f64 = 2.0;
/// Distance of quadrature points in standard deviations, and points below and above the mean, as for filters
/// that do not forget.
const STEP: f64 = 0.75;
const POINTS_BELOW: i32 = 10;
const POINTS_ABOVE: i32 = 14;

/// The error rate of one column when on average `load` items of it have met each of many pages.
///
/// The items J of a page are Poisson. Given J, those that have a certain line are binomial, and in the line each of the
/// item's runs of words has one of them set: `1 - (1 - 1/run)^items` of a run is set, and the runs are independent.
pub(super) fn paged_rate(load: f64, probes: u32, lines: u8) -> f64 {
    let (load, lines) = (load.max(LOAD_MIN), u32::from(lines).max(1));
    let (few, with_more) = (probes / lines, probes % lines);
    let line_share = f64::from(lines) / PAGE_LINES as f64;
    let (mut rate, mut weights) = (0.0, 0.0);
    for point in -POINTS_BELOW..=POINTS_ABOVE {
        let items = load + f64::from(point) * STEP * load.sqrt();
        if items < 0.5 {
            continue;
        }
        let set = |runs: u32| line_is_set(items, runs, line_share);
        let given = power_of(set(few), lines - with_more) * power_of(set(few + 1), with_more);
        let weight = poisson_weight(items, load);
        rate += weight * given;
        weights += weight;
    }
    (rate / weights).min(1.0)
}

/// The probability that all runs of a line have the word of an absent item set, in a page of so many items.
fn line_is_set(items: f64, runs: u32, line_share: f64) -> f64 {
    let missed = 1.0 - f64::from(runs) / LINE_POSITIONS as f64;
    let (mut sum, mut signed_binomial, mut clear) = (0.0, 1.0, 1.0);
    for chosen in 0..=runs {
        sum += signed_binomial * libm::exp(items * libm::log1p(-line_share * (1.0 - clear)));
        signed_binomial *= -f64::from(runs - chosen) / f64::from(chosen + 1);
        clear *= missed;
    }
    sum.max(0.0)
}

/// The Poisson probability of `count`, which need not be whole, up to a factor that is the same for all
/// counts.
fn poisson_weight(count: f64, mean: f64) -> f64 {
    libm::exp(count - mean - count * libm::log(count / mean) - 1.0 / (12.0 * count)) / count.sqrt()
}

/// `base` to a small whole power.
fn power_of(base: f64, exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

/// `value` without its fraction; negative values as 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is wanted"
)]
pub(super) fn truncate(value: f64) -> u64 {
    value as u64
}
