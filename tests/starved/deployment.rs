//! A simulated deployment: a primary and two replicas with other settings and other clocks, whose links are late, which
//! save, restart, synchronise and fail over, under refused allocations. No real server takes part.
//!
//! `DEPLOYMENT_HISTORIES=100000 cargo test -p everbloom-tests --test starved deployment` runs that many histories.
//! `DEPLOYMENT_SEED` chooses other ones.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use everbloom_command::{CuckooSettings, Settings};
use everbloom_filter::Format;
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_format::redisbloom::cuckoo;

use crate::allocator::{refuse, relent, watch};
use crate::support::saved::{loaded_value, rewritten_value, saved_value};
use crate::support::server::Server;
use crate::support::{Random, Record, slices};

/// Steps of a history.
const STEPS: usize = 50;
/// The window of filters with one.
const WINDOW_MS: u64 = 10_000;
/// The largest difference of two clocks.
const SKEW_MS: u64 = 100;
const KEYS: [&str; 4] = ["a", "b", "c", "d"];

type Call = Vec<Vec<u8>>;

/// The keys of a server, as bytes of a snapshot.
#[derive(Clone, Default)]
struct Snapshot {
    filters: BTreeMap<Vec<u8>, (Format, Record)>,
    cuckoos: BTreeMap<Vec<u8>, Record>,
    /// How much of the history it has.
    offset: usize,
}

impl Snapshot {
    fn of(server: &Server, offset: usize) -> Self {
        let filters = server
            .keys
            .iter()
            .map(|(key, value)| (key.clone(), (value.filter().format(), saved_value(value))));
        let cuckoos = server.cuckoos.iter().map(|(key, filter)| {
            let mut record = Record::default();
            cuckoo::save(filter, &mut record);
            (key.clone(), record)
        });
        Self { filters: filters.collect(), cuckoos: cuckoos.collect(), offset }
    }

    fn filters(&self) -> BTreeMap<Vec<u8>, FilterValue> {
        let load = |(key, (format, record)): (&Vec<u8>, &(Format, Record))| {
            (key.clone(), loaded_value(*format, record))
        };
        self.filters.iter().map(load).collect()
    }

    fn cuckoos(&self) -> BTreeMap<Vec<u8>, CuckooFilter> {
        let load = |record: &Record| {
            cuckoo::load(cuckoo::ENCODING_VERSION, &mut record.reader(), &u64::MAX).unwrap()
        };
        self.cuckoos.iter().map(|(key, record)| (key.clone(), load(record))).collect()
    }
}

/// A server of the deployment.
struct Node {
    server: Server,
    /// How much of the history it has. Larger than the history if the rest was lost in a failover.
    offset: usize,
    skew_ms: u64,
    snapshot: Snapshot,
}

impl Node {
    /// Loads a snapshot as a restart or a full synchronisation does.
    fn load(&mut self, snapshot: &Snapshot) {
        self.server.keys = snapshot.filters();
        self.server.cuckoos = snapshot.cuckoos();
        self.offset = snapshot.offset;
    }

    /// Runs up to `most` commands of the history that the node does not have yet.
    fn follow(&mut self, history: &[Call], most: usize) {
        for call in history.iter().skip(self.offset).take(most) {
            self.offset += 1;
            if call[0] == b"DEL" {
                self.server.keys.remove(&call[1]);
                self.server.cuckoos.remove(&call[1]);
                continue;
            }
            self.server.is_replicated = true;
            let reply = self.server.call(&slices(call));
            assert!(!reply.starts_with('-') && !reply.contains(" -ERR"), "{reply} to {call:?}");
            self.server.replicated_calls.clear();
        }
    }
}

/// Something that was acknowledged.
#[derive(Clone)]
enum Event {
    Added {
        key: usize,
        item: u64,
        at_ms: u64,
    },
    Removed {
        key: usize,
        item: u64,
    },
    /// The key was emptied, deleted or replaced.
    Ended {
        key: usize,
    },
}

struct Deployment {
    nodes: Vec<Node>,
    primary: usize,
    /// The replicated commands since the start.
    history: Vec<Call>,
    /// What was acknowledged, each with the length of the history at that time.
    events: Vec<(usize, Event)>,
    /// What a rewritten append-only file begins with.
    base: Snapshot,
    now_ms: u64,
    is_starved: bool,
}

