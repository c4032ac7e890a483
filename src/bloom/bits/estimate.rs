//! Estimates from the fill of a layer: its distinct items and its current error rate.
//!
//! These formulas are for independent probes at any position; [`sizing`](super::sizing) has those for layers with
//! pages. Growth and merges depend on some of the results, so every machine must compute the same bits.

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

/// Returns the logarithm of the share of clear positions, of which there is at least one. `log1p` is exact for a sparse
/// layer. O(1).
pub(super) fn ln_clear(set_bits: u64, positions: u64) -> f64 {
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

/// Returns the estimated number of distinct items in a client's array of `size_bits` bits, `set_bits` of which are
/// set: -(m / k) ln(1 - X / m) (Swamidass and Baldi, "Mathematical correction for fingerprint similarity measures",
/// 2007; Guava's `approximateElementCount` and Redisson's `count` use the same formula). It becomes the item count of
/// a filter.
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

/// Returns the nearest whole number; 0 for a negative one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast from a double saturates")]
pub(in crate::bloom) fn whole(quantity: f64) -> u64 {
    quantity.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
