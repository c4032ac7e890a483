//! Helpers that several tests share: filters of every kind, servers and snapshots in memory, random numbers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::panic,
    clippy::print_stdout,
    clippy::big_endian_bytes,
    clippy::new_without_default,
    clippy::should_implement_trait,
    missing_docs,
    reason = "tests fail by panicking"
)]

#[path = "../../src/module/cgroup.rs"]
pub mod cgroup;
pub mod dialogues;
pub mod fixtures;
#[path = "../../fuzz/src/mod.rs"]
pub mod fuzz;
pub mod hostile;
pub mod keyspace;
pub mod make;
pub mod processors;
pub mod rdb;
#[path = "../../src/module/reserved.rs"]
pub mod reserved;
pub mod saved;
pub mod server;
pub mod work;
pub mod world;

use everbloom_filter::BlockMover;
pub use rdb::{Field, Record};

/// The directory of the repository.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns `full` if the environment says `EVERBLOOM_TESTS=full`, as `make exhaust` does, or else `quick`. Only for tests
/// that take seconds, and find the same faults with less precision.
pub fn effort<T>(quick: T, full: T) -> T {
    if std::env::var("EVERBLOOM_TESTS").is_ok_and(|value| value == "full") { full } else { quick }
}

/// Returns the items of a batch as arguments.
pub fn slices<T: AsRef<[u8]>>(items: &[T]) -> Vec<&[u8]> {
    items.iter().map(AsRef::as_ref).collect()
}

/// Random numbers that are the same in every run: SplitMix64 (Steele, Lea and Flood, 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns one of `choices`.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Returns a number between two limits. All magnitudes are equally likely.
    pub fn magnitude(&mut self, from: f64, to: f64) -> f64 {
        let share = self.next() as f64 / u64::MAX as f64;
        (from.ln() + share * (to.ln() - from.ln())).exp()
    }
}

/// Moves every vector.
pub struct Moves;

impl BlockMover for Moves {
    fn move_vec<T>(&self, values: &mut Vec<T>) {
        let mut moved = Vec::with_capacity(values.len());
        moved.append(values);
        *values = moved;
    }

    fn move_box<T>(&self, _: &mut Box<T>) {}
}
