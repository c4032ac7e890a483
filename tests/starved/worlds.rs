//! Every sequence of a few operations on small filters of every kind, from every prepared state. [`World`] knows what must be
//! found. Nothing is random.
//!
//! `WORLDS_OPERATIONS=5 cargo test -p everbloom-tests --test starved worlds` runs all sequences of five operations, and
//! with `WORLDS_STATE="longest counts"` only those from this prepared state.

use everbloom_filter::Format;
use everbloom_filter::table::COUNT_MAX;

use crate::allocator::{REFUSING, SIZED_MIN_BYTES};
use crate::support::server::Server;
use crate::support::world::{Adding, Form, WAYS, Way, World};

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
    /// Merges a copy of the filter.
    Unite,
    /// Saves the filter and loads it again in this way.
    Remake(Way),
    /// Copies one chunk into another filter.
    Dump,
    /// Refuses the next large allocation of the operation after this one.
    Refuse,
    /// Forbids the filter to become larger, or as large as it is: every second step of a history.
    Limit,
}

use Operation::{Add, Dump, Expire, Join, Limit, Merge, Refuse, Remake, Remove, Split, Unite};

const OPERATIONS: [Operation; 13] = [
    Add(0),
    Add(1),
    Add(2),
    Remove,
    Expire,
    Split,
    Join,
    Merge,
    Unite,
    Remake(Way::Snapshot),
    Dump,
    Refuse,
    Limit,
];

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

const KEY: &[u8] = b"k";
const OTHER: &[u8] = b"other";
const WINDOW_MS: u64 = 1000;
/// The entries of a window between two sweeps.
const SWEEP_ENTRIES: u64 = 256;

const fn kind(name: &'static str, create: Option<&'static str>) -> Kind {
    let format = Format::Everbloom;
    Kind { name, format, create, window_ms: 0, family: "BF", can_delete: false }
}

/// A filter of a kind, with three items whose places are the same.
struct State<'a> {
    kind: &'a Kind,
    world: World,
    three: [Vec<u8>; 3],
}

fn numbered(name: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("{name}{number}").into_bytes()).collect()
}

impl<'a> State<'a> {
    fn new(kind: &'a Kind) -> Self {
        let mut servers = [Server::new(), Server::new()];
        servers.iter_mut().for_each(|server| server.settings.format = kind.format);
        servers[1].settings.max_filter_bytes = 1;
        let mut world = World::of(servers.into(), REFUSING);
        world.is_prompt = true;
        // The clock of the replica is late.
        world.nodes[1].server.now_ms -= 1;
        let mut state = Self { kind, world, three: [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()] };
        state.create("k");
        if kind.create.is_some() {
            state.three = state.colliding();
        }
        state
    }

    fn fork(&self) -> Self {
        Self { kind: self.kind, world: self.world.fork(), three: self.three.clone() }
    }

    fn create(&mut self, key: &str) {
        if let Some(line) = self.kind.create {
            self.world.make(&line.replace("KEY", key).split(' ').collect::<Vec<_>>());
        }
    }

