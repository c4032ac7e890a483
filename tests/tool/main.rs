//! Tests the binary of the command-line tool on real servers with the module loaded.
//!
//! Uses the harness of tests/server, which finds the servers and the module. Every test runs once for each server.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]

mod checking;
mod connecting;
mod copying;
mod docs;
#[path = "../server/harness/mod.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the tests of the module, which use all of it")]
mod harness;
mod interrupting;
mod loading;
mod partitions;
mod permissions;
mod sizes;
mod times;
mod tool;

use std::process::ExitCode;

use harness::Test;

/// The tests of all files.
const SUBJECTS: &[(&str, &[Test])] = &[
    ("loading", loading::TESTS),
    ("times", times::TESTS),
    ("connecting", connecting::TESTS),
    ("partitions", partitions::TESTS),
    ("permissions", permissions::TESTS),
    ("interrupting", interrupting::TESTS),
    ("copying", copying::TESTS),
    ("checking", checking::TESTS),
    ("sizes", sizes::TESTS),
    ("docs", docs::TESTS),
];

fn main() -> ExitCode {
    harness::run_all(SUBJECTS.iter(), |_| Vec::new())
}
