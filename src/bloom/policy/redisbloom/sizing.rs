//! RedisBloom's formulas in its order, in doubles, with its own rounded constants.

#![expect(
    clippy::approx_constant,
    reason = "the constants are RedisBloom's, with fewer digits than there are"
)]

/// Most probes per item. The smallest error rate there is, 2^-1074, asks for 1075 with RedisBloom's
/// constants.
pub const PROBES_MAX: u16 = 2048;

/// The square of the natural logarithm of 2, as RedisBloom has it.
const LN2_SQUARED: f64 = 0.480453013918201;
/// The natural logarithm of 2, as RedisBloom has it.
const LN2: f64 = 0.693147180559945;

/// Bits per item of a layer with an error rate strictly between 0 and 1.
#[must_use]
pub fn bits_per_item(error_rate: f64) -> f64 {
    (error_rate.ln() / LN2_SQUARED).abs()
}

/// Probes of a layer with so many bits per item; nothing when that is no positive number or asks for too
/// many.
#[must_use]
pub fn probes_for(bits_per_item: f64) -> Option<u16> {
    let probes = (LN2 * bits_per_item).ceil();
    if !(probes >= 1.0 && probes <= f64::from(PROBES_MAX)) {
        return None;
    }
    u16::try_from(truncated(probes)).ok()
}

/// Bits of `capacity_items` before any rounding, cut to a whole number; at most `u64::MAX`.
#[must_use]
pub fn unrounded_bits(capacity_items: u64, bits_per_item: f64) -> u64 {
    truncated(capacity_items as f64 * bits_per_item)
}

/// A double cut to a whole number as by a cast in C; 0 for NaN and for what is negative, the largest for what
/// is too large.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "cutting off is the purpose, and callers refuse what lies outside"
)]
pub(super) const fn truncated(number: f64) -> u64 {
    number as u64
}
