//! The filters: hashing, layout of probes, cells, sizing, growth. They do no I/O and do not depend on a server.
//!
//! A [`Filter`] is [layers](layer) and a [policy]. Four axes vary, each in its own module: the [hash], the [layout]
//! of an item's probes, the [cells] at a position, and the policy. [`kind`] names the combinations.
#![forbid(unsafe_code)]

#[cfg_attr(baseline, path = "../../benches/baseline/add.rs")]
mod add;
#[cfg_attr(baseline, path = "../../benches/baseline/batch.rs")]
pub mod batch;
pub mod cells;
mod digest;
pub mod dump;
mod engine;
pub mod estimate;
pub mod extent;
pub mod filter;
mod group;
pub mod growth;
pub mod hash;
pub mod items;
pub mod kind;
pub mod layer;
pub mod layout;
pub mod limits;
pub mod memory;
pub mod merge;
mod one;
pub mod outcome;
pub mod partition;
pub mod placement;
pub mod policy;
pub mod prefetch;
mod probe;
mod remove;
mod room;
mod run;
pub mod sizing;
pub mod stats;
pub mod validate;
pub mod window;

pub use cells::{CellType, Cells, Occupancy};
pub use dump::{Dump, DumpId};
pub use extent::{Extent, ScaleError};
pub use filter::{Filter, Spec};
pub use group::{GROUP_ITEMS, ItemSet};
pub use growth::Growth;
pub use hash::{Hash, ItemHash};
pub use items::Items;
pub use kind::{Format, Kind};
pub use layer::{Layer, LayerCounts, LayerSpec};
pub use memory::{BlockMover, BlockVisitor, Memory, OutOfMemory, UnknownMemory};
pub use outcome::{AddError, Added, ByteLimit, Limit, LimitSource, ReserveError};
pub use placement::{Layout, Placement};
pub use policy::{Policy, Promise};
pub use prefetch::{NoPrefetch, Part, Prefetch};
pub use run::Run;
pub use stats::{FilterStats, LayerStats};
pub use validate::Depth;
pub use window::Window;
