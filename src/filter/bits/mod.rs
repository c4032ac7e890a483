//! Bloom bits: layers of bits, and the positions of items in them.

mod array;
mod dispatch;
pub(crate) mod engine;
mod head;
pub mod layer;
mod layer_stats;
pub mod layout;
pub mod occupancy;
mod pieces;
pub mod sizing;

pub use array::{BitArray, is_clear};
pub use head::{HEAD_BYTES, HEAD_VERSION};
pub use layer::{Layer, LayerSpec};
pub use layer_stats::BitsStats;
pub use layout::{Layout, PAGE_WORDS, Placement};
pub use occupancy::PAGE_BYTES;
pub use pieces::{ArrayForm, BitBytes};
pub use sizing::estimate;
