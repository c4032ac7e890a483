//! The tests that compute most: error rates, sizes and tables. They need no server. They are optimized, because without they
//! would take ten times as long.
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

mod accuracy;
mod redisbloom;
mod sizing;
mod stats;
mod table;
mod window;

use everbloom_test_support as support;
