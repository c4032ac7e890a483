//! Sizes of layers that confine an item to a few lines of one page.
//!
//! [`page`](super::page) gives the error rate at a load. This module finds the load with the required error rate.

use super::demand::Demand;
use super::page::PageModel;
use super::truncate;
use crate::bloom::bits::layout::{LINE_PROBES_MAX, PAGE_BITS};
use crate::bloom::limits::PROBES_MAX;

/// Returns the probes and positions of the smallest paged layer that meets the requirements.
pub(super) fn solve(demand: &Demand) -> (u32, u64) {
    let candidates = demand.probe_candidates(PROBES_MAX.min(u32::from(demand.lines) * LINE_PROBES_MAX));
    let first = most_promising(demand, candidates.clone());
    let (mut load, mut probes) = (0.0, 1);
    for candidate in first.into_iter().chain(candidates.filter(|other| Some(*other) != first)) {
        if is_worse(load, demand, candidate) {
            continue;
        }
        let counted = counted_load(demand, candidate);
        // Among equally good numbers, the fewest probes win.
        if counted > load || (counted == load && candidate < probes) {
            (load, probes) = (counted, candidate);
        }
    }
    let pages = truncate(libm::ceil(demand.items / load)).max(1);
    (probes, pages.saturating_mul(PAGE_BITS))
}

fn model(demand: &Demand, probes: u32) -> PageModel {
    PageModel::new(probes, demand.lines)
}

/// Returns the number of probes with the lowest rate, relative to its permitted rate, at about the final load. It is
/// mostly the best number; then one evaluation rules out each of the others.
fn most_promising(demand: &Demand, candidates: impl Iterator<Item = u32> + Clone) -> Option<u32> {
    let load = array_load(demand.rate, candidates.clone().max()?);
    let share = |probes| model(demand, probes).error_rate(load) / model_rate(demand, probes);
    candidates
        .map(|probes| (share(probes), probes))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, probes)| probes)
}

/// Returns whether a layer with `probes` probes certainly exceeds its rate when it has counted `load` items per page.
/// It has at least as many added items, so one evaluation of the rate is enough; finding the load exactly takes about
/// fifteen.
fn is_worse(load: f64, demand: &Demand, probes: u32) -> bool {
    // Much more than the rounding of either rate.
    const MARGIN: f64 = 1.0 + 1e-6;
    load > 0.0 && model(demand, probes).error_rate(load) > model_rate(demand, probes) * MARGIN
}

/// Returns the rate of the model at which a layer keeps the required rate; see [`PROGRESSION`].
fn model_rate(demand: &Demand, probes: u32) -> f64 {
    demand.rate * (1.0 - libm::pow(f64::from(probes) / PROGRESSION, 3.0))
}

/// Returns the items per page of a layer without pages when it reaches `rate`.
fn array_load(rate: f64, probes: u32) -> f64 {
    let k = f64::from(probes);
    let fill = libm::exp(libm::log(rate) / k);
    -libm::log1p(-fill) * PAGE_BITS as f64 / k
}

/// Returns the added items per page when the layer reaches its rate.
fn load_at(demand: &Demand, probes: u32) -> f64 {
    let (k, rate) = (f64::from(probes), model_rate(demand, probes));
    let fill = libm::exp(libm::log(rate) / k);
    let error_rate = |load| model(demand, probes).error_rate(load);
    // A paged layer takes a few percent less than this.
    let ideal = array_load(rate, probes);
    let (mut load, mut excess) = (ideal, libm::log(error_rate(ideal) / rate));
    // d ln rate / d ln load of the layer without pages.
    let mut slope = -k * (1.0 - fill) * libm::log1p(-fill) / fill;
    // Secant steps in logarithms, where the rate is almost a power of the load.
    for _ in 0..STEPS_MAX {
        let step = -excess / slope;
        load *= libm::exp(step);
        let next = libm::log(error_rate(load) / rate);
        if next.abs() < TOLERANCE {
            break;
        }
        slope = (next - excess) / step;
        excess = next;
    }
    load
}

/// Returns the counted items per page when the layer reaches its rate: without the false positives.
fn counted_load(demand: &Demand, probes: u32) -> f64 {
    let load = load_at(demand, probes);
    let model = model(demand, probes);
    load * (1.0 - mean_rate(|part| model.error_rate(load * part)))
}

/// Returns the mean of a rate over all shares of the items from 0 to 1.
pub(super) fn mean_rate(rate_at: impl Fn(f64) -> f64) -> f64 {
    let shares = GAUSS_LEGENDRE.iter().map(|(node, weight)| {
        let (before, after) = ((1.0 - node) / 2.0, (1.0 + node) / 2.0);
        weight / 2.0 * (rate_at(before) + rate_at(after))
    });
    shares.sum()
}

/// Nodes and weights of the integral from -1 to 1, each node with both signs (Abramowitz and Stegun, table 25.4, n =
/// 8).
const GAUSS_LEGENDRE: [(f64, f64); 4] = [
    (0.183_434_642_495_650, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887),
    (0.796_666_477_413_627, 0.222_381_034_453_374),
    (0.960_289_856_497_536, 0.101_228_536_290_376),
];

/// The model assumes that the loads of an item's lines are independent. The lines are an arithmetic progression with
/// an odd step. With 1, 2, 4 or 8 lines, two lines of a page share as many items as independent ones. With other
/// numbers they share fewer, which lowers the rate by up to 0.4 %. With eight lines and many probes the measured rate
/// is above that of the model: by 1.0 +- 0.3 % at 39 probes and 1.7 +- 0.5 % at 48 (200 and 400 layers of 2 MiB).
/// This allowance grows with the cube of the probes: 1.4 % and 2.7 % there, 0.01 % at 7 probes.
const PROGRESSION: f64 = 160.0;

/// Secant steps that suffice for every rate and number of lines; four suffice for most.
const STEPS_MAX: u32 = 12;
/// Relative deviation from the required rate at which the search ends.
const TOLERANCE: f64 = 1e-11;
