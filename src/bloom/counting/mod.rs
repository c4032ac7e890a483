//! Filters that items can be deleted from: everbloom's own hash, sizes and positions, with a counter for every position.

mod counters;
mod family;
mod line;
mod placement;
mod removal;
mod scale;

pub use counters::Counters;
pub use family::Counting;
pub use line::{COUNT_FULL, COUNTER_BITS, LINE_POSITIONS};
pub use placement::CountedProbing;
