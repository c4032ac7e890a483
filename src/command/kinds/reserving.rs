//! What reserving a filter would take.

use super::facts::Reservation;
use crate::bloom::{Family, Format};

/// Of the filter that `family` makes, in the words of BF.RESERVE. Nothing where there can be none. O(1).
pub(super) fn reservation_of<F: Family>(
    family: &F,
    error_rate: f64,
    capacity_items: u64,
    format: Format,
) -> Option<Reservation> {
    let plan = family.next_layer(&[]).ok()?;
    let format = match format {
        Format::Everbloom => String::new(),
        other => format!(" FORMAT {}", other.name()),
    };
    let words = format!("{error_rate} {capacity_items}{format}");
    Some(Reservation { words, size_bytes: plan.size_bits.div_ceil(8) })
}
