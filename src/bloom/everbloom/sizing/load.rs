//! What a layer that is there holds and how often it errs, by the models that it was sized by.

use super::rate::truncate;
use super::{page_load, rate, scattered};
use crate::bloom::estimate;
use crate::bloom::everbloom::layout::{LINE_BITS, Layout, PAGE_BITS, PAGE_LINES};
use crate::bloom::everbloom::shape::LayerShape;

/// Items per page below which a rate is that of so many: far below any that is promised, and an upper bound.
const LOAD_MIN: f64 = 4.0;

/// Returns the set bits from which on a layer holds more than its capacity: those of a layer that has just counted its
/// capacity, and `deviations` standard deviations more. O(1), up to a tenth of a millisecond.
#[must_use]
pub fn full_bits(shape: &LayerShape, deviations: f64) -> u64 {
    let bits = shape.size_bits as f64;
    let items = full_items(shape);
    let items = items + deviations * estimate::deviation(items, shape.size_bits, shape.probes);
    // The logarithm of the share of clear bits that an item leaves clear, which is the same at every fill.
    let half = shape.size_bits / 2;
    let ln_clear = estimate::ln_clear(half, shape.size_bits) / items_of(shape, half);
    truncate((-libm::expm1(items * ln_clear) * bits).ceil()).clamp(1, shape.size_bits)
}

/// The error rate of a layer that `items` distinct items have met. O(1).
fn rate_of(shape: &LayerShape, items: f64) -> f64 {
    if items <= 0.0 {
        return 0.0;
    }
    let (bits, k) = (shape.size_bits as f64, f64::from(shape.probes));
    match shape.layout {
        Layout::Scattered => {
            let fill = -libm::expm1(items * k * libm::log1p(-1.0 / bits));
            let spread = scattered::fill_variance(fill, bits) / (fill * fill);
            (libm::pow(fill, k) * libm::exp(k * (k - 1.0) / 2.0 * spread)).min(1.0)
        }
        Layout::Paged { lines } => {
            let load = items * PAGE_BITS as f64 / bits;
            page_load::error_rate(load.max(LOAD_MIN), shape.probes, lines).min(1.0)
        }
    }
}

/// Returns the error rate of a layer that has counted as many items as it has capacity for: at most the one that it was sized
/// for. O(probes).
#[must_use]
pub fn full_rate(shape: &LayerShape) -> f64 {
    rate_of(shape, full_items(shape))
}

/// Returns the distinct items that a layer has met when it has counted as many as it has capacity for: it has counted all but
/// those that it took for present. O(probes).
#[must_use]
pub fn full_items(shape: &LayerShape) -> f64 {
    let unit = -ln_miss(shape);
    rate::met_items(shape.capacity_items as f64 * unit, shape.probes) / unit
}

/// Returns the error rate of bits that are probed anywhere, once they have counted so many items. O(probes).
#[must_use]
pub fn full_rate_anywhere(items: u64, bits: u64, probes: u32) -> f64 {
    let unit = -f64::from(probes.max(1)) * libm::log1p(-1.0 / bits.max(2) as f64);
    let fill = -libm::expm1(-rate::met_items(items as f64 * unit, probes));
    estimate::error_rate_now(fill, probes)
}

/// Returns the logarithm of the probability that an item does not set a given bit. Of a paged layer it is that of a line, as
/// for [`items_of`].
fn ln_miss(shape: &LayerShape) -> f64 {
    match shape.layout {
        Layout::Scattered => f64::from(shape.probes) * libm::log1p(-1.0 / shape.size_bits as f64),
        Layout::Paged { lines } => {
            let (lines, line_count) = (u32::from(lines).max(1), shape.size_bits as f64 / LINE_BITS as f64);
            let (few, more) = (shape.probes / lines, shape.probes % lines);
            let missed = |probes: u32| -libm::expm1(f64::from(probes) * libm::log1p(-1.0 / LINE_BITS as f64));
            let met = f64::from(lines - more) * missed(few) + f64::from(more) * missed(few + 1);
            debug_assert!(met > 0.0 && line_count >= PAGE_LINES as f64);
            -met / line_count
        }
    }
}

/// The distinct items that have set so many bits, by the expectation of their number: of a paged layer, whose lines
/// are met by Poisson numbers of items, that of a line. A full array is taken as one with a single clear bit. O(1).
#[must_use]
pub fn items_of(shape: &LayerShape, set_bits: u64) -> f64 {
    let clear = shape.size_bits.saturating_sub(set_bits).max(1) as f64 / shape.size_bits.max(1) as f64;
    libm::log(clear) / ln_miss(shape)
}