impl Deployment {
    fn new(random: &mut Random) -> Self {
        let node = |number: usize| {
            let mut server = Server::new();
            server.settings = Settings {
                error_rate: [0.01, 0.2, 0.001][number],
                initial_size_items: [100, 5, 1000][number],
                expansion_factor: [2, 0, 4][number],
                format: Format::ALL[number],
                keyed: number == 1,
                fixed_filters_saturate: number == 2,
                cuckoo: CuckooSettings {
                    initial_size_items: [16, 4, 1024][number],
                    ..CuckooSettings::DEFAULT
                },
                ..Settings::DEFAULT
            };
            Node { server, offset: 0, skew_ms: 50 * number as u64, snapshot: Snapshot::default() }
        };
        Self {
            nodes: (0..3).map(node).collect(),
            primary: random.below(3),
            history: Vec::new(),
            events: Vec::new(),
            base: Snapshot::default(),
            now_ms: 1_000_000,
            is_starved: false,
        }
    }

    fn primary(&mut self) -> &mut Node {
        &mut self.nodes[self.primary]
    }

    /// Runs a client's command on the primary. Returns the words of its reply.
    fn call(&mut self, words: &[&[u8]]) -> Vec<String> {
        let is_starved = std::mem::take(&mut self.is_starved);
        let node = self.primary();
        node.server.is_replicated = false;
        if is_starved {
            node.server.watch = watch;
            refuse(0);
        }
        node.server.call(words);
        relent();
        node.server.watch = |_| {};
        let calls = std::mem::take(&mut node.server.replicated_calls);
        node.offset += calls.len();
        let reply = node.server.reply.clone();
        self.history.extend(calls);
        assert_eq!(self.nodes[self.primary].offset, self.history.len());
        reply
    }

    fn note(&mut self, event: Event) {
        self.events.push((self.history.len(), event));
    }

    /// Adds items to a key.
    fn add(&mut self, key: usize, random: &mut Random) {
        let items: Vec<u64> = (0..1 + random.below(30)).map(|_| random.next() % 300).collect();
        let bytes: Vec<[u8; 8]> = items.iter().map(|item| item.to_le_bytes()).collect();
        let name = KEYS[key].as_bytes();
        let front: &[&[u8]] = match random.below(4) {
            0 => &[b"CF.INSERT", name, b"ITEMS"],
            1 => &[b"BF.INSERT", name, b"ITEMS"],
            _ => &[b"BF.MADD", name],
        };
        let reply = self.call(&[front, &slices(&bytes)].concat());
        let at_ms = self.primary().server.now_ms;
        for (item, reply) in items.into_iter().zip(reply.iter().skip(1)) {
            if !reply.starts_with('-') && reply != ":-1" {
                self.note(Event::Added { key, item, at_ms });
            }
        }
    }

    /// Deletes an item that is known to be there.
    fn remove(&mut self, key: usize, random: &mut Random) {
        let known = self.known();
        let items: Vec<u64> = known.keys().filter(|(of, _)| *of == key).map(|(_, item)| *item).collect();
        if items.is_empty() {
            return;
        }
        let (item, name) = (*random.choose(&items), KEYS[key].as_bytes());
        let command: &[u8] = if random.below(2) == 0 { b"CF.DEL" } else { b"BF.DEL" };
        let reply = self.call(&[command, name, &item.to_le_bytes()]);
        if reply.last().is_some_and(|word| word == ":1" || word == "#t") {
            self.note(Event::Removed { key, item });
        }
    }

    /// Creates a filter of a random kind, or replaces the one that is there.
    fn create(&mut self, key: usize, random: &mut Random) {
        const OPTIONS: [&str; 10] = [
            "",
            "NONSCALING",
            "NONSCALING SATURATE",
            "KEYED",
            "COUNTING",
            "PWINDOW 10000",
            "PWINDOW 10000 NOREFRESH",
            "FORMAT redisbloom",
            "FORMAT valkey-bloom",
            "EXPANSION 1",
        ];
        let name = KEYS[key];
        let capacity = [4, 40, 400, 4000][random.below(4)];
        let line = if random.below(6) == 0 {
            format!("CF.RESERVE {name} {} EXPANSION {}", capacity.max(8), random.below(3))
        } else {
            let options = *random.choose(&OPTIONS);
            format!("BF.RESERVE {name} 0.01 {capacity} {options}").trim_end().to_owned()
        };
        self.delete(key);
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }

    /// Deletes a key, as the server's DEL does.
    fn delete(&mut self, key: usize) {
        let call = vec![b"DEL".to_vec(), KEYS[key].as_bytes().to_vec()];
        self.history.push(call);
        let most = self.history.len();
        self.nodes[self.primary].follow(&self.history, most);
        self.note(Event::Ended { key });
    }

