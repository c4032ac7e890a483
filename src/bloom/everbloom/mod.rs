//! everbloom's own filters: hash, positions, sizes, growth.

pub mod family;
pub mod hash;
pub mod layout;
mod paged;
pub mod probing;
mod scale;
pub mod sizing;

pub use family::Everbloom;
pub use hash::{ItemHash, hash128};
pub use layout::Layout;
pub use probing::{LayerShape, Probing};
