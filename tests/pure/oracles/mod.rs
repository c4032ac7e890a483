//! Random operations on whole filters: adds, deletions and lookups, one by one and in batches, while the tables grow and
//! shrink; in between restarts, copies, merges, limits and dumps. [`World`] knows what must be found.
//!
//! `EVERBLOOM_TESTS=full cargo test -p everbloom-tests --test pure oracles` does a million operations for each kind.

mod words;

use everbloom_command::Settings;

use crate::support::make::START_MS;
use crate::support::world::{Adding, Form, Outcome, WAYS, World};
use crate::support::{Random, effort};

const KEY: &[u8] = b"k";
const DAY_MS: u64 = 86_400_000;

/// Returns how many operations are done with each kind.
fn operations() -> u64 {
    effort(90_000, 1_000_000)
}

/// A filter, and the items that are offered to it.
struct Case {
    name: &'static str,
    error_rate: f64,
    /// The other options of BF.INSERT that create it.
    create: &'static str,
    /// The number of different items; 0 if most items are new.
    universe: u64,
}

fn item(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A run of a case.
struct Run<'c> {
    case: &'c Case,
    world: World,
    random: Random,
    /// The first number that was never offered.
    next: u64,
    window_ms: u64,
    is_counting: bool,
}

impl Run<'_> {
    /// Adds items with BF.INSERT, which creates the filter with this error rate if there is none.
    fn insert(&mut self, key: &[u8], error_rate: f64, at_ms: Option<u64>, items: &[Vec<u8>]) {
        let line = format!("ERROR {error_rate} {}", self.case.create);
        let words: Vec<Vec<u8>> = line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect();
        let outcomes = self.world.add(
            key,
            Adding { form: Form::Insert, at_ms, words: &words, ..Adding::default() },
            items,
        );
        assert!(!outcomes.is_empty(), "{:?}", self.world.server().reply);
    }

    /// Returns an item that is offered next.
    fn offered(&mut self) -> Vec<u8> {
        if self.case.universe > 0 {
            return item(self.random.next() % self.case.universe);
        }
        self.next += 1;
        item(self.next)
    }

    fn several(&mut self, most: usize) -> Vec<Vec<u8>> {
        (0..1 + self.random.below(most)).map(|_| self.offered()).collect()
    }

    /// Returns an item that must be found, if there is one.
    fn known(&mut self) -> Option<Vec<u8>> {
        let item = item(self.random.next() % self.case.universe.max(self.next + 1));
        self.world.known.get(KEY)?.pick(&item)
    }

    /// Adds items in any way. Returns the number.
    fn add(&mut self) -> u64 {
        let form = *self.random.choose(&[Form::Add, Form::Many, Form::Many, Form::Insert, Form::Packed]);
        let most = if form == Form::Add { 4 } else { 150 };
        let mut items = self.several(most);
        if self.case.universe == 0 && self.random.below(2) == 0 {
            items = (0..items.len()).filter_map(|_| self.known()).collect();
        }
        let mut adding = Adding { form, ..Adding::default() };
        if self.window_ms > 0 && self.random.below(4) == 0 && form != Form::Many {
            adding.life_ms = Some(1 + self.random.next() % self.window_ms);
            adding.if_absent = self.random.below(4) == 0;
        } else if self.window_ms > 0 && self.random.below(4) == 0 && form == Form::Insert {
            // Some items come late.
            adding.at_ms = Some(self.world.latest_time(KEY) - self.random.next() % self.window_ms);
        }
        if !items.is_empty() {
            self.world.add(KEY, adding, &items);
        }
        items.len() as u64
    }

    /// Deletes items that are there. Returns the number.
    fn remove(&mut self) -> u64 {
        let mut items: Vec<Vec<u8>> = (0..1 + self.random.below(150)).filter_map(|_| self.known()).collect();
        if self.random.below(4) == 0 {
            items = self.world.known[KEY].oldest(items.len());
        }
        // No item more often than it was added.
        items.sort();
        items.dedup();
        let is_cuckoo = self.random.below(8) == 0;
        self.world.remove(KEY, is_cuckoo, &items);
        items.len() as u64
    }

    /// Deletes an item that is certainly absent.
    fn remove_absent(&mut self) {
        let absent = item(u64::MAX / 2 - self.random.next() % (1 << 20));
        if self.world.run("BF.CARD k") != ":0" && self.world.call(&[b"BF.EXISTS", KEY, &absent]) == "#f" {
            assert_eq!(self.world.remove(KEY, false, &[absent]), [Outcome::Again]);
        }
    }

    /// Merges a filter of a random size into this one, with items that this one may have.
    fn merge(&mut self) {
        let count = self.random.magnitude(1.0, 3_000.0) as usize;
        let items: Vec<Vec<u8>> = (0..count).map(|_| self.offered()).collect();
        for items in items.chunks(500) {
            let late_ms = self.random.next() % self.window_ms.max(1);
            let at_ms = (self.window_ms > 0).then(|| self.world.now_ms() - late_ms);
            self.insert(b"source", self.case.error_rate / 100.0, at_ms, items);
        }
        // Items that are added often at several sizes of the table may fill the slots of a bucket.
        let reply = self.world.merge(KEY, &[b"source"], self.window_ms > 0);
        let is_refused = reply.contains("rate") || reply.contains("often") || reply.contains("fixed");
        assert!(reply == "+OK" || is_refused, "{reply}");
        self.world.delete(b"source");
    }

    /// Adds and removes items with a limit at the current size, or below. A refused add changes nothing, and removals make
    /// room.
    fn exchange_without_room(&mut self) {
        let size_bytes = self.world.size_bytes(KEY);
        let limit = *self.random.choose(&[size_bytes, size_bytes, size_bytes - 1, size_bytes / 2]);
        self.world.limit(limit);
        for _ in 0..8 {
            let items = self.several(20);
            let outcomes = self.world.add(KEY, Adding::default(), &items);
            if outcomes.contains(&Outcome::Refused) && self.is_counting {
                self.remove();
            }
        }
        // A copy adds nothing.
        self.world.remake(KEY, b"source", WAYS[0]);
        self.world.merge(KEY, &[b"source"], true);
        self.world.delete(b"source");
        self.world.limit(u64::MAX);
    }

    /// Adds new items to a filter without room. Returns whether one was refused.
    fn add_until_refused(&mut self) -> bool {
        let items: Vec<_> = (0..20).map(|_| item(1 << 50 | self.random.next() >> 16)).collect();
        self.world.add(KEY, Adding::default(), &items).contains(&Outcome::Refused)
    }

    /// Moves the clock: mostly a small part of the window, sometimes far, sometimes back.
    fn tick(&mut self) {
        let (now_ms, window_ms) = (self.world.now_ms(), self.window_ms);
        let mut part = |of: u64| self.random.next() % (of + 1);
        let back = |ms: u64| now_ms - ms.min(now_ms / 2);
        let now_ms = match part(40) {
            0 => now_ms + 49 * DAY_MS,
            1 => now_ms + part(window_ms * 20),
            2 => back(part(window_ms / 7)),
            3 => back(part(window_ms * 2)),
            4 | 5 => now_ms + part(window_ms * 2),
            6..=15 => now_ms,
            _ => now_ms + part(window_ms / 20),
        };
        // The clock of the replica does not matter.
        self.world.set_clocks(now_ms, now_ms + window_ms * 2 - part(window_ms * 4).min(now_ms / 2));
    }

    /// Does one step. Returns the number of items that it was about.
    fn step(&mut self, is_growing: bool) -> u64 {
        match self.random.below(1_000) {
            0..4 => {
                let way = *self.random.choose(&WAYS);
                self.world.remake(KEY, KEY, way);
            }
            4..16 => self.merge(),
            16..22 => self.exchange_without_room(),
            22 if self.case.universe == 0 && self.world.known[KEY].items.len() > 5_000 => {
                self.world.clear(KEY);
            }
            23..28 => {
                self.world.dump(KEY, b"copy");
            }
            28..60 if self.is_counting => self.remove_absent(),
            60..120 if self.window_ms > 0 => self.tick(),
            120..160 => {
                let items = self.several(20);
                self.world.ask(KEY, &items);
                let within_ms = 1 + self.random.next() % self.window_ms.max(1);
                self.world.ask_lately(KEY, within_ms, &items);
            }
            choice if self.is_counting && (choice % 16 < 5) == is_growing => return self.remove(),
            _ => return self.add(),
        }
        20
    }
}

