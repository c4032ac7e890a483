//! The items and the error rate of an existing layer, by the models of its sizing.

use super::Shape;
use super::page::PageModel;
use super::paged::mean_rate;
use super::scattered::{self, ADDED_MAX, added_items};
use crate::bloom::bits::estimate::{self, fill, ln_clear};
use crate::bloom::bits::layout::PAGE_BITS;

/// Fewest items per page for which a rate is computed. For fewer items this rate is an upper bound, far below any
/// promised rate.
const LOAD_MIN: f64 = 4.0;
/// Largest number of items per page for which the loads of pages are summed one by one. Above it, the quadrature that
/// layers are sized by is exact enough.
const LIGHT_LOAD: f64 = 128.0;

/// Returns the error rate of a layer with `items` distinct added items. O(1).
#[must_use]
pub fn rate_of(shape: &Shape, items: f64) -> f64 {
    if items <= 0.0 {
        return 0.0;
    }
    match page_model(shape) {
        None => scattered::rate(shape.positions, shape.probes, items),
        Some(model) => model.error_rate((items / pages(shape)).max(LOAD_MIN)).min(1.0),
    }
}

/// Returns the error rate of a layer that has counted as many items as its capacity: at most the rate that it was
/// sized for. O(probes).
#[must_use]
pub fn full_rate(shape: &Shape) -> f64 {
    rate_of(shape, added_at_capacity(shape))
}

/// Returns the number of added items of a layer that has counted as many items as its capacity. It includes the false
/// positives, which are not counted.
fn added_at_capacity(shape: &Shape) -> f64 {
    let (capacity, unit) = (shape.capacity_items as f64, -ln_miss(shape));
    let Some(model) = page_model(shape) else { return added_items(capacity * unit, shape.probes) / unit };
    let most = ADDED_MAX / unit;
    let rate = |items: f64| model.error_rate((items / pages(shape)).max(LOAD_MIN)).min(1.0);
    let mut items = capacity;
    // Newton's steps from below never overshoot, because the share of counted items falls.
    for _ in 0..STEPS_MAX {
        let counted = items * (1.0 - mean_rate(|part| rate(items * part)));
        let step = (capacity - counted) / (1.0 - rate(items));
        items = (items + step).min(most);
        if step.is_nan() || step <= TOLERANCE * items {
            break;
        }
    }
    items
}

/// Most Newton steps: a few suffice for most layers, 14 for the highest error rate that a layer is sized for.
const STEPS_MAX: usize = 20;
/// Relative step at which the search ends.
const TOLERANCE: f64 = 1e-9;

/// Returns the error rate of a layer that has counted `items` items and whose probes are at any position. O(probes).
#[must_use]
pub fn full_rate_anywhere(items: u64, positions: u64, probes: u32) -> f64 {
    let fill = -libm::expm1(-added_anywhere(items, positions, probes) * unit_of(positions, probes));
    estimate::error_rate_now(fill, probes)
}

/// Returns the number of added items of a layer that has counted `items` items and whose probes are at any position.
/// It includes the false positives, which are not counted. O(probes).
#[must_use]
pub fn added_anywhere(items: u64, positions: u64, probes: u32) -> f64 {
    let unit = unit_of(positions, probes);
    added_items(items as f64 * unit, probes) / unit
}

/// Returns the expected number of times that an item sets a given position, if its probes are at any position.
fn unit_of(positions: u64, probes: u32) -> f64 {
    -f64::from(probes.max(1)) * libm::log1p(-1.0 / positions.max(2) as f64)
}

/// Returns the estimated number of distinct added items of a layer with `set_bits` set bits. An item sets each
/// position with the same probability, for every page and number of lines. A full layer counts as one with a single
/// clear bit. O(probes).
#[must_use]
pub fn estimated_items(shape: &Shape, set_bits: u64) -> f64 {
    ln_clear(set_bits, shape.positions) / ln_miss(shape)
}

/// Returns the number of bits that `items` distinct items are expected to set: the inverse of [`estimated_items`].
/// O(probes).
#[must_use]
pub fn expected_bits(shape: &Shape, items: f64) -> f64 {
    -libm::expm1(items * ln_miss(shape)) * shape.positions as f64
}

/// Returns the logarithm of the probability that an item does not set a given position.
fn ln_miss(shape: &Shape) -> f64 {
    match page_model(shape) {
        None => f64::from(shape.probes) * libm::log1p(-1.0 / shape.positions as f64),
        Some(model) => libm::log1p(-model.hit_rate() / pages(shape)),
    }
}

/// Returns the current error rate of a layer from its set bits. In pages it is the mixture over the loads of pages
/// and lines, but at least `fill^probes`, the rate of equally full pages: at the lowest loads the mixture is lost in
/// rounding. O(1), some microseconds.
#[must_use]
pub fn error_rate_now(shape: &Shape, set_bits: u64) -> f64 {
    let equal = estimate::error_rate_now(fill(set_bits, shape.positions), shape.probes);
    match page_model(shape) {
        Some(model) if set_bits > 0 => {
            let load = estimated_items(shape, set_bits) / pages(shape);
            let mixture =
                if load < LIGHT_LOAD { model.light_error_rate(load) } else { model.error_rate(load) };
            mixture.max(equal).min(1.0)
        }
        _ => equal,
    }
}

/// Returns the model of a paged layer; `None` for a scattered one.
fn page_model(shape: &Shape) -> Option<PageModel> {
    (shape.lines > 0).then(|| PageModel::new(shape.probes, shape.lines))
}

fn pages(shape: &Shape) -> f64 {
    (shape.positions / PAGE_BITS).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::truncate;
    use super::*;

    fn paged(probes: u32, lines: u8, pages: u64) -> Shape {
        let positions = pages * PAGE_BITS;
        Shape { lines, probes, positions, capacity_items: 1 }
    }

    #[test]
    fn both_formulas_of_the_error_rate_agree_at_their_border() {
        for lines in 1..=8u8 {
            for probes in u32::from(lines)..=(7 * u32::from(lines)).min(50) {
                let model = PageModel::new(probes, lines);
                let (light, heavy) = (model.light_error_rate(LIGHT_LOAD), model.error_rate(LIGHT_LOAD));
                let difference = (light / heavy - 1.0).abs();
                assert!(heavy < 1e-13 || difference < 1e-3, "{lines} {probes}: {light} {heavy}");
            }
        }
    }

    #[test]
    fn the_rate_rises_with_the_items_from_0_to_1() {
        for (probes, lines) in [(4, 1), (7, 2), (20, 6), (50, 8)] {
            let (shape, mut before) = (paged(probes, lines, 1000), 0.0);
            for step in 0..40 {
                let items = 10f64.powf(f64::from(step) / 4.0);
                let set_bits = truncate(expected_bits(&shape, items).ceil());
                let rate = error_rate_now(&shape, set_bits);
                assert!(
                    rate >= before * 0.999 && rate <= 1.0,
                    "{probes} {lines} {items}: {rate} after {before}"
                );
                before = rate;
            }
            assert!(before > 0.999, "{before}");
        }
    }
}
