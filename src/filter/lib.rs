//! The filters: hashes, bits, the table, and filters of both. They do no I/O and do not depend on a server.
//!
//! A [`Filter`] has [bits], a [table], or both, and a [policy](filter::policy). Neither structure knows the other.
#![forbid(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!(
    "everbloom stores bit arrays as little-endian words and views them in place: big-endian hosts are not supported"
);

pub mod bits;
pub mod cuckoo;
pub mod encoding;
pub mod filter;
pub mod generation;
mod group;
pub mod growth_budget;
pub mod hash;
pub mod limits;
pub mod memory;
mod number;
pub mod outcome;
pub mod prefetch;
pub mod table;
pub mod words;
pub mod work;

pub use bits::{BitArray, BitsStats, Layer, LayerSpec, Layout, Placement};
pub use filter::dumps::DumpId;
pub use filter::kind::{Format, Kind};
pub use filter::lookup::ItemSource;
pub use filter::policy::{Growth, PartSpec, Policy, Promise, Rules, Window};
pub use filter::repeat::{AddLog, AddPlace, Log, RepeatError};
pub use filter::size::{Footprint, ScaleError};
pub use filter::stats::FilterStats;
pub use filter::{Filter, FilterCounts, FilterSpec, Validation};
pub use group::{GROUP_ITEMS, ItemSet};
pub use growth_budget::GrowthBudget;
pub use hash::{Hash, ItemHash};
pub use memory::{BlockMover, BlockVisitor, Blocks, Memory, OutOfMemory, UnknownMemory, try_collect};
pub use outcome::{AddError, AddOutcomes, Added, ByteLimit, Limit, LimitSource, ReserveError};
pub use prefetch::Prefetch;
pub use table::{EntryKind, Table, TableSpec, TableStats};