    fn clear(&mut self, key: usize) {
        if self.call(&[b"BF.CLEAR", KEYS[key].as_bytes()]) == ["+OK"] {
            self.note(Event::Ended { key });
        }
    }

    /// Merges another key.
    fn merge(&mut self, key: usize, random: &mut Random) {
        let from = random.below(KEYS.len());
        let words = [b"BF.MERGE", KEYS[key].as_bytes(), KEYS[from].as_bytes(), b"FORCE"];
        let is_window = |node: &Node| {
            let window = |key: &str| {
                node.server.keys.get(key.as_bytes()).is_some_and(|value| value.filter().window().is_some())
            };
            window(KEYS[key]) || window(KEYS[from])
        };
        let is_window = is_window(&self.nodes[self.primary]);
        if self.call(&words) == ["+OK"] && key != from && !is_window {
            for ((_, item), (_, at_ms)) in self.known().into_iter().filter(|((of, _), _)| *of == from) {
                self.note(Event::Added { key, item, at_ms });
            }
        }
    }

    /// Begins a new append-only file.
    fn rewrite(&mut self) {
        let node = &self.nodes[self.primary];
        self.base = Snapshot::of(&node.server, node.offset);
    }

    /// Ends the primary and starts it again from its append-only file, with or without a snapshot in front, or from its
    /// snapshot. Nothing that was acknowledged is lost in the first two cases.
    fn restart(&mut self, random: &mut Random) {
        let (way, base) = (random.below(3), self.base.clone());
        let history = std::mem::take(&mut self.history);
        let node = self.primary();
        if way == 2 {
            let snapshot = node.snapshot.clone();
            node.load(&snapshot);
        } else {
            node.load(&base);
            if way == 1 {
                node.server.keys.values_mut().for_each(|value| *value = rewritten_value(value));
            }
            node.follow(&history, usize::MAX);
        }
        let offset = node.offset;
        self.history = history;
        self.lose_after(offset);
    }

    /// Makes a replica the primary. What it does not have is lost.
    fn fail_over(&mut self, to: usize) {
        if self.nodes[to].offset <= self.history.len() {
            self.primary = to;
            self.lose_after(self.nodes[to].offset);
        }
    }

    fn lose_after(&mut self, offset: usize) {
        self.history.truncate(offset);
        self.events.retain(|(at, _)| *at <= offset);
        // A node that has more needs a full synchronisation, also to start from its snapshot.
        let lost = usize::MAX;
        for node in &mut self.nodes {
            node.offset = if node.offset > offset { lost } else { node.offset };
            if node.snapshot.offset > offset {
                node.snapshot = Snapshot { offset: lost, ..Snapshot::default() };
            }
        }
        self.rewrite();
    }

    /// Lets a replica run a part of the commands that it does not have.
    fn replicate(&mut self, replica: usize, most: usize) {
        if replica == self.primary {
            return;
        }
        if self.nodes[replica].offset > self.history.len() {
            self.synchronise(replica);
        }
        self.nodes[replica].follow(&self.history, most);
    }

    /// A full synchronisation.
    fn synchronise(&mut self, replica: usize) {
        if replica != self.primary {
            let snapshot = Snapshot::of(&self.nodes[self.primary].server, self.history.len());
            self.nodes[replica].load(&snapshot);
        }
    }

    fn tick(&mut self, ms: u64) {
        self.now_ms += ms;
        for node in &mut self.nodes {
            node.server.now_ms = self.now_ms + node.skew_ms;
        }
    }

    fn step(&mut self, choices: u64) {
        let random = &mut Random(choices);
        let (key, node) = (random.below(KEYS.len()), random.below(3));
        match random.below(40) {
            0..10 => self.add(key, random),
            10..13 => self.create(key, random),
            13..16 => self.remove(key, random),
            16 => self.clear(key),
            17..20 => self.merge(key, random),
            20..28 => self.replicate(node, 1 + random.below(4)),
            28..30 => self.replicate(node, usize::MAX),
            30 => self.synchronise(node),
            31 => {
                let node = &mut self.nodes[node];
                node.snapshot = Snapshot::of(&node.server, node.offset);
            }
            32 if node != self.primary && self.nodes[node].snapshot.offset <= self.history.len() => {
                let snapshot = self.nodes[node].snapshot.clone();
                self.nodes[node].load(&snapshot);
            }
            32 | 33 => {
                if self.nodes[self.primary].snapshot.offset <= self.history.len() {
                    self.restart(random);
                }
            }
            34 => self.rewrite(),
            35 => self.fail_over(node),
            36 => {
                let most_ms = [10, WINDOW_MS / 3, 3 * WINDOW_MS][random.below(3)];
                self.tick(random.next() % most_ms);
            }
            37 => self.is_starved = true,
            38 => self.primary().server.settings.max_filter_bytes = [200, 1000, 10_000][random.below(3)],
            _ => self.primary().server.settings.max_filter_bytes = u64::MAX,
        }
        self.check();
    }

