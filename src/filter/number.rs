//! Whole numbers from doubles.

/// Returns `value` without its fraction; 0 for negative values and NaN, `u64::MAX` for too large ones.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is wanted"
)]
pub(super) const fn truncate(value: f64) -> u64 {
    value as u64
}

/// Returns the nearest whole number; 0 for a negative one.
pub(super) fn whole(value: f64) -> u64 {
    truncate(value.round())
}
