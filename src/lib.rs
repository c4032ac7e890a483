//! everbloom: Bloom filters as a native data type for Redis and Valkey, and as a library.
//!
//! The type of the library is [`BloomFilter`]. A program creates a filter, or reads one from a server in every format
//! that the module supports: its own, RedisBloom's, valkey-bloom's, and those of clients that keep bitmaps in strings.
//! Depend on this crate without its default features, which are for the module:
//! `default-features = false, features = ["prefetch"]`.
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
//!
//! The code has four modules. Each imports only modules above it in this list; docs/architecture.md is the map:
//!
//! * `bloom`, the filters: hashing, bits, the expandable table, sizes, growth. No I/O, no server.
//! * `format`, serialization: how a filter is written and read.
//! * `command`, the `BF.*` and `CF.*` commands: arguments in, replies and effects out.
//! * `redis`, the adapter to the server (feature `server`): the only code that uses the module API, and the only
//!   unsafe code besides the processor's instructions in `prefetch`.
//!
//! `bloom`, `format` and `command` have no clock, no randomness, no globals and no log, and forbid unsafe code.

#[cfg(target_endian = "big")]
compile_error!(
    "everbloom stores bit arrays as little-endian words and views them in place: big-endian hosts are not supported"
);

// The feature `internals` opens the modules to the tests and benchmarks of this repository. Other programs use only the
// items that are exported below.
#[cfg(not(feature = "internals"))]
#[cfg_attr(not(feature = "server"), allow(dead_code, unused_imports, reason = "the module uses the rest"))]
mod bloom;
#[cfg(feature = "internals")]
pub mod bloom;
#[cfg(all(feature = "server", not(feature = "internals")))]
mod command;
#[cfg(feature = "internals")]
pub mod command;
#[cfg(not(feature = "internals"))]
#[cfg_attr(not(feature = "server"), allow(dead_code, unused_imports, reason = "the module uses the rest"))]
mod format;
#[cfg(feature = "internals")]
pub mod format;
#[cfg(all(any(feature = "prefetch", test), not(feature = "internals")))]
#[cfg_attr(not(feature = "prefetch"), expect(dead_code, reason = "its unit tests need no feature"))]
mod prefetch;
#[cfg(all(any(feature = "prefetch", test), feature = "internals"))]
pub mod prefetch;

mod library;
#[cfg(feature = "server")]
mod redis;

pub use bloom::generation::Steps;
pub use bloom::{AddError, Format, Growth, Limit, LimitSource, OutOfMemory, RepeatError, ReserveError};
pub use format::changes::BadRecord;
pub use format::chunks::{ChunkError, DumpError};
pub use format::payload::{DumpField, DumpFields};
pub use format::{DecodeError, Sink, Source, UnsignedOrBytes};
pub use library::follower::{CommandReply, FilterCopy, FollowError, FollowProgress, Follower};
#[cfg(feature = "near")]
pub use library::near::{NearError, NearFilter, NearOptions, NearStats, WhenStale};
pub use library::{
    BloomFilter, Chunks, CreateError, FilterSize, ItemLife, ItemTime, LayerSize, LayerStats, Loader, Options,
    WithinError, counting_size, filter_size, window_size, window_size_with_steps,
};
