//! How large a layer must be to keep its error rate.
//!
//! The textbook size, `-n ln p / ln(2)^2`, does not keep it: it ignores that the fill of a small layer
//! varies, that the pages and lines of a paged one are not equally loaded, and that every item a filter
//! counts was new to it, so that the false positives met while filling leave capacity for further items. The
//! models `scattered` and `page` account for all of it; tests/sizing.rs and tests/accuracy.rs prove it.
//!
//! Every function here is made of IEEE 754 arithmetic, square roots included, and of the portable `exp` and
//! `log` of the libm crate, whose results, unlike those of the C library, are the same bits on every machine:
//! a replica builds the very same layer.

mod counted;
mod demand;
mod fill;
mod page;
mod paged;
mod scattered;
mod shape;

pub use demand::{column_items, sized_rate};
pub use fill::{error_rate_now, expected_cells, full_rate, full_rate_anywhere, items_met, rate_of};
pub use shape::Shape;

/// Returns `value` without its fraction; 0 for negative values.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is wanted"
)]
pub(super) const fn truncate(value: f64) -> u64 {
    value as u64
}
