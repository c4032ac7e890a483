//! everbloom: Bloom filters as a native data type for Redis and Valkey, and as a library.
//!
//! The type of the library is [`BloomFilter`]. A program creates a filter, or reads one from a server in every format
//! that the module supports: its own, RedisBloom's, valkey-bloom's, and those of clients that keep bitmaps in strings.
//!
//! ```
//! use everbloom::{BloomFilter, Options};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut visited = BloomFilter::new(Options { error_rate: 0.001, capacity_items: 10_000, ..Options::default() })?;
//! assert!(visited.add(b"alice")?);
//! assert!(visited.contains(b"alice"));
//! assert!(visited.add_many(&[b"alice", b"bob"])[1].is_ok());
//! # Ok(())
//! # }
//! ```
//!
//! Continue with [`BloomFilter`] and its [`Options`]; [`Loader`], which builds a filter from the chunks of
//! BF.SCANDUMP; and [`Format`], the data format of a filter. README.md and docs/ in the sources describe the
//! commands, settings and packages of the module.
#![forbid(unsafe_code)]

mod bloom_filter;
mod clock;
mod follower;
mod item_time;
#[cfg(feature = "near")]
mod near;
mod near_copy;
mod options;
mod sizes;

pub use bloom_filter::{BloomFilter, Chunks, LayerStats, Loader};
pub use follower::{CommandReply, FilterCopy, FollowError, FollowProgress, Follower};
pub use item_time::{ItemLife, ItemTime, WithinError};
#[cfg(feature = "near")]
pub use near::{NearError, NearFilter, NearOptions, NearStats, WhenStale};
pub use near_copy::{NearCopy, NearLookup, NearProgress};
pub use options::{CreateError, Options};
pub use sizes::{FilterSize, LayerSize, counting_size, filter_size, window_size, window_size_with_steps};

pub use everbloom_filter::generation::Steps;
pub use everbloom_filter::{
    AddError, Format, Growth, Limit, LimitSource, OutOfMemory, RepeatError, ReserveError,
};
pub use everbloom_format::changes::BadRecord;
pub use everbloom_format::chunks::{ChunkError, DumpError};
pub use everbloom_format::payload::{DumpField, DumpFields};
pub use everbloom_format::{DecodeError, Sink, Source, UnsignedOrBytes};
