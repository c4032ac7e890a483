//! Sizes of layers whose probes lie anywhere in the array.
//!
//! The error rate of such a layer of `m` bits is `E[(X/m)^k]`, X being the occupied bits. Its mean is that of
//! throwing balls into bins, and the classic formula takes the power of that mean; on a small array the
//! variance of X makes the mean of the power larger (Bose et al., "On the False-Positive Rate of Bloom
//! Filters", 2008).

use super::rate::{counted_items, probe_candidates, truncate};
use super::size::Size;
use crate::bloom::everbloom::layout::Layout;
use crate::bloom::limits::{PAGED_MIN_BYTES, PROBES_MAX};

/// Words of the largest scattered layer.
const WORDS_MAX: u64 = PAGED_MIN_BYTES / 8 - 1;

/// The smallest scattered layer for `items` at `rate`, with the fewest probes among equals; `None` when it
/// would have to be larger than scattered layers may be.
pub(super) fn solve(items: u64, rate: f64) -> Option<Size> {
    let items = items as f64;
    let mut best: Option<(u64, u32)> = None;
    for probes in probe_candidates(rate, PROBES_MAX) {
        if let Some(words) = words_for(items, probes, rate)
            && best.is_none_or(|(fewest, _)| words < fewest)
        {
            best = Some((words, probes));
        }
    }
    best.map(|(words, probes)| Size { layout: Layout::Scattered, probes, size_bits: words * 64 })
}

/// The fewest words with which `items` keep `rate`.
fn words_for(items: f64, probes: u32, rate: f64) -> Option<u64> {
    let capacity = |words: u64| items_at(words * 64, probes, rate);
    // Bits of an array without variance; from there, items per bit hardly depend on the size, so that a
    // proportional step or two end within a word of the answer.
    let fill = libm::exp(libm::log(rate) / f64::from(probes));
    let mut words =
        truncate(items * f64::from(probes) / counted_items(fill, probes) / 64.0).clamp(1, WORDS_MAX);
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
    Some(words)
}

/// The items at which a layer of `bits` reaches `rate`.
fn items_at(bits: u64, probes: u32, rate: f64) -> f64 {
    let (bits, k) = (bits as f64, f64::from(probes));
    let ln_rate = libm::log(rate);
    let pairs = k * (k - 1.0) / 2.0;
    // The mean fill with fill^k * exp(pairs * variance / fill^2) = rate: the second-order expansion of
    // E[(X/m)^k], whose exponential form lies above the true mean. The variance changes slowly, so the
    // iteration converges fast.
    let mut fill = libm::exp(ln_rate / k);
    for _ in 0..ITERATIONS_MAX {
        let variance = fill_variance(fill, bits);
        let closer = libm::exp((ln_rate - pairs * variance / (fill * fill)) / k);
        let step = (closer - fill).abs();
        fill = closer;
        if step < TOLERANCE * fill {
            break;
        }
    }
    // One met item misses a given bit with (1 - 1/bits)^k.
    counted_items(fill, probes) / (-libm::log1p(-1.0 / bits) * k)
}

/// Steps that bring the fill to within rounding of its limit, at the smallest array too; at most arrays 2 or
/// 3 do.
const ITERATIONS_MAX: u32 = 8;
/// Relative step after which the next one is lost in rounding.
const TOLERANCE: f64 = 1e-13;

/// Variance of the share of occupied bits whose mean is `fill`: of one pair of bits, both stay clear with
/// `(1 - 2/bits)^t` after t throws, which is `(1 - fill)^2 * (1 - 1/(bits - 1)^2)^t`.
pub(super) fn fill_variance(fill: f64, bits: f64) -> f64 {
    let clear = 1.0 - fill;
    let throws = libm::log1p(-fill) / libm::log1p(-1.0 / bits);
    let less_one = bits - 1.0;
    let covariance = clear * clear * libm::expm1(throws * libm::log1p(-1.0 / (less_one * less_one)));
    let pair_clear = clear * clear + covariance;
    covariance + (clear - pair_clear) / bits
}
