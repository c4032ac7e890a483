//! Filters that items can be deleted from: everbloom's own hash, sizes and positions, with a counter for every position.

mod counters;
mod family;
mod placement;
mod removal;
mod scale;

pub use counters::{COUNT_FULL, COUNTER_BITS, Counters, LINE_POSITIONS};
pub use family::Counting;
pub use placement::CountedProbing;
