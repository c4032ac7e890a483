//! MATHEMATICS: bits, hashes, positions, sizes, growth. Knows no bytes on disk and no server.
#![forbid(unsafe_code)]

pub mod batch;
pub mod bits;
pub mod blocks;
pub mod chain;
pub mod client;
pub mod everbloom;
pub mod extent;
pub mod family;
pub mod filter;
mod group;
pub mod growth;
pub mod layer;
pub mod limits;
pub mod mark;
pub mod memory;
pub mod modulus;
pub mod occupancy;
pub mod outcome;
pub mod placement;
pub mod prefetch;
pub mod redisbloom;
pub mod scale;
pub mod valkeybloom;

pub use bits::{Bits, OutOfMemory};
pub use blocks::{BlockMover, BlockVisitor};
pub use chain::Chain;
pub use client::Client;
pub use everbloom::{Everbloom, ItemHash, LayerShape, Layout, Probing, hash128};
pub use extent::Extent;
pub use family::Family;
pub use filter::{Blueprint, Filter, Format};
pub use group::ItemSet;
pub use growth::Growth;
pub use layer::{Layer, LayerCounts};
pub use mark::{Origin, StateMark};
pub use memory::{Memory, UnknownMemory};
pub use occupancy::Occupancy;
pub use outcome::{AddError, Added, ByteLimit, ReserveError};
pub use placement::{LayerPlan, Placement, Positions};
pub use prefetch::{NoPrefetch, Part, Prefetch};
pub use redisbloom::RedisBloom;
pub use scale::ScaleError;
pub use valkeybloom::ValkeyBloom;
