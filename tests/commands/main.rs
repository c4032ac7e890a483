//! The language without a server: grammar, replies, and what each change asks of its host.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bulk;
mod chunks;
mod clear;
mod counting;
mod expiry;
mod grammar;
mod guards;
mod import;
mod keyed;
mod kinds;
mod merge;
mod promise;
mod replication;
mod replies;
mod saturation;
mod server;
mod statistics;
mod united;
mod window;

#[path = "../support/mod.rs"]
#[allow(unreachable_pub, clippy::panic, reason = "shared with other tests")]
mod support;
