//! Estimates of the distinct items and the error rate of a layer: the current ones from its fill, and those when it is
//! full.
//!
//! The functions are for independent probes at any position, the methods of [`LayerShape`] for everbloom's own layouts.
//! Merges depend on some of the results, so every machine must compute the same bits.

use super::LayerShape;
use super::paged::{PageModel, mean_rate};
use super::scattered::{self, ADDED_MAX, added_items};
use crate::bits::layout::PAGE_BITS;
use crate::number::whole;

/// Returns the estimated number of distinct added items of a layer of `positions` positions, `set_bits` of which are
/// set, with `probes` probes per item: `ln(1 - fill) / ln(1 - q)`, where `1 - q = (1 - 1/positions)^probes` is the
/// probability that an item misses a given position.
///
/// A full layer gives no estimate, so it counts as one with a single clear bit. The standard deviation is
/// [`deviation`]. O(1).
#[must_use]
pub fn estimated_items(set_bits: u64, positions: u64, probes: u32) -> f64 {
    if positions < 2 {
        return set_bits.min(positions) as f64;
    }
    let ln_miss = f64::from(probes.max(1)) * libm::log1p(-1.0 / positions as f64);
    ln_clear(set_bits, positions) / ln_miss
}

/// Returns the standard deviation of [`estimated_items`] for an array with `items` added items: `sqrt((e^t - 1 - t) *
/// positions) / probes`, where `t` is `items * probes / positions`. O(1).
#[must_use]
pub fn deviation(items: f64, positions: u64, probes: u32) -> f64 {
    let (positions, probes) = (positions.max(1) as f64, f64::from(probes.max(1)));
    let load = items * probes / positions;
    ((libm::expm1(load) - load) * positions).sqrt() / probes
}

/// Returns the logarithm of the share of clear positions. A full layer counts as one with a single clear position.
/// `log1p` is exact for a sparse layer. O(1).
fn ln_clear(set_bits: u64, positions: u64) -> f64 {
    let set_bits = set_bits.min(positions.saturating_sub(1));
    libm::log1p(-(set_bits as f64 / positions.max(1) as f64))
}

/// Returns the share of set positions, 0 to 1. O(1).
#[must_use]
pub fn fill(set_bits: u64, positions: u64) -> f64 {
    if positions == 0 { 0.0 } else { set_bits.min(positions) as f64 / positions as f64 }
}

/// Returns the expected share of absent items whose probes are all set: `fill^probes`. O(1).
#[must_use]
pub fn error_rate_now(fill: f64, probes: u32) -> f64 {
    libm::pow(fill, probes.into())
}

/// Returns the estimated number of distinct items in a client's array of `size_bits` bits, `set_bits` of which are set:
/// -(m / k) ln(1 - X / m) (Swamidass and Baldi, "Mathematical correction for fingerprint similarity measures", 2007;
/// Guava's `approximateElementCount` and Redisson's `count` use the same formula). The item count of an imported filter
/// begins with it.
///
/// A full array gives no estimate, so it counts as one with a single clear bit. O(1).
#[must_use]
pub fn clients_items(set_bits: u64, size_bits: u64, probes: u32) -> u64 {
    if set_bits == 0 || size_bits == 0 || probes == 0 {
        return 0;
    }
    let items = -(size_bits as f64 / f64::from(probes)) * ln_clear(set_bits, size_bits);
    // An array of a single set bit has at least one item.
    whole(items).max(1)
}

/// Returns the items that set half of `size_bits` bits with `probes` independent probes per item: m ln 2 / k, at
/// least 1. At that fill a Bloom filter has its lowest error rate for its size. O(1).
#[must_use]
pub fn half_full_items(size_bits: u64, probes: u32) -> u64 {
    whole(size_bits as f64 * std::f64::consts::LN_2 / f64::from(probes.max(1))).max(1)
}

