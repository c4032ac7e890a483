//! What reserving a filter would take.

use super::facts::Reservation;
use crate::bloom::Family;

/// Of the filter that `family` makes, in the words of BF.RESERVE; `options` are those that say its kind.
/// Nothing where there can be none. O(1).
pub(super) fn reservation_of<F: Family>(
    family: &F,
    error_rate: f64,
    capacity_items: u64,
    options: &str,
) -> Option<Reservation> {
    let plan = family.next_layer(&[]).ok()?;
    let words = format!("{error_rate} {capacity_items}{options}");
    Some(Reservation { words, size_bytes: plan.size_bits.div_ceil(8) })
}
