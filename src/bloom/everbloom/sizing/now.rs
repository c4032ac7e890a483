//! What the fill of a paged layer says: how many items it has met, and how often it errs now.

use super::page_load::{bit_hit_rate, error_rate, light_error_rate};
use crate::bloom::estimate::{self, fill, ln_clear};
use crate::bloom::everbloom::layout::PAGE_BITS;

/// Items per page up to which the loads of pages are summed one by one; from there on they are many enough
/// for the quadrature that layers are sized by.
const LIGHT_LOAD: f64 = 128.0;

/// Estimated number of distinct items that a layer has met, from its set bits. Whatever the page and the
/// lines, an item sets a given bit with the same probability `q`, so that the mean fill is that of a
/// scattered layer with this `q`: `items = ln(1 - fill) / ln(1 - q)`. O(probes).
pub fn items_met(set_bits: u64, size_bits: u64, probes: u32, lines: u8) -> f64 {
    let pages = (size_bits / PAGE_BITS).max(1) as f64;
    ln_clear(set_bits, size_bits) / libm::log1p(-bit_hit_rate(probes, lines) / pages)
}

/// Expected share of absent items that a layer takes for present when it has met `items`: the mixture over
/// the loads of pages and lines that layers are sized by. Never below `fill^probes`, which it would be if
/// all pages were equally full: at the lowest loads the model is lost in rounding. O(1), some microseconds.
pub fn error_rate_now(items: f64, set_bits: u64, size_bits: u64, probes: u32, lines: u8) -> f64 {
    if set_bits == 0 {
        return 0.0;
    }
    let load = items / (size_bits / PAGE_BITS).max(1) as f64;
    let mixture = if load < LIGHT_LOAD {
        light_error_rate(load, probes, lines)
    } else {
        error_rate(load, probes, lines)
    };
    let equal = estimate::error_rate_now(fill(set_bits, size_bits), probes);
    mixture.max(equal).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_the_error_rate_agree_where_they_meet() {
        for lines in 1..=8u8 {
            for probes in u32::from(lines)..=(7 * u32::from(lines)).min(50) {
                let (light, heavy) =
                    (light_error_rate(LIGHT_LOAD, probes, lines), error_rate(LIGHT_LOAD, probes, lines));
                let difference = (light / heavy - 1.0).abs();
                assert!(heavy < 1e-13 || difference < 1e-3, "{lines} {probes}: {light} {heavy}");
            }
        }
    }

    #[test]
    fn the_rate_rises_with_the_items_from_nothing_to_one() {
        for (probes, lines) in [(4, 1), (7, 2), (20, 6), (50, 8)] {
            let (pages, mut before) = (1000, 0.0);
            for step in 0..40 {
                let items = 10f64.powf(f64::from(step) / 4.0);
                let fill = 1.0 - libm::exp(-items / pages as f64 * bit_hit_rate(probes, lines));
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a number of bits"
                )]
                let set_bits = (fill * (pages * PAGE_BITS) as f64).ceil() as u64;
                let rate = error_rate_now(items, set_bits, pages * PAGE_BITS, probes, lines);
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
