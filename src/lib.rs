//! everbloom: Bloom filters as a native data type for Redis and Valkey.
//!
//! Four rooms, each importing only those above it:
//!
//! * [`bloom`], the mathematics: bits, hashes, positions, sizes, growth. No bytes on disk, no server.
//! * [`mod@format`], the bytes: how a filter is written down and read back.
//! * [`command`], the language: what each `BF.*` command means; arguments in, replies and effects out.
//! * `redis`, the host (feature `server`): the only code that knows the module API, and that has unsafe code but for one line.
//!
//! The first three have no clock, no randomness, no globals and no log, and forbid unsafe code. Beside them, `prefetch`
//! (feature `prefetch`) is the one instruction of the processor that large filters are fast by.

#[cfg(target_endian = "big")]
compile_error!(
    "everbloom stores bit arrays as little-endian words and views them in place: big-endian hosts are not supported"
);

pub mod bloom;
pub mod command;
pub mod format;
#[cfg(feature = "prefetch")]
pub mod prefetch;
#[cfg(feature = "server")]
mod redis;
