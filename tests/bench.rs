//! The parts of the benchmark that can be wrong without a server: what it sends, how it counts, how it reports.

#[path = "../benches/server/main.rs"]
#[allow(dead_code, reason = "only `make bench` measures")]
mod bench;