/// Returns a run of a case, whose filter has one item.
fn begin(case: &Case, seed: u64) -> Run<'_> {
    let mut world = World::pair(Settings::DEFAULT, START_MS);
    // Large filters are compared now and then.
    world.effort_bytes = 2 << 10;
    let words = case.create.split(' ').collect::<Vec<_>>();
    let window_ms =
        words.iter().position(|word| *word == "PWINDOW").map_or(0, |place| words[place + 1].parse().unwrap());
    let is_counting = words.contains(&"COUNTING");
    let mut run = Run { case, world, random: Random(seed), next: 0, window_ms, is_counting };
    run.insert(KEY, case.error_rate, None, &[item(0)]);
    run
}

fn run(case: &Case, seed: u64, operations: u64) {
    let mut run = begin(case, seed);
    let (window_ms, is_counting) = (run.window_ms, run.is_counting);
    let (mut done, mut checked) = (0, 0);
    // The filter grows and shrinks in turn, ten times each.
    let phase = (operations / 20).max(1);
    while done < operations {
        let is_growing = (done / phase).is_multiple_of(2);
        done += run.step(is_growing);
        if run.world.is_dumping(KEY) {
            run.world.dump(KEY, b"copy");
        }
        run.world.check();
        if done >= operations * checked / 20 {
            checked += 1;
            run.world.check_all();
            if is_counting && !run.world.known[KEY].is_merged {
                run.world.check_oldest(KEY, case.error_rate);
            }
        }
    }
    run.world.check_all();
    let info = run.world.run("BF.INFO k");
    println!("{}, seed {seed}: {done} items, {} dumps, {info}", case.name, run.world.dumps);
    run.world.delete(b"copy");
    if is_counting {
        // After the last item is removed, the filter equals a new one.
        while !run.world.known[KEY].items.is_empty() {
            run.remove();
        }
        run.world.check_all();
        assert_eq!(run.world.run("BF.CARD k"), ":0");
        run.insert(b"new", case.error_rate, None, &[item(0)]);
        run.world.remove(b"new", false, &[item(0)]);
        let [left, new] = [KEY, b"new"].map(|key| run.world.filter(key).unwrap());
        assert_eq!(left.size_bytes(), new.size_bytes(), "{}", case.name);
        let [left, new] = [left, new].map(|filter| filter.table().unwrap());
        assert!(left.counts() == new.counts() && left.segments().eq(new.segments()), "{}", case.name);
    } else if window_ms > 0 {
        // When all items have expired, new items replace them without a refusal, in nearly the same memory. The limit is a
        // little higher, because segments are not equally full.
        let filter = run.world.filter(KEY).unwrap();
        let most = if filter.growth().is_fixed_size() { filter.promise().capacity_items } else { u64::MAX };
        let items = filter.items().min(most);
        run.world.wait(10 * DAY_MS + 20 * window_ms);
        run.world.limit(run.world.size_bytes(KEY) / 16 * 17);
        for first in (0..items / 4 * 3).step_by(100) {
            let items: Vec<_> =
                (first..(first + 100).min(items / 4 * 3)).map(|number| item(number | 1 << 50)).collect();
            let outcomes = run.world.add(KEY, Adding::default(), &items);
            assert!(!outcomes.contains(&Outcome::Refused), "{}: refused by an empty filter", case.name);
        }
    } else {
        // Without room, an item that needs none is added, and any other is refused without a change.
        run.world.limit(run.world.size_bytes(KEY));
        while !run.add_until_refused() {}
    }
}

