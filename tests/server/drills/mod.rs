//! Drills: random faults and load, and invariants that must always hold. As tests they take seconds and are the same
//! in every run. `make soak MINUTES=n` runs each drill for its share of the time with another seed.
//!
//! Each drill appends a row with its numbers to the file that SOAK_TABLE names.

mod cluster;
mod crash;
mod defrag;
mod latency;
mod memory;
mod replicas;
mod smoke;
mod wire;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis::Value;

use crate::harness::{Client, Site, Test, numbered, show};
use crate::support::Random;
use crate::support::fuzz::{input, words};

pub(crate) const SUBJECTS: &[(&str, &[Test])] = &[
    ("drill-wire", wire::TESTS),
    ("drill-crash", crash::TESTS),
    ("drill-replicas", replicas::TESTS),
    ("drill-cluster", cluster::TESTS),
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
    /// Prints how to reproduce a failure. Without one, writes the numbers of the drill to the table.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} failed in round {}; SOAK_SEED={}", self.name, self.rounds, self.seed);
        } else {
            self.write_row(self.name, &self.figures);
        }
    }
}

/// Sets the flag when it is dropped, so that a load stops even if something fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
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

/// Filters of every kind: keys, and the options that create them. Most are small, so that they grow.
const FILTERS: [(&str, &str); 10] = [
    ("unreserved", "ERROR 0.001"),
    ("own", "CAPACITY 50 ERROR 0.001"),
    ("fixed", "CAPACITY 200000 NONSCALING"),
    ("saturating", "CAPACITY 300 NONSCALING SATURATE"),
    ("keyed", "CAPACITY 50 KEYED"),
    ("counting", "CAPACITY 50 ERROR 0.0001 COUNTING"),
    ("redis", "CAPACITY 50 FORMAT redisbloom"),
    ("valkey", "CAPACITY 50 FORMAT valkey-bloom"),
    ("window", "CAPACITY 5000 WINDOW 86400"),
    ("large", "CAPACITY 3000000"),
];

/// The items that must be in the filters of one client, which adds and deletes them.
#[derive(Default)]
struct Truth {
    /// The prefix of the client's keys.
    prefix: String,
    /// The items by key, in the order in which their adds were acknowledged.
    items: HashMap<String, Vec<String>>,
    next: u64,
}

impl Truth {
    fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..Self::default() }
    }

    /// Creates the filters that do not exist.
    fn make(&self, client: &mut Client) {
        for (key, creation) in FILTERS {
            let key = self.key(key);
            let line = format!("BF.INSERT {key} {creation} ITEMS made");
            // A server that evicts may lack memory until another thread has freed it.
            let until = Instant::now() + Duration::from_secs(5);
            let mut reply = client.say(&line);
            while reply.starts_with("-OOM") && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
                reply = client.say(&line);
            }
            // If the filter was evicted, an add may have created a filter of the default kind under its key.
            let is_there = reply.starts_with('[') || reply.contains(" differs from the existing filter");
            assert!(is_there, "{key}: {reply}");
        }
        let import =
            format!("BF.IMPORT {} EMPTY SCHEME murmur3-salted BITS 4000 HASHES 5", self.key("client"));
        client.say(&import);
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Sends one command that changes a filter, and updates the expected items from its reply. Returns false if the
    /// connection is lost; the command may or may not have run then.
    fn step(&mut self, client: &mut Client, random: &mut Random) -> bool {
        let name = FILTERS[random.below(FILTERS.len())].0;
        let key = self.key(name);
        if name == "counting" && random.below(4) == 0 {
            return self.delete(client, &key, random);
        }
        let items = numbered(&self.next.to_string(), 0..1 + random.below(20));
        self.next += 1;
        let words: Vec<&str> =
            ["BF.MADD", &key].into_iter().chain(items.iter().map(String::as_str)).collect();
        let Ok(reply) = client.try_call(&words) else { return false };
        let Value::Array(replies) = reply else {
            // No item was added: the server is loading, cannot save, is out of memory, or redirects to another node.
            assert!(
                ["-LOADING", "-MOVED", "-ASK", "-MISCONF", "-TRYAGAIN", "-OOM"]
                    .iter()
                    .any(|word| show(&reply).starts_with(word)),
                "{}",
                show(&reply)
            );
            return true;
        };
        let known = self.items.entry(key).or_default();
        for (item, reply) in items.into_iter().zip(replies) {
            if matches!(reply, Value::Int(_) | Value::Boolean(_)) {
                known.push(item);
            }
        }
        true
    }

    fn delete(&mut self, client: &mut Client, key: &str, random: &mut Random) -> bool {
        let Some(known) = self.items.get_mut(key).filter(|known| !known.is_empty()) else { return true };
        // From here on the state of the item is unknown, whether the command is acknowledged or not.
        let item = known.swap_remove(random.below(known.len()));
        client.try_call(&["BF.DEL", key, &item]).is_ok()
    }

    /// Returns the expected items that are missing.
    fn missing(&self, client: &mut Client) -> Vec<String> {
        let mut missing = Vec::new();
        for (key, items) in &self.items {
            for items in items.chunks(500) {
                let replies = client.many(&format!("BF.MEXISTS {key}"), items);
                let absent = items.iter().zip(replies).filter(|(_, reply)| *reply != Value::Int(1));
                missing.extend(absent.map(|(item, _)| format!("{key} {item}")));
            }
        }
        missing
    }

    fn count(&self) -> u64 {
        self.items.values().map(|items| items.len() as u64).sum()
    }
}
