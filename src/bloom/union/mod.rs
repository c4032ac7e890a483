//! Filters united: layers of every kind in one filter, which answers yes for whatever any of them does.
//!
//! An item cannot be hashed anew once it is in a filter, so each layer goes on by the hash and the positions of the
//! filter that it came from.

mod alike;
mod facts;
mod family;
mod filter;
mod layers;
mod merge;
mod outcome;
mod placement;

pub use facts::{Holding, View};
pub use family::{Union, Unitable};
pub use layers::{Gained, LastLayer};
pub use merge::{Merge, set_in};
pub use outcome::{Destination, MergeError, Merged, Order};
pub use placement::{UnionDigest, UnionPlacement};
