//! Bloom bits: layers of bits, and the positions of items in them.

mod array;
pub(in crate::bloom) mod engine;
pub mod estimate;
mod layer;
pub mod layout;
mod occupancy;
mod partition;
mod placement;
pub(in crate::bloom) mod probe;
pub mod sizing;
mod stats;
mod unite;
mod validate;

pub use array::{BitArray, HEAD_BYTES, PAGE_BYTES, PAGE_WORDS, is_clear};
pub use layer::{Layer, LayerCounts, LayerSpec};
pub use occupancy::Occupancy;
pub use partition::{PagePart, PartAdded, Partition};
pub use placement::{Layout, Placement};
pub use stats::LayerStats;
