//! Filters that clients keep in strings, held to recordings of the clients' own code.
//!
//! tests/fixtures/vectors/README.md says where the recordings come from.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::big_endian_bytes,
    reason = "tests fail by panicking, print what they measured and draw numbers"
)]

mod bitmaps;
mod filters;
mod guava;
mod long;
#[path = "../support/memory.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared; with the host room nothing here watches")]
mod memory;
mod positions;
mod properties;
mod vectors;
mod weaknesses;

// With the host room the library has an allocator of its own.
#[cfg(not(feature = "server"))]
#[global_allocator]
static ALLOCATOR: memory::Watched = memory::Watched;
