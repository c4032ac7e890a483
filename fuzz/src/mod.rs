//! Runs the fuzz targets on given bytes. A target fails with a panic.
//!
//! Every target is a function `run(data)` in a file of its own. cargo-fuzz calls it with the inputs of libFuzzer, and
//! tests/pure/fuzzed with the seeds and with altered seeds. A new decoder, kind of filter or argument of packed bytes
//! needs code in a target, or a new target: a file here, a row in fuzz/Cargo.toml, and a row in [`TARGETS`].
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
mod cuckoo;
mod exercise;
pub mod forge;
mod grammar;
pub mod input;
mod merges;
mod packed;
pub mod read;
pub mod snapshot;
mod table;
mod windows;
pub mod words;

/// A target: its name and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 11] = [
    ("snapshot", snapshot::run),
    ("chunks", chunks::run),
    ("blob", snapshot::run_blob),
    ("client", client::run),
    ("grammar", grammar::run),
    ("commands", commands::run),
    ("cuckoo", cuckoo::run),
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
