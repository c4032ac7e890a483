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

/// Returns how many items a filter has met when it has counted `counted`, in units of `bits / probes`: the inverse of
/// [`counted_items`], as far as that has one. O(probes).
pub(super) fn met_items(counted: f64, probes: u32) -> f64 {
    // Newton's method: the count rises ever more slowly, so that no step goes too far.
    let mut met = counted;
    for _ in 0..STEPS_MAX {
        let fill = -libm::expm1(-met);
        let missing = counted - counted_items(fill, probes);
        if missing <= TOLERANCE * counted || met > MET_MAX {
            break;
        }
        met += missing / (1.0 - libm::pow(fill, f64::from(probes)));
    }
    met.min(MET_MAX)
}

/// Steps that suffice up to [`MET_MAX`].
const STEPS_MAX: u32 = 64;
/// Relative deviation at which the search ends.
const TOLERANCE: f64 = 1e-13;
/// Items from which on next to every bit is set.
const MET_MAX: f64 = 32.0;

/// `value` without its fraction; negative values as 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is wanted"
)]
pub(super) fn truncate(value: f64) -> u64 {
    value as u64
}