    /// Returns how often each item of each key was added and not deleted, and when last.
    fn known(&self) -> BTreeMap<(usize, u64), (u64, u64)> {
        let mut known = BTreeMap::new();
        for (_, event) in &self.events {
            match event {
                Event::Added { key, item, at_ms } => {
                    let (count, last) = known.entry((*key, *item)).or_insert((0u64, 0));
                    (*count, *last) = (*count + 1, *at_ms);
                }
                Event::Removed { key, item } => {
                    let count = known.get_mut(&(*key, *item)).unwrap();
                    count.0 -= 1;
                    if count.0 == 0 {
                        known.remove(&(*key, *item));
                    }
                }
                Event::Ended { key } => known.retain(|(of, _), _| of != key),
            }
        }
        known
    }

    fn check(&mut self) {
        let known = self.known();
        for (key, name) in KEYS.iter().enumerate() {
            let node = &mut self.nodes[self.primary];
            let window = node.server.keys.get(name.as_bytes()).and_then(|value| value.filter().window());
            let window = window.map(|window| (window.span.ms(), window.no_refresh));
            let now_ms = node.server.now_ms;
            let is_live = |at_ms: u64| match window {
                // An item that keeps its first time may have expired.
                Some((_, true)) => false,
                Some((window_ms, false)) => now_ms + SKEW_MS < at_ms + window_ms,
                None => true,
            };
            let items = known.range((key, 0)..(key + 1, 0));
            let items: Vec<[u8; 8]> = items
                .filter(|(_, (_, at_ms))| is_live(*at_ms))
                .map(|((_, item), _)| item.to_le_bytes())
                .collect();
            if items.is_empty() {
                continue;
            }
            let is_cuckoo = node.server.cuckoos.contains_key(name.as_bytes());
            let command: &[u8] = if is_cuckoo { b"CF.MEXISTS" } else { b"BF.MEXISTS" };
            node.server.call(&[&[command, name.as_bytes()], &slices(&items)[..]].concat());
            let found =
                node.server.reply.iter().skip(1).filter(|word| *word == "#t" || *word == ":1").count();
            assert_eq!(found, items.len(), "items of {name} are lost");
        }
        let state = self.nodes[self.primary].server.state();
        for (number, node) in self.nodes.iter().enumerate() {
            if node.offset == self.history.len() {
                assert!(node.server.state() == state, "node {number} differs from {}", self.primary);
            }
        }
    }
}

/// Runs the steps. Returns the number of replicated commands and of acknowledged changes at the end, if all assertions
/// hold.
fn holds(seed: u64, steps: &[u64]) -> Option<(usize, usize)> {
    let run = || {
        let mut deployment = Deployment::new(&mut Random(seed));
        steps.iter().for_each(|step| deployment.step(*step));
        (deployment.history.len(), deployment.events.len())
    };
    catch_unwind(AssertUnwindSafe(run)).ok()
}

#[test]
fn a_deployment_loses_nothing() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let (first, histories) = (number("DEPLOYMENT_SEED", 0), number("DEPLOYMENT_HISTORIES", 3000));
    let (mut commands, mut changes) = (0, 0);
    for seed in first..first + histories {
        let mut random = Random(seed);
        let mut steps: Vec<u64> = (0..STEPS).map(|_| random.next()).collect();
        if let Some(done) = holds(seed, &steps) {
            (commands, changes) = (commands + done.0, changes + done.1);
            continue;
        }
        // Leaves out every step without which the history still fails.
        for number in (0..steps.len()).rev() {
            let step = steps.remove(number);
            if holds(seed, &steps).is_some() {
                steps.insert(number, step);
            }
        }
        println!("DEPLOYMENT_SEED={seed} fails with the steps {steps:?}");
        let mut deployment = Deployment::new(&mut Random(seed));
        let run = || steps.iter().for_each(|step| deployment.step(*step));
        let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        println!("after these replicated commands:");
        for call in &deployment.history {
            println!("{}", call.join(&b' ').escape_ascii());
        }
        resume_unwind(panic);
    }
    println!("{histories} histories of {STEPS} steps, {commands} replicated commands, {changes} changes");
    assert!(commands as u64 > 5 * histories && changes as u64 > 50 * histories);
}