fn run_all(cases: &[Case], operations: u64) {
    for (seed, case) in (1..).zip(cases) {
        run(case, seed, operations);
    }
}

const fn case(name: &'static str, error_rate: f64, create: &'static str, universe: u64) -> Case {
    Case { name, error_rate, create, universe }
}

#[test]
fn items_are_found_in_every_filter_that_grows() {
    let cases = [
        case("unreserved", 0.01, "", 0),
        case("unreserved at 0.1 %", 0.001, "", 0),
        case("unreserved at 40 %", 0.4, "", 0),
        case("keyed and unreserved", 0.01, "KEYED", 0),
        case("reserved", 0.01, "CAPACITY 2000", 0),
        case("keyed and reserved", 0.001, "CAPACITY 300 KEYED", 0),
    ];
    run_all(&cases, operations() / 6);
}

#[test]
fn items_are_deleted_as_often_as_they_were_added_and_no_other_is_lost() {
    let cases = [
        case("counting", 0.01, "CAPACITY 100 COUNTING", 60_000),
        case("counting at 0.1 %", 0.001, "CAPACITY 100 COUNTING", 20_000),
        case("counting at 40 %", 0.4, "CAPACITY 100 COUNTING", 100_000),
        case("counting at 1e-6", 1e-6, "CAPACITY 100 COUNTING", 500),
        case("keyed counting", 0.01, "CAPACITY 100 COUNTING KEYED", 3_000),
    ];
    run_all(&cases, operations() / 5);
}

