//! Filters of our own whose hash is keyed: who does not know the key cannot choose items that one takes for
//! others.
//!
//! All but the hash is as in [`everbloom`](super::everbloom): placements, sizes, growth.

mod family;
mod key;

pub use family::Keyed;
pub use key::{HashKey, KEY_BYTES};
