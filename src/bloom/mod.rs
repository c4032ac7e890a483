//! MATHEMATICS: bits, hashes, positions, sizes, growth. Knows no bytes on disk and no server.
#![forbid(unsafe_code)]

pub mod batch;
pub mod bits;
pub mod chain;
pub mod extent;
pub mod family;
pub mod filter;
mod group;
pub mod growth;
pub mod hash;
pub mod imported;
pub mod layer;
pub mod layout;
pub mod limits;
pub mod mark;
pub mod memory;
pub mod modulus;
pub mod occupancy;
mod paged;
pub mod prefetch;
pub mod redisbloom;
pub mod scale;
pub mod scheme;
pub mod sizing;
pub mod valkeybloom;

pub use bits::{Bits, OutOfMemory};
pub use chain::{AddError, Added, ByteLimit, Chain, ChainParameters, ReserveError};
pub use extent::Extent;
pub use family::{Family, LayerPlan, Placement, Positions};
pub use filter::{Blueprint, ChainVisitor, Filter, Format};
pub use group::ItemSet;
pub use growth::Growth;
pub use hash::{ItemHash, hash128};
pub use imported::Imported;
pub use layer::{Layer, LayerCounts, LayerShape, Probing};
pub use layout::Layout;
pub use mark::{Origin, StateMark};
pub use memory::{Memory, UnknownMemory};
pub use occupancy::Occupancy;
pub use prefetch::{NoPrefetch, Part, Prefetch};
pub use redisbloom::RedisBloom;
pub use scale::ScaleError;
