//! The policy of sliding windows: items are live for a window of time after they were last added.
//!
//! Bit-sliced generations: the cells are columns, one bit for each generation of a fourteenth of the window. An add sets the
//! column of the current generation at the item's positions; a lookup takes what all of its positions have in common and
//! masks the columns that are live: as many accesses to memory as without generations, whatever their number.

mod clock;
mod pace;
mod policy;
mod rate;
mod state;

pub use clock::{
    COLUMNS, COLUMNS_LEN, Generation, LIVE_GENERATIONS, Moment, Span, WINDOW_GENERATIONS, column_of,
    columns_between, columns_up_to, is_live, live_columns,
};
pub use pace::shapes_at_pace;
pub(super) use policy::ADDRESS_MAX;
pub use policy::{MomentError, Window};
pub use rate::ColumnRate;
pub(super) use state::history;
pub use state::{live_items, live_rate};