    /// Returns three items. In tables, the second one is found in a filter that only has the first one; so is the third
    /// one, with a larger error rate.
    fn colliding(&self) -> [Vec<u8>; 3] {
        let line = self.kind.create.unwrap_or_default();
        let mut items = [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
        for (item, line) in items[1..].iter_mut().zip([line.to_owned(), line.replace(" 0.01 ", " 0.25 ")]) {
            let mut server = Server::new();
            server.settings.format = self.kind.format;
            server.run(&line.replace("KEY", "k"));
            server.run(&format!("{}.ADD k a", self.kind.family));
            let found = (0..20_000u32).map(|number| format!("n{number}")).find(|number| {
                let reply = server.run(&format!("{}.EXISTS k {number}", self.kind.family));
                reply == "#t" || reply == ":1"
            });
            if let Some(found) = found {
                *item = found.into_bytes();
            }
        }
        items
    }

    /// Adds items in one command.
    fn add(&mut self, key: &[u8], items: &[Vec<u8>]) {
        let form = if self.kind.family == "CF" { Form::Occurrences } else { Form::Many };
        self.world.add(key, Adding { form, ..Adding::default() }, items);
    }

    /// Adds `count` items with successive numbers.
    fn fill(&mut self, first: usize, count: usize) {
        let item = |number: usize| format!("fill{number}").into_bytes();
        self.add(KEY, &(first..first + count).map(item).collect::<Vec<_>>());
    }

    /// Deletes each of these items once, if it is known. Returns whether one is.
    fn remove(&mut self, items: &[Vec<u8>]) -> bool {
        let Some(known) = self.world.known.get(KEY) else { return false };
        let known: Vec<Vec<u8>> =
            items.iter().filter(|item| known.items.contains_key(*item)).cloned().collect();
        self.world.remove(KEY, self.kind.family == "CF", &known);
        !known.is_empty()
    }

    /// Does one step of a history. Returns whether it has a meaning here.
    fn act(&mut self, operation: Operation, step: usize) -> bool {
        let is_window = self.kind.window_ms > 0;
        match operation {
            Add(number) => self.add(KEY, &[self.three[number].clone()]),
            Remove if is_window => {
                let life_ms = Some(WINDOW_MS * 3 / 8);
                let adding = Adding { form: Form::Insert, life_ms, ..Adding::default() };
                self.world.add(KEY, adding, &[self.three[0].clone()]);
            }
            Remove => return self.kind.can_delete && self.remove(&[self.three[0].clone()]),
            Expire if is_window => self.world.wait(WINDOW_MS * 5 / 8),
            Expire => return false,
            Split => self.add(KEY, &numbered("split", 24)),
            Join if is_window => self.world.wait(2 * WINDOW_MS),
            Join if self.kind.can_delete => return self.remove(&numbered("split", 24)),
            Join => _ = self.world.clear(KEY),
            Merge => return self.merge(),
            Unite => {
                if self.kind.family == "CF" || !self.world.remake(KEY, b"own", Way::Copy) {
                    return false;
                }
                self.world.merge(KEY, &[b"own"], true);
                self.world.delete(b"own");
            }
            Remake(way) => return self.world.remake(KEY, KEY, way),
            Dump => return self.world.dump(KEY, b"copy"),
            Refuse => self.world.refuse(0),
            Limit => {
                let size_bytes = self.world.size_bytes(KEY);
                self.world.limit(if step.is_multiple_of(2) { size_bytes } else { size_bytes / 2 });
                return size_bytes > 0;
            }
        }
        true
    }

    fn merge(&mut self) -> bool {
        if self.kind.family == "CF" {
            return false;
        }
        if !self.world.has(OTHER) {
            // Another client makes it, with memory and without a limit.
            let limit = self.world.server().settings.max_filter_bytes;
            let refused = self.world.refused.take();
            self.world.limit(u64::MAX);
            self.create("other");
            self.add(OTHER, &[&self.three[..1], &numbered("other", 3)].concat());
            self.world.limit(limit);
            self.world.refused = refused;
        }
        self.world.merge(KEY, &[OTHER], true);
        true
    }

    /// Adds items, and lets all expire or deletes them.
    fn emptied(kind: &'a Kind, count: usize) -> Self {
        let mut state = Self::new(kind);
        (0..count).step_by(1000).for_each(|first| state.fill(first, 1000.min(count - first)));
        if kind.window_ms > 0 {
            state.world.wait(3 * WINDOW_MS);
            // Only adds free the memory of expired items.
            let late = if count > 1000 { 40 } else { 0 };
            numbered("late", late).into_iter().for_each(|item| state.add(KEY, &[item]));
        } else if kind.can_delete {
            state.remove(&numbered("fill", count));
        } else {
            state.world.clear(KEY);
        }
        state
    }

    /// Returns a counting filter with an item that was added as often as an entry can count.
    fn longest_counts(kind: &'a Kind) -> Self {
        let mut state = Self::new(kind);
        state.add(KEY, &[state.three[0].clone()]);
        while state.world.filter(KEY).map(|filter| filter.items()) < Some(COUNT_MAX) {
            state.world.remake(KEY, OTHER, Way::Copy);
            assert_eq!(state.world.merge(KEY, &[OTHER], true), "+OK");
        }
        state.world.delete(OTHER);
        state.world.known.get_mut(KEY).unwrap().cardinality = None;
        state
    }

    /// Returns a window whose next add sweeps, and has items that have expired.
    fn before_sweep(kind: &'a Kind) -> Self {
        let mut state = Self::new(kind);
        (0..8000).step_by(1000).for_each(|first| state.fill(first, 1000));
        state.world.wait(WINDOW_MS * 3 / 4);
        (8000..12_000).step_by(1000).for_each(|first| state.fill(first, 1000));
        let entries = |state: &Self| state.world.filter(KEY).unwrap().table().unwrap().counts().entries;
        for number in 12_000.. {
            if entries(&state) % SWEEP_ENTRIES == SWEEP_ENTRIES - 1 {
                break;
            }
            state.fill(number, 1);
        }
        state.world.wait(WINDOW_MS / 2);
        state
    }

    /// Returns a filter of which all chunks but the last one are loaded.
    fn before_last_chunk(kind: &'a Kind) -> Option<Self> {
        let chunks = |most: usize| {
            let mut state = Self::new(kind);
            (0..4000).step_by(1000).for_each(|first| state.fill(first, 1000));
            for number in 0..most {
                state.world.dump(KEY, b"copy");
                if !state.world.is_dumping(KEY) {
                    return (state, number);
                }
            }
            (state, most)
        };
        let (_, count) = chunks(1000);
        (count > 1).then(|| chunks(count - 1).0)
    }

    /// Returns the states from which the sequences start, with their names.
    fn prepared(kind: &'a Kind) -> Vec<(String, Self)> {
        let mut states = vec![("empty".to_owned(), State::new(kind))];
        let mut below =
            |state: &Self, bytes: u64| states.push((format!("below {bytes} bytes"), state.fork()));
        // One item below the first sizes.
        let [mut before, mut state] = [State::new(kind), State::new(kind)];
        let mut sizes = 0;
        for number in 0..300 {
            state.fill(number, 1);
            let [was, is] = [&before, &state].map(|state| state.world.size_bytes(KEY));
            if number > 0 && is > was && sizes < 4 {
                sizes += 1;
                below(&before, is);
            }
            before.fill(number, 1);
        }
        // One item below the first size whose blocks can be refused.
        let is_large = |state: &Self| state.world.size_bytes(KEY) > 2 * SIZED_MIN_BYTES as u64;
        let (mut state, step) = (State::new(kind), 100);
        for number in (0..10_000).step_by(step) {
            let mut before = state.fork();
            state.fill(number, step);
            if is_large(&state) {
                for number in number..number + step {
                    let mut after = before.fork();
                    after.fill(number, 1);
                    if is_large(&after) {
                        below(&before, after.world.size_bytes(KEY));
                        break;
                    }
                    before = after;
                }
                break;
            }
        }
        states.push(("void".to_owned(), Self::emptied(kind, 40)));
        states.push(("shrunk".to_owned(), Self::emptied(kind, 4 << 12)));
        if kind.can_delete && kind.family == "BF" {
            states.push(("longest counts".to_owned(), Self::longest_counts(kind)));
        }
        for (_, state) in &mut states {
            state.world.check();
            // A few of many items are checked after each step.
            state.world.known.values_mut().for_each(|known| known.thin(20));
        }
        states
    }
}

/// Does the last operation of a history, and checks the filters, or leaves that to another history with the same beginning.
/// Returns whether the operation has a meaning. Fails with the history so far.
fn act(state: &mut State<'_>, name: &str, history: &[Operation], is_checked: bool) -> bool {
    let (step, operation) = (history.len() - 1, history[history.len() - 1]);
    let run = || {
        let has_meaning = state.act(operation, step);
        if is_checked {
            state.world.check();
        }
        has_meaning
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
        .unwrap_or_else(|_| panic!("{}, {name}: {history:?}", state.kind.name))
}

/// Runs all sequences of this many operations from one state. Of those that differ in the last operation only, the quick form
/// runs the first and an eleventh of the others. Returns their number.
fn explore(state: &State<'_>, name: &str, operations: u32, is_quick: bool) -> u64 {
    let mut histories = 0;
    let total = (OPERATIONS.len() as u64).pow(operations);
    let mut number = 0;
    'next: while number < total {
        if is_quick && !number.is_multiple_of(OPERATIONS.len() as u64) && !number.is_multiple_of(11) {
            number += 1;
            continue;
        }
        let digit = |step: u32| number / (OPERATIONS.len() as u64).pow(operations - 1 - step);
        let mut state = state.fork();
        let history: Vec<Operation> = (0..operations)
            .map(|step| OPERATIONS[(digit(step) % OPERATIONS.len() as u64) as usize])
            .collect();
        for step in 0..history.len() {
            // Of the sequences that begin like this one, the first is checked.
            let rest = (OPERATIONS.len() as u64).pow(operations - 1 - step as u32);
            if !act(&mut state, name, &history[..=step], number.is_multiple_of(rest)) {
                // All of these have no meaning.
                number = (number / rest + 1) * rest;
                continue 'next;
            }
        }
        (histories, number) = (histories + 1, number + 1);
    }
    histories
}

/// Saves and loads the filter in every way, and again in every way, with changes between.
fn explore_ways(state: &State<'_>, name: &str) {
    for (first, second) in WAYS.into_iter().flat_map(|first| WAYS.map(|second| (first, second))) {
        let mut state = state.fork();
        let history = [Remake(first), Add(1), Remake(second), Split, Limit, Unite];
        for step in 0..history.len() {
            act(&mut state, name, &history[..=step], true);
        }
    }
}

/// Refuses each allocation of an operation in turn. Returns their number.
fn refuse_each<'a>(make: impl Fn() -> State<'a>, name: &str, operation: Operation) -> i64 {
    for number in 0.. {
        let mut state = make();
        state.world.refuse(number);
        act(&mut state, name, &[operation], true);
        if state.world.refusals == 0 {
            return number;
        }
        act(&mut state, name, &[operation, operation], true);
    }
    unreachable!()
}

