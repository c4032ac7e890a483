//! Sizes of layers that confine an item to a few lines of one page.
//!
//! The error rate at a load comes from the module `page_load`; here the load is searched at which it is the
//! asked one.

use super::page_load::error_rate;
use super::rate::{probe_candidates, truncate};
use super::size::Size;
use crate::bloom::everbloom::layout::{LINE_PROBES_MAX, LINES_MAX, Layout, PAGE_BITS};
use crate::bloom::limits::PROBES_MAX;

/// Lines per item by error rate: the fewest with which the layer is at most some 1.2 % larger than a
/// scattered one, down to 5e-7; below, an item has so many probes that one more line is a small price.
const LINES_BY_RATE: [(f64, u8); 7] =
    [(0.05, 1), (3.5e-3, 2), (5e-4, 3), (5e-5, 4), (5e-6, 5), (5e-7, 6), (1e-7, 7)];

/// The smallest paged layer for `items` at `rate`.
pub(super) fn solve(items: u64, rate: f64) -> Size {
    let lines = LINES_BY_RATE.iter().find(|(from, _)| rate >= *from).map_or(LINES_MAX, |(_, lines)| *lines);
    let candidates = probe_candidates(rate, PROBES_MAX.min(u32::from(lines) * LINE_PROBES_MAX));
    let first = most_promising(rate, candidates.clone(), lines);
    let (mut load, mut probes) = (0.0, 1);
    for candidate in first.into_iter().chain(candidates.filter(|other| Some(*other) != first)) {
        if is_worse(load, rate, candidate, lines) {
            continue;
        }
        let counted = counted_load(load_at(rate, candidate, lines), candidate, lines);
        // Of equals the fewest probes.
        if counted > load || (counted == load && candidate < probes) {
            (load, probes) = (counted, candidate);
        }
    }
    let pages = truncate(libm::ceil(items as f64 / load)).max(1);
    Size { layout: Layout::Paged { lines }, probes, size_bits: pages.saturating_mul(PAGE_BITS) }
}

/// The number of probes that has the lowest rate, as a share of what it may have, at about the load that is
/// looked for. Mostly the best one, and then a single look tells of each other that it is not.
fn most_promising(rate: f64, candidates: impl Iterator<Item = u32> + Clone, lines: u8) -> Option<u32> {
    let load = array_load(rate, candidates.clone().max()?);
    let share = |probes| error_rate(load, probes, lines) / model_rate(rate, probes);
    candidates
        .map(|probes| (share(probes), probes))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, probes)| probes)
}

/// Whether a layer with so many probes has certainly passed `rate` when it has counted `load` items per page.
/// It has met no fewer than it has counted, so this takes one look at the rate, in place of some fifteen to
/// find the load exactly.
fn is_worse(load: f64, rate: f64, probes: u32, lines: u8) -> bool {
    // Far more than what rounding does to either rate.
    const MARGIN: f64 = 1.0 + 1e-6;
    load > 0.0 && error_rate(load, probes, lines) > model_rate(rate, probes) * MARGIN
}

/// The rate that the model must show for a layer to keep `rate`; see [`PROGRESSION`].
fn model_rate(rate: f64, probes: u32) -> f64 {
    rate * (1.0 - libm::pow(f64::from(probes) / PROGRESSION, 3.0))
}

/// Items per page of an array without pages when it reaches `rate`.
fn array_load(rate: f64, probes: u32) -> f64 {
    let k = f64::from(probes);
    let fill = libm::exp(libm::log(rate) / k);
    -libm::log1p(-fill) * PAGE_BITS as f64 / k
}

/// Items that each of many pages has met on average when the layer reaches `rate`.
fn load_at(rate: f64, probes: u32, lines: u8) -> f64 {
    let (k, rate) = (f64::from(probes), model_rate(rate, probes));
    let fill = libm::exp(libm::log(rate) / k);
    // The paged array takes a few per cent less than this.
    let ideal = array_load(rate, probes);
    let (mut load, mut excess) = (ideal, libm::log(error_rate(ideal, probes, lines) / rate));
    // d ln rate / d ln load of the array without pages.
    let mut slope = -k * (1.0 - fill) * libm::log1p(-fill) / fill;
    // Secant steps in logarithms, in which the rate is almost a power of the load.
    for _ in 0..STEPS_MAX {
        let step = -excess / slope;
        load *= libm::exp(step);
        let next = libm::log(error_rate(load, probes, lines) / rate);
        if next.abs() < TOLERANCE {
            break;
        }
        slope = (next - excess) / step;
        excess = next;
    }
    load
}

/// The items a layer counts per page when `load` items per page have met it: all but the false positives
/// among them.
fn counted_load(load: f64, probes: u32, lines: u8) -> f64 {
    load * (1.0 - mean_rate(|part| error_rate(load * part, probes, lines)))
}

/// Returns the share of false positives among the items that fill a layer, from its error rate when a part of them has
/// met it.
pub(super) fn mean_rate(rate_at: impl Fn(f64) -> f64) -> f64 {
    let shares = GAUSS_LEGENDRE.iter().map(|(node, weight)| {
        let (before, after) = ((1.0 - node) / 2.0, (1.0 + node) / 2.0);
        weight / 2.0 * (rate_at(before) + rate_at(after))
    });
    shares.sum()
}

/// Nodes and weights of the integral from -1 to 1, to be taken with both signs (Abramowitz and Stegun, table
/// 25.4, n = 8).
const GAUSS_LEGENDRE: [(f64, f64); 4] = [
    (0.183_434_642_495_650, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887),
    (0.796_666_477_413_627, 0.222_381_034_453_374),
    (0.960_289_856_497_536, 0.101_228_536_290_376),
];

/// The model takes the loads of an item's lines for independent. The lines are an arithmetic progression with
/// an odd step, so two lines of a page share as many items as independent ones if an item has 1, 2, 4 or 8
/// lines, and fewer with other numbers, which is a reserve of up to 0.4 % of the rate. With eight lines and
/// many probes the rate was found above the model's, by 1.0 +- 0.3 % at 39 probes and 1.7 +- 0.5 % at 48 (200
/// and 400 layers of 2 MiB). This allowance grows with the cube of the probes: 1.4 % and 2.7 % there, 0.01 %
/// at 7 probes.
const PROGRESSION: f64 = 160.0;

/// Secant steps that suffice at every rate and number of lines; four are taken as a rule.
const STEPS_MAX: u32 = 12;
/// Relative deviation from the asked rate at which the search ends.
const TOLERANCE: f64 = 1e-11;
