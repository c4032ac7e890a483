//! All tests that need no server: the filters, their bytes, the commands with the tests' keyspace, the fuzz targets
//! with their seeds, the documents and the packaging. They are one program, because linking two dozen takes longer than
//! running them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::panic,
    clippy::big_endian_bytes,
    clippy::print_stderr,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "a test fails by panicking; files that several tests share are used in part"
)]

mod allocations;
mod batch;
mod callbacks;
mod carried;
mod cgroup;
mod chunks;
mod commands;
mod docs;
mod following;
mod fuzzed;
mod growth;
mod hashing;
mod library;
mod oracles;
#[cfg(unix)]
mod packaging;
mod record;
mod recorded;
mod redisbloom;
mod reserved;
mod schemes;
mod sharing;
mod valkeybloom;

use everbloom_test_support as support;

#[global_allocator]
static ALLOCATOR: allocations::Watched = allocations::Watched;
