//! Sizes of layers whose probes are at any position.
//!
//! The error rate of such a layer of `m` positions is `E[(X/m)^k]`, where X is the number of set positions. The
//! classic formula uses the power of the mean of X/m. In a small layer the variance of X makes the mean of the power
//! larger (Bose et al., "On the False-Positive Rate of Bloom Filters", 2008).

use super::Demand;
use crate::limits::{PAGED_MIN_BYTES, PROBES_MAX};
use crate::number::truncate;

/// Most words of a scattered layer.
const WORDS_MAX: u64 = PAGED_MIN_BYTES / 8 - 1;

/// Returns the probes and positions of the smallest scattered layer that meets the requirements, with the fewest
/// probes among equal sizes; `None` if it is larger than scattered layers may be.
pub(super) fn solve(demand: &Demand) -> Option<(u32, u64)> {
    let mut best: Option<(u64, u32)> = None;
    for probes in demand.probe_candidates(PROBES_MAX) {
        if let Some(positions) = fewest_positions(demand, probes)
            && best.is_none_or(|(fewest, _)| positions < fewest)
        {
            best = Some((positions, probes));
        }
    }
    best.map(|(positions, probes)| (probes, positions))
}

/// Returns the fewest positions that meet the requirements with this number of probes.
fn fewest_positions(demand: &Demand, probes: u32) -> Option<u64> {
    let Demand { items, rate, .. } = *demand;
    let capacity = |words: u64| items_at(words * 64, probes, rate);
    // Start with the positions of a layer without variance. From there the items per position hardly depend on the
    // size, so one or two proportional steps end within a word of the solution.
    let fill = libm::exp(libm::log(rate) / f64::from(probes));
    let positions = items * f64::from(probes) / counted_items(fill, probes);
    let mut words = truncate(positions / 64.0).clamp(1, WORDS_MAX);
    for _ in 0..3 {
        let closer = truncate(words as f64 * items / capacity(words)).clamp(1, WORDS_MAX);
        if closer == words {
            break;
        }
        words = closer;
    }
    while capacity(words) < items {
        words += 1;
        if words > WORDS_MAX {
            return None;
        }
    }
    while words > 1 && capacity(words - 1) >= items {
        words -= 1;
    }
    Some(words * 64)
}

/// Returns the number of items at which a layer with this number of positions reaches `rate`.
fn items_at(positions: u64, probes: u32, rate: f64) -> f64 {
    let (positions, k) = (positions as f64, f64::from(probes));
    let ln_rate = libm::log(rate);
    let pairs = k * (k - 1.0) / 2.0;
    // The mean fill with fill^k * exp(pairs * variance / fill^2) = rate. This is the second-order expansion of
    // E[(X/m)^k] in an exponential form that is above the true mean. The variance changes slowly, so the iteration
    // converges fast.
    let mut fill = libm::exp(ln_rate / k);
    for _ in 0..ITERATIONS_MAX {
        let variance = fill_variance(fill, positions);
        let closer = libm::exp((ln_rate - pairs * variance / (fill * fill)) / k);
        let step = (closer - fill).abs();
        fill = closer;
        if step < TOLERANCE * fill {
            break;
        }
    }
    // An item misses a given position with probability (1 - 1/positions)^k.
    counted_items(fill, probes) / (-libm::log1p(-1.0 / positions) * k)
}

/// Returns the error rate of a layer with `items` added items, by the expansion of [`items_at`].
pub(super) fn rate(positions: u64, probes: u32, items: f64) -> f64 {
    let (positions, k) = (positions as f64, f64::from(probes));
    let fill = -libm::expm1(items * k * libm::log1p(-1.0 / positions));
    let spread = fill_variance(fill, positions) / (fill * fill);
    (libm::pow(fill, k) * libm::exp(k * (k - 1.0) / 2.0 * spread)).min(1.0)
}

/// Steps after which the fill is within rounding of its limit even in the smallest layer; most layers need 2 or 3.
const ITERATIONS_MAX: u32 = 8;
/// Relative step or deviation at which a search ends: a further step would be lost in rounding.
const TOLERANCE: f64 = 1e-13;

/// Returns the variance of the share of set positions whose mean is `fill`. Both positions of a pair are clear after
/// t probes with probability `(1 - 2/m)^t`, which is `(1 - fill)^2 * (1 - 1/(m - 1)^2)^t`.
fn fill_variance(fill: f64, positions: f64) -> f64 {
    let clear = 1.0 - fill;
    let probes = libm::log1p(-fill) / libm::log1p(-1.0 / positions);
    let less_one = positions - 1.0;
    let covariance = clear * clear * libm::expm1(probes * libm::log1p(-1.0 / (less_one * less_one)));
    let pair_clear = clear * clear + covariance;
    covariance + (clear - pair_clear) / positions
}

/// Returns the counted items of a layer, in units of `positions / probes`, when the share `fill` of its positions is
/// set.
///
/// An ideal layer has `-ln(1 - fill)` added items in these units, but does not count false positives. After `t` added
/// items the share `(1 - e^-t)^probes` of the next items is a false positive. The integral of the counted share is the
/// sum of `fill^i / i` for i from 1 to `probes`, the first terms of the logarithm's series.
pub(super) fn counted_items(fill: f64, probes: u32) -> f64 {
    let (mut sum, mut power) = (0.0, 1.0);
    for i in 1..=probes {
        power *= fill;
        sum += power / f64::from(i);
    }
    sum
}

/// Returns the added items of a layer that has counted `counted`, in units of `positions / probes`: the inverse of
/// [`counted_items`], up to [`ADDED_MAX`]. O(probes).
pub(super) fn added_items(counted: f64, probes: u32) -> f64 {
    // Newton's method: the slope of the count falls, so no step overshoots.
    let mut added = counted;
    for _ in 0..STEPS_MAX {
        let fill = -libm::expm1(-added);
        let missing = counted - counted_items(fill, probes);
        if missing <= TOLERANCE * counted || added > ADDED_MAX {
            break;
        }
        added += missing / (1.0 - libm::pow(fill, f64::from(probes)));
    }
    added.min(ADDED_MAX)
}

/// Newton steps that suffice up to [`ADDED_MAX`].
const STEPS_MAX: u32 = 64;
/// The number of added items, in units of `positions / probes`, at which nearly every position is set.
pub(super) const ADDED_MAX: f64 = 32.0;