/// Fewest items per page for which a rate is computed. For fewer items this rate is an upper bound, far below any
/// promised rate.
const LOAD_MIN: f64 = 4.0;
/// Largest number of items per page for which the loads of pages are summed one by one. Above it, the quadrature that
/// layers are sized by is exact enough.
const LIGHT_LOAD: f64 = 128.0;

/// Most Newton steps: a few suffice for most layers, 14 for the highest error rate that a layer is sized for.
const STEPS_MAX: usize = 20;
/// Relative step at which the search ends.
const TOLERANCE: f64 = 1e-9;

impl LayerShape {
    /// Returns the error rate of a layer with `items` distinct added items. O(1).
    fn rate_of(&self, items: f64) -> f64 {
        match self.page_model() {
            _ if items <= 0.0 => 0.0,
            None => scattered::rate(self.positions, self.probes, items),
            Some(model) => model.error_rate((items / self.pages()).max(LOAD_MIN)).min(1.0),
        }
    }

    /// Returns the error rate of a layer that has counted as many items as its capacity: at most the rate that it was
    /// sized for. O(probes).
    #[must_use]
    pub fn full_rate(&self) -> f64 {
        self.rate_of(self.added_at_capacity())
    }

    /// Returns the number of added items of a layer that has counted as many items as its capacity. It includes the
    /// false positives, which are not counted.
    fn added_at_capacity(&self) -> f64 {
        let (capacity, unit) = (self.capacity_items as f64, -self.ln_miss());
        if self.lines == 0 {
            return added_items(capacity * unit, self.probes) / unit;
        }
        let most = ADDED_MAX / unit;
        let mut items = capacity;
        // Newton's steps from below never overshoot, because the share of counted items falls.
        for _ in 0..STEPS_MAX {
            let counted = items * (1.0 - mean_rate(|part| self.rate_of(items * part)));
            let step = (capacity - counted) / (1.0 - self.rate_of(items));
            items = (items + step).min(most);
            if step.is_nan() || step <= TOLERANCE * items {
                break;
            }
        }
        items
    }

    /// Returns the estimated number of distinct added items of a layer with `set_bits` set bits. An item sets each
    /// position with the same probability, for every page and number of lines. A full layer counts as one with a single
    /// clear bit. O(probes).
    #[must_use]
    pub fn estimated_items(&self, set_bits: u64) -> f64 {
        ln_clear(set_bits, self.positions) / self.ln_miss()
    }

    /// Returns the logarithm of the probability that an item does not set a given position.
    fn ln_miss(&self) -> f64 {
        match self.page_model() {
            None => f64::from(self.probes) * libm::log1p(-1.0 / self.positions as f64),
            Some(model) => libm::log1p(-model.hit_rate() / self.pages()),
        }
    }

    /// Returns the current error rate of a layer from its set bits. In a paged layer it is the mixture over the loads
    /// of pages and lines, but at least `fill^probes`, the rate of equally full pages: at the lowest loads the mixture
    /// is lost in rounding. O(1), some microseconds.
    #[must_use]
    pub fn error_rate_now(&self, set_bits: u64) -> f64 {
        let equal = error_rate_now(fill(set_bits, self.positions), self.probes);
        match self.page_model() {
            Some(model) if set_bits > 0 => {
                let load = self.estimated_items(set_bits) / self.pages();
                let mixture =
                    if load < LIGHT_LOAD { model.light_error_rate(load) } else { model.error_rate(load) };
                mixture.max(equal).min(1.0)
            }
            _ => equal,
        }
    }

    /// Returns the model of a paged layer; `None` for a scattered one.
    fn page_model(&self) -> Option<PageModel> {
        (self.lines > 0).then(|| PageModel::new(self.probes, self.lines))
    }

    fn pages(&self) -> f64 {
        (self.positions / PAGE_BITS).max(1) as f64
    }
}

/// Returns the error rate of a layer that has counted `items` items and whose probes are at any position. O(probes).
#[must_use]
pub fn full_rate_anywhere(items: u64, positions: u64, probes: u32) -> f64 {
    let fill = -libm::expm1(-added_anywhere(items, positions, probes) * unit_of(positions, probes));
    error_rate_now(fill, probes)
}

