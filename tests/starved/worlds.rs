//! Every sequence of a few operations on small filters of every kind, from every prepared state, compared with a model
//! of the items that must be found. Nothing is random.
//!
//! `WORLDS_OPERATIONS=5 cargo test -p everbloom-tests --test starved worlds` runs all sequences of five operations, and
//! with `WORLDS_STATE="longest counts"` only those from this prepared state.

use std::collections::BTreeMap;

use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::table::COUNT_MAX;
use everbloom_filter::{Format, UnknownMemory};

use crate::allocator::{SIZED_MIN_BYTES, refuse, relent, watch};
use crate::support::saved::{digested_value, loaded_value, saved_value};
use crate::support::server::Server;
use crate::support::slices;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// Adds one of three items whose places in the filter are the same.
    Add(usize),
    /// Deletes the first of the three items once. In a window, adds it with a life of three eighths of the window.
    Remove,
    /// Moves the clock by five eighths of the window.
    Expire,
    /// Adds enough items for the filter to grow.
    Split,
    /// Deletes these items, or moves the clock by two windows, or clears the filter.
    Join,
    /// Merges a filter of the same kind.
    Merge,
    /// Replaces the filter by what is read from its snapshot.
    Reload,
    /// Copies one chunk into another filter.
    Dump,
    /// Refuses the next large allocation of the operation after this one.
    Refuse,
    /// Forbids the filter to become larger.
    Limit,
}

use Operation::{Add, Dump, Expire, Join, Limit, Merge, Refuse, Reload, Remove, Split};

const OPERATIONS: [Operation; 12] =
    [Add(0), Add(1), Add(2), Remove, Expire, Split, Join, Merge, Reload, Dump, Refuse, Limit];

/// A kind of filters.
struct Kind {
    name: &'static str,
    format: Format,
    /// The options of the command that creates a filter; `None` if the first add creates it.
    create: Option<&'static str>,
    window_ms: u64,
    /// The letters before the commands.
    family: &'static str,
    can_delete: bool,
}

const WINDOW_MS: u64 = 1000;

const fn kind(name: &'static str, create: Option<&'static str>) -> Kind {
    let format = Format::Everbloom;
    Kind { name, format, create, window_ms: 0, family: "BF", can_delete: false }
}

/// What is known about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    occurrences: u64,
    /// When the window of the item begins.
    added_ms: u64,
    /// When the item was last added without a life of its own.
    seen_ms: u64,
}

type Items = BTreeMap<Vec<u8>, Known>;

/// A primary, its replica, and the items that must be found.
struct World<'a> {
    kind: &'a Kind,
    primary: Server,
    replica: Server,
    known: Items,
    /// The occurrences of all items that were added and not deleted, as long as they are known exactly.
    occurrences: Option<u64>,
    three: [Vec<u8>; 3],
    /// The iterator of the next chunk of a dump, and what was known when it began.
    dump: Option<(String, Items)>,
    is_starved: bool,
}

fn numbered(name: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("{name}{number}").into_bytes()).collect()
}

impl<'a> World<'a> {
    fn new(kind: &'a Kind) -> Self {
        let server = || {
            let mut server = Server::new();
            server.settings.format = kind.format;
            server
        };
        let mut world = Self {
            kind,
            primary: server(),
            replica: server(),
            known: Items::new(),
            occurrences: Some(0),
            three: [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()],
            dump: None,
            is_starved: false,
        };
        world.replica.is_replicated = true;
        world.replica.settings.max_filter_bytes = 1;
        if let Some(line) = kind.create {
            world.run(&line.replace("KEY", "k"));
            world.three = world.colliding();
        }
        world
    }

