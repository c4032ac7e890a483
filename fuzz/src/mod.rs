//! Runs the fuzz targets on given bytes. A target fails with a panic.
//!
//! Every target is one function `run(data)` over bytes, in its own file. cargo-fuzz calls it with the inputs of
//! libFuzzer; tests/pure/fuzzed calls it with the seeds and with altered seeds. A new decoder, kind or argument of
//! packed bytes needs an arm in a target, or its own target: a file here, a row in Cargo.toml and in [`TARGETS`].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::panic,
    clippy::big_endian_bytes,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "a finding is a panic; shared with tests that use a part"
)]

mod chunks;
mod client;
mod commands;
mod exercise;
pub(crate) mod forge;
mod grammar;
mod input;
mod merges;
mod model;
mod packed;
pub(crate) mod snapshot;
mod table;
mod windows;
mod words;

/// A target: its name and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 10] = [
    ("snapshot", snapshot::run),
    ("chunks", chunks::run),
    ("blob", snapshot::run_blob),
    ("client", client::run),
    ("grammar", grammar::run),
    ("commands", commands::run),
    ("merges", merges::run),
    ("packed", packed::run),
    ("windows", windows::run),
    ("table", table::run),
];

/// Runs the target with a name.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(target, _)| *target == name).unwrap();
    target(data);
}
