//! Helpers that several tests share: filters of every kind, snapshots in memory, random numbers.
#![allow(dead_code, missing_docs, reason = "every test uses a part of it")]

#[path = "../../src/module/cgroup.rs"]
pub mod cgroup;
pub(crate) mod dialogues;
pub mod fixtures;
pub(crate) mod keyspace;
pub mod make;
pub(crate) mod processors;
pub mod rdb;
#[path = "../../src/module/reserved.rs"]
pub mod reserved;
pub mod saved;
pub mod server;
pub(crate) mod work;
pub(crate) mod world;

// Each program says where the repository is, because their packages are in different directories.
pub(crate) use crate::ROOT;
pub use rdb::{Field, Record};

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