/// Runs all sequences from all prepared states of this kind.
#[expect(clippy::print_stdout, reason = "a run of an hour shows how far it is")]
fn explore_all(kind: &Kind) {
    if State::before_last_chunk(kind).is_some() {
        let refused = refuse_each(|| State::before_last_chunk(kind).unwrap(), "last chunk", Dump);
        println!("{}, last chunk: {refused} allocations", kind.name);
    }
    if kind.window_ms > 0 {
        let state = State::before_sweep(kind);
        let refused = refuse_each(|| state.fork(), "sweep", Split);
        assert!(refused > 0, "nothing was swept");
    }
    let asked = std::env::var("WORLDS_OPERATIONS").ok().map(|operations| operations.parse().unwrap());
    let operations = asked.unwrap_or(3);
    let only = std::env::var("WORLDS_STATE").ok();
    let is_chosen = |name: &str| only.as_ref().is_none_or(|only| only == name);
    for (name, state) in State::prepared(kind).into_iter().filter(|(name, _)| is_chosen(name)) {
        explore_ways(&state, &name);
        let refused: i64 = [Split, Merge, Unite, Remake(Way::Copy)]
            .map(|operation| refuse_each(|| state.fork(), &name, operation))
            .iter()
            .sum();
        let histories = explore(&state, &name, operations, asked.is_none());
        println!(
            "{}, {name}: {histories} histories of {operations} operations, {refused} allocations",
            kind.name
        );
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
