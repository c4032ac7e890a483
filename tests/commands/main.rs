//! The language without a server: grammar, replies, and what each change asks of its host.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod expiry;
mod grammar;
mod guards;
mod import;
mod kinds;
mod replication;
mod replies;
mod server;
mod statistics;
