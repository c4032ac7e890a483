//! How large a layer must be to keep its error rate.
//!
//! The textbook size, `-n ln p / ln(2)^2`, does not keep it: it ignores that the fill of a small array varies, that
//! the pages and lines of a paged one are not equally loaded, and that every item a filter counts was new to it, so
//! that the false positives met while filling make room for further items. The modules `scattered` and `paged` account
//! for all of it; tests/sizing.rs and tests/accuracy.rs prove it.
//!
//! Every function here is made of IEEE 754 arithmetic, square roots included, and of the portable `exp` and `log` of the
//! libm crate, whose results, unlike those of the C library, are the same bits on every machine: a replica builds the very same layer.

use super::layout::Layout;
use crate::bloom::limits::LAYER_ERROR_RATE_MIN;

mod paged;
mod scattered;

/// Layout, probes and bits of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How probes are placed.
    pub layout: Layout,
    /// Probes per item, 1 to [`PROBES_MAX`](crate::bloom::limits::PROBES_MAX).
    pub probes: u32,
    /// Bits of the array, a multiple of 64, for a paged layer of [`PAGE_BITS`](super::layout::PAGE_BITS).
    pub size_bits: u64,
}

/// The smallest layer that holds `capacity_items` distinct items at an error rate of at most `error_rate`.
///
/// Rates below [`LAYER_ERROR_RATE_MIN`] are sized as that rate, rates above `1 - 2^-20` as that one. Never smaller for
/// more items; for a lower rate never smaller within one layout, and at most 1.3 % smaller where the layout turns to
/// more lines. O(1), no allocation; measured at 1 to 16 us for a scattered layer and 10 to 90 us for a paged one, several
/// times that on a busy machine.
#[must_use]
pub fn size_for(capacity_items: u64, error_rate: f64) -> Size {
    let (items, rate) = (capacity_items.max(1), sized_rate(error_rate));
    scattered::solve(items, rate).unwrap_or_else(|| paged::solve(items, rate))
}

/// The rate that a layer is sized for when `error_rate` is asked for. Layers of the same capacity and the same such rate
/// have the same size.
#[must_use]
pub fn sized_rate(error_rate: f64) -> f64 {
    let rate = if error_rate.is_nan() { LAYER_ERROR_RATE_MIN } else { error_rate };
    rate.clamp(LAYER_ERROR_RATE_MIN, RATE_MAX)
}

/// Largest error rate a layer is sized for; above it the logarithm of the rate loses its meaning in rounding.
const RATE_MAX: f64 = 1.0 - 1.0 / (1u64 << 20) as f64;

/// Numbers of probes among which the smallest layer for `rate` is found: the best one is `log2(1/rate)` for an ideal
/// array (Bloom, 1970), up to two fewer for unevenly loaded lines.
fn probe_candidates(rate: f64, probes_max: u32) -> std::ops::RangeInclusive<u32> {
    let ideal = truncate(-libm::log2(rate));
    let ideal = u32::try_from(ideal).unwrap_or(u32::MAX).min(probes_max);
    ideal.saturating_sub(2).max(1)..=(ideal + 1).min(probes_max)
}

/// How many items a filter counts, in units of `bits / probes`, when the share `fill` of its bits is set.
///
/// The items an ideal filter meets are `-ln(1 - fill)` of these units, but it counts only those it takes for new.
/// After `t` met items it takes the share `(1 - e^-t)^probes` of the next for present already; the integral of the
/// rest is the sum of `fill^i / i` for i from 1 to `probes`, the logarithm's series cut short.
fn counted_items(fill: f64, probes: u32) -> f64 {
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
fn truncate(value: f64) -> u64 {
    value as u64
}