/// Returns the number of added items of a layer that has counted `items` items and whose probes are at any position.
/// It includes the false positives, which are not counted. O(probes).
#[must_use]
pub fn added_anywhere(items: u64, positions: u64, probes: u32) -> f64 {
    let unit = unit_of(positions, probes);
    added_items(items as f64 * unit, probes) / unit
}

/// Returns the negative logarithm of the probability that an item misses a given position, if its probes are at any
/// position.
fn unit_of(positions: u64, probes: u32) -> f64 {
    -f64::from(probes.max(1)) * libm::log1p(-1.0 / positions.max(2) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::truncate;

    #[test]
    fn an_empty_layer_has_no_estimated_items_and_a_full_one_the_most() {
        assert_eq!((estimated_items(0, 1000, 5), error_rate_now(fill(0, 1000), 5)), (0.0, 0.0));
        // (1000 / 5) ln 1000 = 1381.6, less for the exact probability of missing a position.
        assert!(
            (estimated_items(1000, 1000, 5) - 1380.86).abs() < 0.01,
            "{}",
            estimated_items(1000, 1000, 5)
        );
        assert_eq!(estimated_items(2000, 1000, 5), estimated_items(999, 1000, 5));
        assert_eq!((fill(2000, 1000), fill(0, 0)), (1.0, 0.0));
        assert_eq!(
            (estimated_items(1, 1, 7), estimated_items(0, 1, 7), estimated_items(3, 0, 0)),
            (1.0, 0.0, 0.0)
        );
    }

    #[test]
    fn the_estimate_of_a_sparse_layer_is_precise() {
        let items = estimated_items(7, 1 << 43, 7);
        assert!((items - 1.0).abs() < 1e-9, "{items}");
    }

    #[test]
    fn the_estimate_of_clients_follows_the_formula_and_ends_at_a_full_array() {
        // Recorded from Guava 31.1: expectedFpp and approximateElementCount of two filters of 7040 bits.
        assert_eq!(clients_items(3568, 7040, 5), 995);
        assert_eq!(clients_items(3611, 7040, 5), 1013);
        assert!((error_rate_now(fill(3568, 7040), 5) - 0.033_439_589_142_121_036).abs() < 1e-15);
        assert!((error_rate_now(fill(3611, 7040), 5) - 0.035_503_743_428_386_275).abs() < 1e-15);
        assert_eq!(clients_items(0, 7040, 5), 0);
        // (1000 / 5) ln 1000 = 1381.6
        assert_eq!((clients_items(1000, 1000, 5), clients_items(999, 1000, 5)), (1382, 1382));
        assert_eq!((clients_items(2000, 1000, 5), clients_items(1, 1, 7)), (1382, 1));
        assert_eq!((error_rate_now(fill(2000, 1000), 5), error_rate_now(fill(0, 0), 5)), (1.0, 0.0));
        assert_eq!(clients_items(7, 1 << 43, 7), 1);
    }

    #[test]
    fn the_estimate_of_a_half_full_array_is_that_of_the_formula() {
        // go-zero's 20 bits per item and 14 probes: about the number that its documentation sizes for.
        assert_eq!(half_full_items(20_000_000, 14), 990_210);
        assert_eq!(clients_items(10_000_000, 20_000_000, 14), 990_210);
        assert_eq!((half_full_items(1, 1024), half_full_items(0, 0)), (1, 1));
    }

    fn paged(probes: u32, lines: u8, pages: u64) -> LayerShape {
        let positions = pages * PAGE_BITS;
        LayerShape { lines, probes, positions, capacity_items: 1 }
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
                let set_bits =
                    truncate((-libm::expm1(items * shape.ln_miss()) * shape.positions as f64).ceil());
                let rate = shape.error_rate_now(set_bits);
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
