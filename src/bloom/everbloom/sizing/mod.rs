//! How large a layer must be to keep its error rate.
//!
//! The textbook size, `-n ln p / ln(2)^2`, does not keep it: it ignores that the fill of a small array
//! varies, that the pages and lines of a paged one are not equally loaded, and that every item a filter
//! counts was new to it, so that the false positives met while filling make room for further items. The
//! modules `scattered` and `paged` account for all of it; tests/sizing.rs and tests/accuracy.rs prove it.
//!
//! Every function here is made of IEEE 754 arithmetic, square roots included, and of the portable `exp` and
//! `log` of the libm crate, whose results, unlike those of the C library, are the same bits on every machine:
//! a replica builds the very same layer.

mod choice;
mod load;
mod now;
mod page_load;
mod paged;
mod rate;
mod scattered;
mod size;

pub use choice::size_for;
pub use load::{full_bits, full_items, full_rate, full_rate_anywhere, items_of};
pub use now::{error_rate_now, items_met};
pub use rate::sized_rate;
pub use size::Size;
