//! Writes the seeds of every target to the given directory, as `corpus/<target>/seed-<number>`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::panic,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "as the tests; what fails ends it"
)]

#[path = "src/mod.rs"]
mod fuzz;
mod seeds;
#[path = "../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;

fn main() {
    let corpus = PathBuf::from(std::env::args().nth(1).expect("the directory of the corpus"));
    for (target, seeds) in seeds::seeds() {
        let directory = corpus.join(target);
        std::fs::create_dir_all(&directory).unwrap();
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{number:03}")), seed).unwrap();
        }
    }
}
