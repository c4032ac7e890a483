//! How large valkey-bloom makes a layer: the formulas of the crate `bloomfilter` it is built on.

use std::f64::consts::LN_2;

/// How the number of probes is made a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest: valkey-bloom 1.0.
    Nearest,
    /// Up: valkey-bloom 0.1.0.
    Up,
}

/// Bytes of the array of a layer for `capacity_items` at `error_rate`, strictly between 0 and 1: the classic
/// `-n ln p / (ln 2)^2` bits, rounded up to whole bytes. Saturates at `u64::MAX`.
#[must_use]
pub fn layer_size_bytes(capacity_items: u64, error_rate: f64) -> u64 {
    whole((capacity_items as f64 * error_rate.ln() / (-8.0 * (LN_2 * LN_2))).ceil())
}

/// Probes per item of a layer, at least 1: the classic `m / n * ln 2`. Saturates at `u32::MAX`.
#[must_use]
pub fn probes(size_bits: u64, capacity_items: u64, rounding: Rounding) -> u32 {
    let probes = size_bits as f64 / capacity_items.max(1) as f64 * LN_2;
    let probes = match rounding {
        Rounding::Nearest => probes.round(),
        Rounding::Up => probes.ceil(),
    };
    u32::try_from(whole(probes)).unwrap_or(u32::MAX).max(1)
}

/// The error rate of layer `index` (0 is the first, which is not tightened). `None` when it is too small for
/// a double to tell from zero.
#[must_use]
pub fn layer_error_rate(error_rate: f64, tightening_ratio: f64, index: usize) -> Option<f64> {
    let layer_rate = error_rate * tightening_ratio.powi(i32::try_from(index).ok()?);
    (layer_rate > f64::MIN_POSITIVE).then_some(layer_rate)
}

/// A number without a fraction as an integer; 0 for anything below and for NaN.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturating is what is asked for"
)]
const fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_both_generations() {
        // Bytes and probes read in payloads of valkey-bloom 1.0.1, and the probes of 0.1.0.
        for (capacity, error_rate, size_bytes, nearest, up) in [
            (10, 0.1, 6, 3, 4),
            (100, 0.01, 120, 7, 7),
            (1000, 0.001, 1798, 10, 10),
            (100, 0.25, 37, 2, 3),
            (1, 0.1, 1, 6, 6),
            (50, 0.02, 51, 6, 6),
            (300, 0.05, 234, 4, 5),
        ] {
            assert_eq!(layer_size_bytes(capacity, error_rate), size_bytes, "{capacity} {error_rate}");
            assert_eq!(probes(size_bytes * 8, capacity, Rounding::Nearest), nearest);
            assert_eq!(probes(size_bytes * 8, capacity, Rounding::Up), up);
        }
    }

    #[test]
    fn extreme_sizes_saturate() {
        assert_eq!(layer_size_bytes(u64::MAX, f64::MIN_POSITIVE), u64::MAX);
        assert_eq!(layer_size_bytes(1, 1.0 - f64::EPSILON), 1);
        assert_eq!(probes(8, i64::MAX.unsigned_abs(), Rounding::Nearest), 1);
        assert_eq!(probes(u64::MAX, 0, Rounding::Up), u32::MAX);
        let smallest = probes(layer_size_bytes(1, 2.3e-308) * 8, 1, Rounding::Up);
        assert!((1022..crate::bloom::layout::Prime::PROBES_MAX).contains(&smallest));
    }

    #[test]
    fn the_error_rate_ends_before_a_double_does() {
        assert_eq!(layer_error_rate(0.01, 0.5, 0), Some(0.01));
        assert_eq!(layer_error_rate(0.01, 0.5, 3), Some(0.00125));
        assert_eq!(layer_error_rate(0.03, 0.5, 1016).map(|rate| rate > 0.0), Some(true));
        assert_eq!(layer_error_rate(0.03, 0.5, 1017), None);
        assert_eq!(layer_error_rate(f64::MIN_POSITIVE, 0.5, 0), None);
        assert_eq!(layer_error_rate(0.5, 0.5, usize::MAX), None);
    }
}
