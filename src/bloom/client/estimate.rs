//! What the fill of a bit array says about the items in it, when nobody counted them.

use crate::bloom::estimate::{error_rate_now, fill};

/// Estimated number of distinct items in an array of `size_bits` bits, `set_bits` of which are set, with
/// `probes` independent probes per item: -(m / k) ln(1 - X / m) (Swamidass and Baldi, "Mathematical
/// correction for fingerprint similarity measures", 2007; Guava's `approximateElementCount` and Redisson's
/// `count` are the same formula).
///
/// A full array says only that there are very many: it is taken as one with a single clear bit left. O(1).
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rounded quantity, not negative; a cast from a double saturates"
)]
pub fn estimated_items(set_bits: u64, size_bits: u64, probes: u32) -> u64 {
    let clear_bits = size_bits.saturating_sub(set_bits).max(1);
    if set_bits == 0 || size_bits == 0 || probes == 0 {
        return 0;
    }
    // log1p keeps the digits of a sparse array, where X / m is far below the precision of 1 - X / m; libm's,
    // because the estimate becomes the count of a filter, which must be the same on primary and replica.
    let fill = (size_bits - clear_bits) as f64 / size_bits as f64;
    let items = -(size_bits as f64 / f64::from(probes)) * libm::log1p(-fill);
    // An array of a single bit has no smaller fill than full; one item has been there.
    (items.round() as u64).max(1)
}

/// Returns the expected share of absent items that the array takes for present: (X / m)^k. O(1).
#[must_use]
pub fn current_error_rate(set_bits: u64, size_bits: u64, probes: u32) -> f64 {
    error_rate_now(fill(set_bits, size_bits), probes)
}

/// Items that set half of `size_bits` bits with `probes` independent probes per item: m ln 2 / k, where a
/// Bloom filter has its lowest error rate for the bits it takes. At least 1. O(1).
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rounded quantity, not negative; a cast from a double saturates"
)]
pub fn half_full_items(size_bits: u64, probes: u32) -> u64 {
    let items = size_bits as f64 * std::f64::consts::LN_2 / f64::from(probes.max(1));
    (items.round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_the_formula_and_ends_at_a_full_array() {
        // Recorded from Guava 31.1: expectedFpp and approximateElementCount of two filters of 7040 bits.
        assert_eq!(estimated_items(3568, 7040, 5), 995);
        assert_eq!(estimated_items(3611, 7040, 5), 1013);
        assert!((current_error_rate(3568, 7040, 5) - 0.033_439_589_142_121_036).abs() < 1e-15);
        assert!((current_error_rate(3611, 7040, 5) - 0.035_503_743_428_386_275).abs() < 1e-15);
        assert_eq!((estimated_items(0, 7040, 5), current_error_rate(0, 7040, 5)), (0, 0.0));
        // (1000 / 5) ln 1000 = 1381.6
        assert_eq!((estimated_items(1000, 1000, 5), estimated_items(999, 1000, 5)), (1382, 1382));
        assert_eq!((estimated_items(2000, 1000, 5), estimated_items(1, 1, 7)), (1382, 1));
        assert_eq!((current_error_rate(2000, 1000, 5), current_error_rate(0, 0, 5)), (1.0, 0.0));
        assert_eq!(estimated_items(7, 1 << 43, 7), 1);
    }
    #[test]
    fn half_of_the_bits_are_set_by_as_many_items_as_the_estimate_says() {
        // go-zero's 20 bits per item and 14 probes: about the number that its documentation sizes for.
        assert_eq!(half_full_items(20_000_000, 14), 990_210);
        assert_eq!(estimated_items(10_000_000, 20_000_000, 14), 990_210);
        assert_eq!((half_full_items(1, 1024), half_full_items(0, 0)), (1, 1));
    }
}