/// Entries of the oldest items are short, and match many of those that are added later.
#[test]
fn the_oldest_items_keep_their_counts() {
    let case = case("counting without merges", 0.01, "COUNTING", 0);
    let mut run = begin(&case, 6);
    for _ in 0..120 {
        let items: Vec<_> = (0..500).map(|_| run.offered()).collect();
        run.world.add(KEY, Adding { form: Form::Many, ..Adding::default() }, &items);
    }
    run.world.check_oldest(KEY, case.error_rate);
}

#[test]
fn items_are_found_until_they_expire_and_then_no_more() {
    let cases = [
        case("a day", 0.01, "CAPACITY 10000 PWINDOW 86400000", 80_000),
        case("100 ms", 0.01, "CAPACITY 1000 PWINDOW 100", 8_000),
        case("101 ms", 0.01, "CAPACITY 100 PWINDOW 101", 800),
        case("no refresh", 0.01, "CAPACITY 5000 PWINDOW 1000 NOREFRESH", 40_000),
        case("fixed", 0.01, "CAPACITY 300 PWINDOW 86400000 NONSCALING", 2_400),
        case("0.1 %", 0.001, "CAPACITY 5000 PWINDOW 10800000", 40_000),
        case("30 %", 0.3, "CAPACITY 3000 PWINDOW 4233600000", 24_000),
        case("a day in 120 steps", 0.01, "CAPACITY 10000 PWINDOW 86400000 STEPS 120", 80_000),
        case("1013 ms in 120 steps", 0.001, "CAPACITY 1000 PWINDOW 1013 NOREFRESH STEPS 120", 8_000),
        case("fixed in 120 steps", 0.01, "CAPACITY 300 PWINDOW 86400000 NONSCALING STEPS 120", 2_400),
        case("keyed", 0.01, "CAPACITY 20 EXPANSION 1 PWINDOW 315619200000 KEYED", 160),
    ];
    run_all(&cases, operations() / 8);
}