    /// Returns three items. In tables, the second one is found in a filter that only has the first one; so is the third
    /// one, with a larger error rate.
    fn colliding(&self) -> [Vec<u8>; 3] {
        let mut server = Server::new();
        server.settings.format = self.kind.format;
        let line = self.kind.create.unwrap_or_default();
        let mut items = [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
        for (item, line) in items[1..].iter_mut().zip([line.to_owned(), line.replace(" 0.01 ", " 0.25 ")]) {
            let mut numbers = (0..20_000u32).map(|number| format!("n{number}"));
            server.run("BF.CLEAR k");
            server.keys.clear();
            server.cuckoos.clear();
            server.run(&line.replace("KEY", "k"));
            server.run(&format!("{}.ADD k a", self.kind.family));
            let found = numbers.find(|number| {
                let reply = server.run(&format!("{}.EXISTS k {number}", self.kind.family));
                reply == "#t" || reply == ":1"
            });
            if let Some(found) = found {
                *item = found.into_bytes();
            }
        }
        items
    }

    /// Returns a copy of this world. It must have no dump.
    fn fork(&self) -> Self {
        let fork = |server: &Server| {
            let mut fork = Server::at(server.now_ms);
            fork.settings = server.settings;
            fork.is_replicated = server.is_replicated;
            for (key, filter) in &server.keys {
                fork.keys.insert(key.clone(), filter.try_clone(UnknownMemory).unwrap());
            }
            for (key, filter) in &server.cuckoos {
                fork.cuckoos.insert(key.clone(), filter.try_clone().unwrap());
            }
            fork
        };
        assert!(self.dump.is_none());
        Self {
            primary: fork(&self.primary),
            replica: fork(&self.replica),
            known: self.known.clone(),
            three: self.three.clone(),
            dump: None,
            ..*self
        }
    }

    /// Returns the size of the filter; `None` if there is none.
    fn size_bytes(&self) -> Option<u64> {
        let size = self.primary.keys.get(&b"k"[..]).map(FilterValue::size_bytes);
        size.or(self.primary.cuckoos.get(&b"k"[..]).map(|filter| filter.slots_bytes()))
    }

    fn run(&mut self, line: &str) -> String {
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Runs a command on the primary, and what it replicates on the replica.
    fn call(&mut self, words: &[&[u8]]) -> String {
        if std::mem::take(&mut self.is_starved) {
            self.primary.watch = watch;
            refuse(0);
        }
        let reply = self.primary.call(words);
        relent();
        self.primary.watch = |_| {};
        for call in std::mem::take(&mut self.primary.replicated_calls) {
            let reply = self.replica.call(&slices(&call));
            assert!(!reply.starts_with('-'), "{reply}");
        }
        for server in [&mut self.primary, &mut self.replica] {
            server.replicated.clear();
            server.replicated_calls.clear();
            server.events.clear();
            server.log.clear();
        }
        reply
    }

    /// Adds items in one command. Those that are acknowledged are known from then on.
    fn add(&mut self, items: &[Vec<u8>]) {
        let front: &[&[u8]] = match self.kind.family {
            "CF" => &[b"CF.INSERT", b"k", b"ITEMS"],
            _ => &[b"BF.MADD", b"k"],
        };
        self.add_with(front, items, self.kind.window_ms);
    }

    /// Adds items with the words `front`, which give them this life.
    fn add_with(&mut self, front: &[&[u8]], items: &[Vec<u8>], life_ms: u64) {
        self.call(&[front, &slices(items)].concat());
        let replies: Vec<String> = self.primary.reply.iter().skip(1).cloned().collect();
        for (item, reply) in items.iter().zip(replies) {
            if reply.starts_with('-') || reply == ":-1" {
                continue;
            }
            let now_ms = self.primary.now_ms;
            let added_ms = now_ms + life_ms - self.kind.window_ms;
            let new = Known { occurrences: 0, added_ms, seen_ms: 0 };
            let known = self.known.entry(item.clone()).or_insert(new);
            known.occurrences += 1;
            known.added_ms = added_ms.max(known.added_ms);
            if life_ms == self.kind.window_ms {
                known.seen_ms = now_ms;
            }
            self.occurrences = self.occurrences.map(|count| count + 1);
        }
    }

    /// Adds `count` items with successive numbers.
    fn fill(&mut self, first: usize, count: usize) {
        let item = |number: usize| format!("fill{number}").into_bytes();
        self.add(&(first..first + count).map(item).collect::<Vec<_>>());
    }

    /// Deletes an item once if it is known. Returns whether it is.
    fn remove(&mut self, item: &[u8]) -> bool {
        let is_known = self.known.contains_key(item);
        if is_known {
            self.remove_all(&[item.to_vec()]);
        }
        is_known
    }

    /// Deletes each of these items once, if it is known.
    fn remove_all(&mut self, items: &[Vec<u8>]) {
        let known: Vec<&Vec<u8>> = items.iter().filter(|item| self.known.contains_key(*item)).collect();
        // CF.DEL deletes one item.
        let (name, most) =
            if self.kind.family == "CF" { (&b"CF.DEL"[..], 1) } else { (&b"BF.DEL"[..], 1000) };
        for items in known.chunks(most) {
            self.call(&[&[name, b"k"], &slices(items)[..]].concat());
            let replies: Vec<String> =
                self.primary.reply.iter().rev().take(items.len()).rev().cloned().collect();
            for (item, reply) in items.iter().zip(replies) {
                if reply != "#t" && reply != ":1" {
                    assert!(reply.contains("memory"), "{reply}");
                    continue;
                }
                self.occurrences = self.occurrences.map(|count| count - 1);
                let known = self.known.get_mut(*item).unwrap();
                known.occurrences -= 1;
                if known.occurrences == 0 {
                    self.known.remove(*item);
                }
            }
        }
    }

    fn wait(&mut self, ms: u64) {
        self.primary.now_ms += ms;
        // The clock of the replica is late.
        self.replica.now_ms = self.primary.now_ms - 1;
    }

    /// Does one step. Returns whether the step has a meaning here.
    fn act(&mut self, operation: Operation) -> bool {
        let is_window = self.kind.window_ms > 0;
        match operation {
            Add(number) => self.add(&[self.three[number].clone()]),
            Remove if is_window => {
                let front: [&[u8]; 5] = [b"BF.INSERT", b"k", b"PLIFE", b"375", b"ITEMS"];
                self.add_with(&front, &[self.three[0].clone()], WINDOW_MS * 3 / 8);
            }
            Remove => {
                let item = self.three[0].clone();
                return self.kind.can_delete && self.remove(&item);
            }
            Expire if is_window => self.wait(WINDOW_MS * 5 / 8),
            Expire => return false,
            Split => self.add(&numbered("split", 24)),
            Join if is_window => self.wait(2 * WINDOW_MS),
            Join if self.kind.can_delete => {
                let is_known: Vec<_> = numbered("split", 24).iter().map(|item| self.remove(item)).collect();
                return is_known.contains(&true);
            }
            Join => {
                if self.run("BF.CLEAR k") == "+OK" {
                    self.known.clear();
                    self.occurrences = Some(0);
                }
            }
            Merge => return self.merge(),
            Reload => return self.reload(),
            Dump => return self.dump(),
            Refuse => self.is_starved = true,
            Limit => {
                let Some(size) = self.size_bytes() else { return false };
                self.primary.settings.max_filter_bytes = size;
            }
        }
        true
    }

    fn merge(&mut self) -> bool {
        if self.kind.family == "CF" {
            return false;
        }
        if !self.primary.keys.contains_key(&b"other"[..]) {
            let limit = std::mem::replace(&mut self.primary.settings.max_filter_bytes, u64::MAX);
            let is_starved = std::mem::take(&mut self.is_starved);
            if let Some(line) = self.kind.create {
                self.run(&line.replace("KEY", "other"));
            }
            let items = [&self.three[..1], &numbered("other", 3)].concat();
            self.call(&[&[&b"BF.MADD"[..], b"other"], &slices(&items)[..]].concat());
            self.primary.settings.max_filter_bytes = limit;
            self.is_starved = is_starved;
        }
        if self.run("BF.MERGE k other FORCE") == "+OK" {
            self.occurrences = None;
            // An item of a window keeps its own time, which this model does not know after a wait.
            if self.kind.window_ms == 0 {
                let added_ms = self.primary.now_ms;
                for item in [&self.three[..1], &numbered("other", 3)].concat() {
                    self.known
                        .entry(item)
                        .or_insert(Known { occurrences: 0, added_ms, seen_ms: 0 })
                        .occurrences += 1;
                }
            }
        }
        true
    }

    fn reload(&mut self) -> bool {
        let Some(value) = self.primary.keys.get(&b"k"[..]) else { return false };
        let again = loaded_value(value.filter().format(), &saved_value(value));
        assert!(digested_value(&again) == digested_value(value));
        self.primary.keys.insert(b"k".to_vec(), again);
        self.dump = None;
        true
    }

    fn dump(&mut self) -> bool {
        let family = self.kind.family;
        let (iterator, known) = self.dump.take().unwrap_or_else(|| {
            self.primary.keys.remove(&b"copy"[..]);
            self.replica.keys.remove(&b"copy"[..]);
            self.primary.cuckoos.remove(&b"copy"[..]);
            self.replica.cuckoos.remove(&b"copy"[..]);
            ("0".to_owned(), self.known.clone())
        });
        let reply = self.run(&format!("{family}.SCANDUMP k {iterator}"));
        let Some(next) = reply.split(' ').nth(1).and_then(|word| word.strip_prefix(':')).map(str::to_owned)
        else {
            return !reply.contains("not found");
        };
        if next != "0" {
            let chunk = self.primary.bulk.clone();
            let name = format!("{family}.LOADCHUNK");
            let reply = self.call(&[name.as_bytes(), b"copy", next.as_bytes(), &chunk]);
            if reply == "+OK" {
                self.dump = Some((next, known));
            }
            return true;
        }
        let items: Vec<&Vec<u8>> = known.keys().filter(|item| self.is_live(item)).collect();
        if iterator != "0" && !items.is_empty() {
            let items: Vec<Vec<u8>> = items.into_iter().cloned().collect();
            // RedisBloom's chunks describe one moment only, and cuckoo filters move fingerprints.
            if family == "BF" {
                self.assert_found("copy", &items);
            }
        }
        true
    }

    fn is_live(&self, item: &[u8]) -> bool {
        let is_live = |known: &Known| {
            self.kind.window_ms == 0 || self.primary.now_ms - known.added_ms < self.kind.window_ms
        };
        self.known.get(item).is_some_and(is_live)
    }

    fn assert_found(&mut self, key: &str, items: &[Vec<u8>]) {
        let name = format!("{}.MEXISTS", self.kind.family);
        let words = [&[name.as_bytes(), key.as_bytes()], &slices(items)[..]].concat();
        let reply = self.primary.call(&words);
        let missing = self.primary.reply.iter().skip(1).position(|word| word != "#t" && word != ":1");
        assert_eq!(missing.map(|number| &items[number]), None, "{key}: {reply}");
    }

    fn check(&mut self) {
        let live: Vec<Vec<u8>> = self.known.keys().filter(|item| self.is_live(item)).cloned().collect();
        if !live.is_empty() {
            self.assert_found("k", &live);
        }
        let is_seen = |known: &Known| self.primary.now_ms - known.seen_ms <= WINDOW_MS / 4;
        let seen = self.known.iter().filter(|(_, known)| self.kind.window_ms > 0 && is_seen(known));
        for item in seen.map(|(item, _)| item.clone()).collect::<Vec<_>>() {
            assert_eq!(self.primary.call(&[b"BF.EXISTS", b"k", &item, b"PWITHIN", b"250"]), "#t", "{item:?}");
        }
        if self.kind.can_delete
            && let Some(occurrences) = self.occurrences
        {
            let items = self.primary.keys.get(&b"k"[..]).map(|value| value.filter().items());
            let items = items.or(self.primary.cuckoos.get(&b"k"[..]).map(|filter| filter.items()));
            assert_eq!(items, Some(occurrences));
        }
        assert!(self.primary.state() == self.replica.state(), "the replica differs");
        // A dump needs to have only the items that were in the filter all the time.
        if let Some((iterator, mut known)) = self.dump.take() {
            known.retain(|item, _| self.is_live(item));
            self.dump = Some((iterator, known));
        }
    }

    /// Returns the states from which the sequences start, with their names.
    fn prepared(kind: &'a Kind) -> Vec<(String, Self)> {
        let mut states = vec![("empty".to_owned(), World::new(kind))];
        let mut below =
            |world: &Self, bytes: u64| states.push((format!("below {bytes} bytes"), world.fork()));
        // One item below the first sizes.
        let [mut before, mut world] = [World::new(kind), World::new(kind)];
        let mut sizes = 0;
        for number in 0..300 {
            world.fill(number, 1);
            let [was, is] = [&before, &world].map(|world| world.size_bytes().unwrap_or(0));
            if number > 0 && is > was && sizes < 4 {
                sizes += 1;
                below(&before, is);
            }
            before.fill(number, 1);
        }
        // One item below the first size whose blocks can be refused.
        let is_large = |world: &Self| world.size_bytes() > Some(2 * SIZED_MIN_BYTES as u64);
        let (mut world, step) = (World::new(kind), 100);
        for number in (0..10_000).step_by(step) {
            let mut before = world.fork();
            world.fill(number, step);
            if is_large(&world) {
                for number in number..number + step {
                    let mut after = before.fork();
                    after.fill(number, 1);
                    if is_large(&after) {
                        below(&before, after.size_bytes().unwrap());
                        break;
                    }
                    before = after;
                }
                break;
            }
        }
        for (name, count) in [("void", 40), ("shrunk", 4 << 12)] {
            let mut world = World::new(kind);
            (0..count).step_by(1000).for_each(|first| world.fill(first, 1000.min(count - first)));
            if kind.window_ms > 0 {
                world.wait(3 * WINDOW_MS);
                if name == "shrunk" {
                    // Only adds free the memory of expired items.
                    (0..40).for_each(|number| world.add(&[format!("late{number}").into_bytes()]));
                }
            } else if kind.can_delete {
                world.remove_all(&numbered("fill", count));
            } else if world.run("BF.CLEAR k") == "+OK" {
                (world.known, world.occurrences) = (Items::new(), Some(0));
            }
            states.push((name.to_owned(), world));
        }
        // The longest counts.
        if kind.can_delete && kind.family == "BF" {
            let mut world = World::new(kind);
            world.add(&[world.three[0].clone()]);
            while world.primary.keys.get(&b"k"[..]).map(|value| value.filter().items()) < Some(COUNT_MAX) {
                for server in [&mut world.primary, &mut world.replica] {
                    let copy = server.keys.get(&b"k"[..]).unwrap().try_clone(UnknownMemory).unwrap();
                    server.keys.insert(b"other".to_vec(), copy);
                }
                assert_eq!(world.run("BF.MERGE k other FORCE"), "+OK");
            }
            for server in [&mut world.primary, &mut world.replica] {
                server.keys.remove(&b"other"[..]);
            }
            world.known.values_mut().for_each(|known| known.occurrences = COUNT_MAX);
            world.occurrences = None;
            states.push(("longest counts".to_owned(), world));
        }
        for (_, world) in &mut states {
            world.check();
            // A few of many items are checked after each step.
            let keep = world.known.len() / 20 + 1;
            let mut number = 0;
            world.known.retain(|_, _| {
                number += 1;
                number % keep == 0
            });
        }
        states
    }
}

/// Runs all sequences of this many operations from one state. Returns their number.
fn explore(state: &World<'_>, name: &str, operations: u32) -> u64 {
    let mut histories = 0;
    let total = (OPERATIONS.len() as u64).pow(operations);
    let mut number = 0;
    'next: while number < total {
        let digit = |step: u32| number / (OPERATIONS.len() as u64).pow(operations - 1 - step);
        let mut world = state.fork();
        let history: Vec<Operation> = (0..operations)
            .map(|step| OPERATIONS[(digit(step) % OPERATIONS.len() as u64) as usize])
            .collect();
        for (step, operation) in history.iter().enumerate() {
            let run = || {
                let has_meaning = world.act(*operation);
                world.check();
                has_meaning
            };
            let has_meaning =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|_| {
                    panic!("{}, {name}: {:?}", world.kind.name, &history[..=step]);
                });
            if !has_meaning {
                // All sequences that begin like this one have no meaning.
                let rest = (OPERATIONS.len() as u64).pow(operations - 1 - step as u32);
                number = (number / rest + 1) * rest;
                continue 'next;
            }
        }
        (histories, number) = (histories + 1, number + 1);
    }
    histories
}

