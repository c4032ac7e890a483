//! The filter: bits, a table, and a policy.
//!
//! To read this module, follow a command:
//!
//! * Every command: [`state`] has the filter, [`parts`] its layers and its table; [`hashed`] hashes the items once for
//!   all of them; [`size`] checks limits. The [`policy`] says which parts a filter gets and when it refuses items, and
//!   knows no filter.
//! * An add: [`add`] has the rules, for one item and for groups. In a sliding window, [`clock`] sets the time first.
//! * A copy that follows a filter: [`repeat`] repeats its adds.
//! * A lookup: [`lookup`]. A deletion: [`add`] too.
//! * BF.MERGE: [`merge`] plans for all sources, then changes the filter.
//! * A save or a dump: `format` reads the parts; [`dumps`] says which chunks belong together.
//! * A load of chunks: [`loading`], for filters with a table.
//! * Defragmentation and MEMORY USAGE: [`blocks`] moves or visits the blocks of the allocator.
//! * BF.INFO, BF.STATS: [`kind`] names what the filter is, [`stats`] computes the numbers.

mod add;
mod blocks;
mod clock;
mod dump_state;
pub mod dumps;
mod hashed;
pub mod kind;
pub mod loading;
pub mod lookup;
pub mod merge;
mod parts;
pub mod policy;
pub mod repeat;
pub mod size;
mod state;
pub mod stats;

pub use state::{Filter, FilterCounts, FilterSpec, Validation};
