//! Drills: random faults and load, and invariants that must always hold. As tests they take seconds and are the same
//! in every run. `make soak MINUTES=n` runs each drill for its share of the time with another seed.
//!
//! Each drill appends a row with its numbers to the file that SOAK_TABLE names.

mod chunks;
mod cluster;
mod crash;
mod defrag;
mod latency;
mod leak;
mod memory;
mod promise;
mod replicas;
mod smoke;
mod truth;
mod wire;

#[path = "../../../fuzz/src/input.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::cast_possible_truncation,
    reason = "shared with the fuzz targets"
)]
mod input;
#[path = "../../../fuzz/src/words.rs"]
mod words;

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::harness::{Site, Test};
use crate::support::Random;

pub(crate) const SUBJECTS: &[(&str, &[Test])] = &[
    ("drill-wire", wire::TESTS),
    ("drill-crash", crash::TESTS),
    ("drill-promise", promise::TESTS),
    ("drill-chunks", chunks::TESTS),
    ("drill-replicas", replicas::TESTS),
    ("drill-cluster", cluster::TESTS),
    ("drill-leak", leak::TESTS),
    ("drill-memory", memory::TESTS),
    ("drill-defrag", defrag::TESTS),
    ("drill-latency", latency::TESTS),
    ("smoke", smoke::TESTS),
];

/// The duration and the random numbers of a drill.
struct Drill {
    name: &'static str,
    server: String,
    seed: u64,
    random: Random,
    rounds: u64,
    most_rounds: u64,
    end: Option<Instant>,
    begin: Instant,
    figures: Vec<(&'static str, u64)>,
}

impl Drill {
    /// Returns a drill of `rounds` rounds. SOAK_SECONDS sets a duration instead, and SOAK_SEED another seed.
    fn new(name: &'static str, site: &Site, rounds: u64) -> Self {
        let number =
            |variable: &str| std::env::var(variable).ok().map(|text| text.parse::<u64>().expect("a number"));
        let seconds = number("SOAK_SECONDS");
        let seed = number("SOAK_SEED").unwrap_or(1);
        Self {
            name,
            server: site.name.clone(),
            seed,
            random: Random(seed),
            rounds: 0,
            most_rounds: rounds,
            end: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
            begin: Instant::now(),
            figures: Vec::new(),
        }
    }

    /// Returns whether there is another round. There is always a first one.
    fn goes_on(&mut self) -> bool {
        let goes_on = match self.end {
            Some(end) => self.rounds == 0 || Instant::now() < end,
            None => self.rounds < self.most_rounds,
        };
        self.rounds += u64::from(goes_on);
        goes_on
    }

    fn is_soak(&self) -> bool {
        self.end.is_some()
    }

    fn count(&mut self, what: &'static str, by: u64) {
        match self.figures.iter_mut().find(|(name, _)| *name == what) {
            Some((_, sum)) => *sum += by,
            None => self.figures.push((what, by)),
        }
    }

    fn most(&mut self, what: &'static str, value: u64) {
        match self.figures.iter_mut().find(|(name, _)| *name == what) {
            Some((_, most)) => *most = value.max(*most),
            None => self.figures.push((what, value)),
        }
    }

    /// Appends a row to the table.
    fn write_row(&self, name: &str, figures: &[(&'static str, u64)]) {
        let Some(path) = std::env::var_os("SOAK_TABLE") else { return };
        let mut row = format!(
            "{:<34} {:<14} {:>6} s {:>8} rounds",
            name,
            self.server,
            self.begin.elapsed().as_secs(),
            self.rounds
        );
        for (name, value) in figures {
            let _ = write!(row, ", {value} {name}");
        }
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        writeln!(file.expect("SOAK_TABLE"), "{row}").expect("SOAK_TABLE");
    }
}

impl Drop for Drill {
    /// Prints how to reproduce a failure, or else the numbers of the drill.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} failed in round {}; SOAK_SEED={}", self.name, self.rounds, self.seed);
        } else {
            self.write_row(self.name, &self.figures);
        }
    }
}

/// Returns the value that `per_mille` of a thousand values do not exceed; 0 if there are none. Sorts the values.
fn quantile(values: &mut [u64], per_mille: usize) -> u64 {
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    values.get((values.len() * per_mille / 1000).min(last)).copied().unwrap_or(0)
}

/// Returns random bytes for generators that read their choices from bytes.
fn choices(random: &mut Random, length: usize) -> Vec<u8> {
    (0..length.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).collect()
}