/// Runs all sequences from all prepared states of this kind.
#[expect(clippy::print_stdout, reason = "a run of an hour shows how far it is")]
fn explore_all(kind: &Kind) {
    let operations = std::env::var("WORLDS_OPERATIONS").map_or(3, |operations| operations.parse().unwrap());
    let only = std::env::var("WORLDS_STATE").ok();
    let is_chosen = |name: &str| only.as_ref().is_none_or(|only| only == name);
    for (name, state) in World::prepared(kind).into_iter().filter(|(name, _)| is_chosen(name)) {
        let histories = explore(&state, &name, operations);
        println!("{}, {name}: {histories} histories of {operations} operations", kind.name);
    }
}

#[test]
fn unreserved() {
    explore_all(&kind("unreserved", None));
}

#[test]
fn reserved() {
    explore_all(&kind("reserved", Some("BF.RESERVE KEY 0.01 4")));
}

#[test]
fn fixed() {
    explore_all(&kind("fixed", Some("BF.RESERVE KEY 0.01 40 NONSCALING")));
}

#[test]
fn saturating() {
    explore_all(&kind("saturating", Some("BF.RESERVE KEY 0.01 4 NONSCALING SATURATE")));
}

#[test]
fn keyed() {
    explore_all(&kind("keyed", Some("BF.RESERVE KEY 0.01 4 KEYED")));
}

