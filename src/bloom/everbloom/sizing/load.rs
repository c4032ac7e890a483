//! What a layer that is there holds and how often it errs, by the models that it was sized by.

use super::paged::mean_rate;
use super::rate::truncate;
use super::{page_load, scattered};
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
    let items = met_at_capacity(shape);
    let items = items + deviations * estimate::deviation(items, shape.size_bits, shape.probes);
    // The logarithm of the share of clear bits that an item leaves clear, which is the same at every fill.
    let half = shape.size_bits / 2;
    let ln_clear = estimate::ln_clear(half, shape.size_bits) / items_of(shape, half);
    truncate((-libm::expm1(items * ln_clear) * bits).ceil()).clamp(1, shape.size_bits)
}

/// Most items for each bit and probe: with more, the share of clear bits is lost in rounding.
const ITEMS_PER_PROBE_MAX: f64 = 32.0;

/// Returns the items that a layer has met when it has counted as many as its capacity: these, and the false positives
/// among them, which are not counted.
fn met_at_capacity(shape: &LayerShape) -> f64 {
    let capacity = shape.capacity_items as f64;
    let most = ITEMS_PER_PROBE_MAX * shape.size_bits as f64 / f64::from(shape.probes);
    let mut items = capacity;
    // Newton's steps from below, which never go too far: the share of items that are counted falls.
    for _ in 0..STEPS {
        let counted = items * (1.0 - mean_rate(|part| rate_of(shape, items * part)));
        let step = (capacity - counted) / (1.0 - rate_of(shape, items));
        items = (items + step).min(most);
        if step.is_nan() || step <= TOLERANCE * items {
            break;
        }
    }
    items
}

/// Most of Newton's steps: a few are taken as a rule, 14 at the highest error rate that a layer is sized for.
const STEPS: usize = 20;
/// Relative step at which the search ends.
const TOLERANCE: f64 = 1e-9;

/// The error rate of a layer that `items` distinct items have met. O(1).
#[must_use]
pub fn rate_of(shape: &LayerShape, items: f64) -> f64 {
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

/// The distinct items that have set so many bits, by the expectation of their number: of a paged layer, whose lines
/// are met by Poisson numbers of items, that of a line. A full array is taken as one with a single clear bit. O(1).
#[must_use]
pub fn items_of(shape: &LayerShape, set_bits: u64) -> f64 {
    let clear = shape.size_bits.saturating_sub(set_bits).max(1) as f64 / shape.size_bits.max(1) as f64;
    match shape.layout {
        Layout::Scattered => {
            libm::log(clear) / (f64::from(shape.probes) * libm::log1p(-1.0 / shape.size_bits as f64))
        }
        Layout::Paged { lines } => {
            let (lines, line_count) = (u32::from(lines).max(1), shape.size_bits as f64 / LINE_BITS as f64);
            let (few, more) = (shape.probes / lines, shape.probes % lines);
            let missed = |probes: u32| -libm::expm1(f64::from(probes) * libm::log1p(-1.0 / LINE_BITS as f64));
            let met = f64::from(lines - more) * missed(few) + f64::from(more) * missed(few + 1);
            debug_assert!(met > 0.0 && line_count >= PAGE_LINES as f64);
            -libm::log(clear) * line_count / met
        }
    }
}
