//! Bloom bits: layers of bits, and the positions of items in them.

mod array;
mod dispatch;
pub(in crate::bloom) mod engine;
pub mod layer;
pub mod layout;
pub mod occupancy;
pub mod sizing;
mod stats;

pub use array::{BitArray, HEAD_BYTES, PAGE_BYTES, is_clear};
pub use layer::{Layer, LayerSpec};
pub use layout::{Layout, PAGE_WORDS, Placement};
pub use sizing::estimate;
pub use stats::BitsStats;