#[test]
fn window() {
    let create = Some("BF.RESERVE KEY 0.01 4 PWINDOW 1000");
    explore_all(&Kind { window_ms: WINDOW_MS, ..kind("window", create) });
}

#[test]
fn window_of_120_steps() {
    let create = Some("BF.RESERVE KEY 0.01 4 PWINDOW 1000 STEPS 120");
    explore_all(&Kind { window_ms: WINDOW_MS, ..kind("window of 120 steps", create) });
}

#[test]
fn counting() {
    let create = Some("BF.RESERVE KEY 0.01 4 COUNTING");
    explore_all(&Kind { can_delete: true, ..kind("counting", create) });
}

#[test]
fn counting_with_many_false_positives() {
    let create = Some("BF.RESERVE KEY 0.25 1 COUNTING");
    explore_all(&Kind { can_delete: true, ..kind("counting, one in four", create) });
}

#[test]
fn redisbloom() {
    explore_all(&kind("redisbloom", Some("BF.RESERVE KEY 0.01 4 FORMAT redisbloom")));
}

#[test]
fn valkey_bloom() {
    explore_all(&kind("valkey-bloom", Some("BF.RESERVE KEY 0.01 4 FORMAT valkey-bloom")));
}

#[test]
fn imported() {
    let create = "BF.IMPORT KEY EMPTY SCHEME murmur3-salted BITS 64 HASHES 3 CAPACITY 4";
    explore_all(&kind("imported", Some(create)));
}

#[test]
fn cuckoo() {
    let create = Some("CF.RESERVE KEY 4 BUCKETSIZE 2 MAXITERATIONS 3");
    let (format, family) = (Format::RedisBloom, "CF");
    explore_all(&Kind { format, family, can_delete: true, ..kind("cuckoo", create) });
}
