//! MATHEMATICS: bits, hashes, positions, sizes, growth. Knows no bytes on disk and no server.
//!
//! Every kind of filter has a folder; what all of them share lies beside the folders and names none of them,
//! but for [`filter`] and [`blueprint`], the places that know every kind.
#![forbid(unsafe_code)]

#[cfg_attr(baseline, path = "../../benches/baseline/batch.rs")]
pub mod batch;
pub mod bits;
pub mod blocks;
pub mod blueprint;
pub mod budget;
pub mod chain;
pub mod client;
pub mod counting;
pub mod encoding;
pub mod estimate;
pub mod everbloom;
pub mod extent;
pub mod family;
pub mod filter;
pub mod format;
mod group;
mod grow;
pub mod growth;
pub mod items;
pub mod keyed;
pub mod kind;
pub mod layer;
pub mod limits;
mod many;
pub mod mark;
pub mod memory;
#[cfg_attr(baseline, path = "../../benches/baseline/modulus.rs")]
pub mod modulus;
pub mod occupancy;
pub mod outcome;
pub mod placement;
pub mod prefetch;
pub mod reading;
pub mod redisbloom;
mod run;
pub mod scale;
pub mod storage;
pub mod union;
pub mod validate;
pub mod valkeybloom;
pub mod window;

pub use bits::Bits;
pub use blocks::{BlockMover, BlockVisitor};
pub use blueprint::Blueprint;
pub use budget::Budget;
pub use client::Client;
pub use counting::Counting;
pub use encoding::{ItemEncoding, NotEncodable};
pub use everbloom::{Everbloom, ItemHash, LayerShape, Layout, Probing, hash128};
pub use extent::Extent;
pub use family::{BitFamily, Family};
pub use filter::Filter;
pub use format::Format;
pub use group::{GROUP_ITEMS, ItemSet};
pub use growth::Growth;
pub use items::Items;
pub use keyed::Keyed;
pub use kind::Kind;
pub use layer::LayerCounts;
pub use mark::{Origin, StateMark};
pub use memory::{Memory, OutOfMemory, UnknownMemory};
pub use occupancy::Occupancy;
pub use outcome::{AddError, Added, ByteLimit, ReserveError};
pub use placement::{LayerPlan, Placement, Positions, Probes};
pub use prefetch::{NoPrefetch, Part, Prefetch};
pub use reading::{FilterReading, LayerReading};
pub use redisbloom::RedisBloom;
pub use run::Run;
pub use scale::ScaleError;
pub use storage::{Segment, Storage};
pub use union::Union;
pub use validate::Depth;
pub use valkeybloom::ValkeyBloom;
pub use window::Window;

/// A filter, of everbloom's own kind where no other is named.
pub type Chain<F = Everbloom> = chain::Chain<F>;
/// A layer, of everbloom's own kind where no other is named.
pub type Layer<P = Probing> = layer::Layer<P>;
