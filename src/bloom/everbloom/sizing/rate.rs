//! What both layouts are sized by: the error rate, the probes that may be best for it, and how many items are
//! counted.

use std::ops::RangeInclusive;

use crate::bloom::limits::LAYER_ERROR_RATE_MIN;

/// The rate that a layer is sized for when `error_rate` is asked for. Layers of the same capacity and the
/// same such rate have the same size.
#[must_use]
pub fn sized_rate(error_rate: f64) -> f64 {
    let rate = if error_rate.is_nan() { LAYER_ERROR_RATE_MIN } else { error_rate };
    rate.clamp(LAYER_ERROR_RATE_MIN, RATE_MAX)
}

/// Largest error rate a layer is sized for; above it the logarithm of the rate loses its meaning in rounding.
const RATE_MAX: f64 = 1.0 - 1.0 / (1u64 << 20) as f64;

/// Numbers of probes among which the smallest layer for `rate` is found: the best one is `log2(1/rate)` for
/// an ideal array (Bloom, 1970), up to two fewer for unevenly loaded lines.
pub(super) fn probe_candidates(rate: f64, probes_max: u32) -> RangeInclusive<u32> {
    let ideal = truncate(-libm::log2(rate));
    let ideal = u32::try_from(ideal).unwrap_or(u32::MAX).min(probes_max);
    ideal.saturating_sub(2).max(1)..=(ideal + 1).min(probes_max)
}

/// How many items a filter counts, in units of `bits / probes`, when the share `fill` of its bits is set.
///
/// The items an ideal filter meets are `-ln(1 - fill)` of these units, but it counts only those it takes for
/// new. After `t` met items it takes the share `(1 - e^-t)^probes` of the next for present already; the
/// integral of the rest is the sum of `fill^i / i` for i from 1 to `probes`, the logarithm's series cut
/// short.
pub(super) fn counted_items(fill: f64, probes: u32) -> f64 {
    let (mut sum, mut power) = (0.0, 1.0);
    for i in 1..=probes {
        power *= fill;
        sum += power / f64::from(i);
    }
    sum
}

/// `value` without its fraction; negative values as 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is wanted"
)]
pub(super) fn truncate(value: f64) -> u64 {
    value as u64
}
