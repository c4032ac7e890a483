//! everbloom's own filters: hash, positions, sizes, growth.

pub mod family;
pub mod hash;
pub mod layout;
pub(in crate::bloom) mod page;
pub mod paged;
pub mod probing;
mod scale;
pub mod scattered;
pub mod shape;
pub mod share;
pub mod sizing;

pub use family::Everbloom;
pub use hash::{ItemHash, hash128};
pub use layout::Layout;
pub use paged::Paged;
pub use probing::Probing;
pub use scattered::Scattered;
pub use shape::LayerShape;
