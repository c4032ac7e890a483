//! What a layer that is there holds and how often it errs, by the models that it was sized by.

use super::{page_load, scattered};
use crate::bloom::everbloom::layout::{LINE_BITS, Layout, PAGE_BITS, PAGE_LINES};
use crate::bloom::everbloom::shape::LayerShape;

/// Items per page below which a rate is that of so many: far below any that is promised, and an upper bound.
const LOAD_MIN: f64 = 4.0;

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
