//! Filters that forget: items are remembered for a window of time after their last add.
//!
//! Bit-sliced generations: one array with a word of sixteen bits for every position, one bit column for each
//! generation of a fourteenth of the window. An add sets the current column in the words of the item; who asks takes
//! what all of its words have in common and masks the columns that are live: as many accesses to memory as a filter
//! without generations, whatever their number.

mod adding;
mod clock;
mod columns;
mod family;
mod pace;
mod parameters;
mod placement;
mod reading;
mod rules;
mod segments;
mod shape;
mod sizing;
mod timed;

pub use clock::{COLUMNS_LEN, Generation, LIVE_GENERATIONS, Span, WINDOW_GENERATIONS, is_live};
pub use columns::{Columns, History, ONE_PAGE_MAX_WORDS, STAMPED_PAGE_WORDS, WORD_POSITIONS};
pub use parameters::{Moment, MomentError, TimedHash, Window};
pub use placement::WindowProbing;
pub use shape::{ColumnRate, WindowShape};
