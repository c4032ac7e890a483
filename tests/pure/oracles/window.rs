//! Filters whose items expire, compared with a map of each item's last generation: random clocks that jump and run
//! backwards, bursts, pauses, and items that come late.

use std::collections::HashMap;

use everbloom::Steps;
use everbloom_filter::generation::WindowLength;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::{AddError, Added, Filter, Promise, UnknownMemory, Window};

use super::{Dump, NONE, Validator, assert_keeps_promise, item, missing, operations, restart};
use crate::support::make::{ANY, START_MS, add, contains, keyed_windowed, promise, set_time, windowed};
use crate::support::saved::digested;
use crate::support::{Random, slices};

const DAY_MS: u64 = 86_400_000;

/// Returns the number of blocks of the table.
fn blocks(filter: &Filter) -> usize {
    let counts = filter.table().unwrap().counts();
    counts.segments << counts.blocks_log
}

/// Returns an empty filter with this promise and window.
type Make = fn(Promise, Window) -> Filter;

struct Oracle {
    make: Make,
    promise: Promise,
    window: Window,
    filter: Filter,
    /// The last generation in which each item was added.
    last: HashMap<u64, u64>,
    now_ms: u64,
    random: Random,
    universe: u64,
    /// The number of lookups of expired or absent items, and how many of them found the item.
    expired: (u64, u64),
    refused: u64,
}

impl Oracle {
    /// Returns whether items of a generation are live.
    fn is_live(&self, generation: u64) -> bool {
        self.window.span.steps().is_live(generation, self.filter.now())
    }

    /// Gives the items that are added next a life of their own, sometimes.
    fn choose_life(&mut self) {
        if self.random.below(4) == 0 {
            let now_ms = self.filter.window().unwrap().now_ms();
            self.filter.set_end(now_ms + 1 + self.random.next() % self.window.span.ms());
        }
    }

    /// Moves the clock: mostly a small part of the window, sometimes far, sometimes back.
    fn tick(&mut self) {
        let window_ms = self.window.span.ms();
        let mut part = |of: u64| self.random.next() % (of + 1);
        self.now_ms = match part(40) {
            0 => self.now_ms + 49 * DAY_MS,
            1 => self.now_ms + part(window_ms * 20),
            2 => self.now_ms - part(window_ms / 7).min(self.now_ms / 2),
            3 => self.now_ms - part(window_ms * 2).min(self.now_ms / 2),
            4 | 5 => self.now_ms + part(window_ms * 2),
            6..=15 => self.now_ms,
            _ => self.now_ms + part(window_ms / 20),
        };
        set_time(&mut self.filter, self.now_ms);
    }

    /// Notes that an item was added in a generation.
    fn note(&mut self, number: u64, generation: u64, outcome: Result<Added, AddError>, context: &str) {
        let is_known = self.last.get(&number).is_some_and(|last| self.is_live(*last));
        match outcome {
            Ok(Added::New) => assert!(!is_known, "{context}: {number}"),
            // A false positive, or an item that keeps its time.
            Ok(_) if self.window.no_refresh => return,
            Ok(_) => {}
            Err(AddError::Full) => {
                let promise = self.promise;
                assert!(promise.growth.is_fixed_size(), "{context}");
                assert_eq!(self.filter.items(), promise.capacity_items, "{context}");
                assert!(!is_known, "{context}");
                self.refused += 1;
                return;
            }
            Err(error) => panic!("{context}: {error}"),
        }
        let last = self.last.entry(number).or_default();
        *last = generation.max(*last);
    }

    fn add(&mut self, context: &str) {
        let number = self.random.next() % self.universe;
        // Some items come late.
        let is_late = self.random.below(8) == 0;
        if is_late {
            let at_ms = self.now_ms - (self.random.next() % self.window.span.ms()).min(self.now_ms / 2);
            let _ = self.filter.set_event(at_ms);
        } else {
            self.choose_life();
        }
        let generation = self.filter.window().unwrap().moment().added;
        let was_found = contains(&self.filter, &item(number));
        let before = blocks(&self.filter);
        let outcome = add(&mut self.filter, &item(number));
        // A join may have cut an entry so that it matches.
        let is_joined = blocks(&self.filter) < before;
        let is_expected = was_found == (outcome != Ok(Added::New)) || !was_found && is_joined;
        assert!(outcome.is_err() || is_expected, "{context}: {outcome:?}");
        self.note(number, generation, outcome, context);
        set_time(&mut self.filter, self.now_ms);
    }

    fn batch(&mut self, context: &str) {
        // Sometimes a batch has up to as many items as the capacity.
        let most = if self.random.below(30) == 0 { self.promise.capacity_items as usize } else { 100 };
        let numbers: Vec<u64> =
            (0..self.random.below(most)).map(|_| self.random.next() % self.universe).collect();
        let items: Vec<_> = numbers.iter().copied().map(item).collect();
        self.choose_life();
        let generation = self.filter.window().unwrap().moment().added;
        let mut outcomes = Vec::new();
        self.filter.add_many(&slices(&items), &ANY, NoPrefetch, |outcome| {
            outcomes.push(outcome);
            outcome.is_ok()
        });
        for (number, outcome) in numbers.into_iter().zip(outcomes) {
            // An item that was new at its place in the batch is known for the rest of the batch.
            if outcome == Ok(Added::New) {
                let before = self.last.insert(number, generation);
                assert!(before.is_none_or(|before| !self.is_live(before)), "{context}");
            } else {
                self.note(number, generation, outcome, context);
            }
        }
        set_time(&mut self.filter, self.now_ms);
    }

    /// Merges a filter of a random size into this one.
    fn merge(&mut self, context: &str) {
        let promise = promise(self.promise.error_rate / 100.0, 1 + self.random.next() % 5_000, 2);
        let mut source = (self.make)(promise, Window::new(self.window.span, false));
        let mut numbers = Vec::new();
        for _ in 0..self.random.magnitude(1.0, 1_000.0) as u64 {
            let at_ms = self.now_ms - (self.random.next() % self.window.span.ms()).min(self.now_ms / 2);
            set_time(&mut source, at_ms);
            let number = self.random.next() % self.universe;
            add(&mut source, &item(number)).unwrap();
            numbers.push((number, source.now()));
        }
        set_time(&mut self.filter, self.now_ms);
        self.filter.merge(&[&source], u64::MAX, true, &ANY, UnknownMemory).unwrap();
        for (number, generation) in numbers {
            let last = self.last.entry(number).or_default();
            *last = generation.max(*last);
        }
        assert!(self.filter.now() >= source.newest_generation(), "{context}");
    }

    /// Looks up random items. Asserts that live items are found, and counts the others that are found.
    fn look_up(&mut self, context: &str) {
        let (steps, window_ms) = (self.window.span.steps(), self.window.span.ms());
        for _ in 0..20 {
            let number = self.random.next() % self.universe;
            // Only what was added within a time is found with a later generation.
            let within_ms =
                if self.random.below(2) == 0 { window_ms } else { 1 + self.random.next() % window_ms };
            let now = self.filter.window().unwrap().seen_within(within_ms);
            assert!(within_ms < window_ms || now == self.filter.now());
            let is_found = self.filter.contains_in(&item(number), now, NoPrefetch);
            match self.last.get(&number) {
                Some(last) if steps.is_live(*last, now) => {
                    assert!(is_found, "{context}: {number} of {last} at {now}")
                }
                _ => self.expired = (self.expired.0 + 1, self.expired.1 + u64::from(is_found)),
            }
        }
    }

    fn live(&self) -> Vec<u64> {
        self.last.iter().filter(|(_, last)| self.is_live(**last)).map(|(number, _)| *number).collect()
    }

    fn check(&self, context: &str) {
        let live = self.live();
        assert_eq!(missing(&self.filter, live.iter().copied()), NONE, "{context}");
        assert_keeps_promise(&self.filter, context);
    }

    /// Adds items with the current size as the limit. A refused add changes nothing.
    fn add_without_room(&mut self, context: &str) {
        let limit = self.filter.size_bytes();
        for _ in 0..100 {
            let number = self.random.next() % self.universe;
            let (before, counts) = (digested(&self.filter), self.filter.table().unwrap().counts());
            let outcome = self.filter.add(&item(number), &limit, NoPrefetch);
            assert!(self.filter.size_bytes() <= limit, "{context}");
            if matches!(outcome, Err(AddError::CannotGrow(_))) {
                assert!(digested(&self.filter) == before, "{context}");
                assert_eq!(self.filter.table().unwrap().counts(), counts, "{context}");
                return;
            }
            let generation = self.filter.now();
            self.note(number, generation, outcome, context);
        }
    }
}

fn run(name: &str, make: Make, (promise, window): (Promise, Window), seed: u64, operations: u64) {
    let (filter, last, random) = (make(promise, window), HashMap::new(), Random(seed));
    let universe = promise.capacity_items * 8;
    let (now_ms, expired, refused) = (START_MS, (0, 0), 0);
    let mut oracle =
        Oracle { make, promise, window, filter, last, now_ms, random, universe, expired, refused };
    set_time(&mut oracle.filter, now_ms);
    let (mut done, mut checked, mut dump) = (0u64, 0, Dump::none());
    let mut validator = Validator::default();
    while done < operations {
        let context = format!("{name}, seed {seed}, operation {done}");
        done += 1;
        match oracle.random.below(10_000) {
            0 => restart(&mut oracle.filter, &mut oracle.random, &context),
            1 if !promise.growth.is_fixed_size() => {
                let end = oracle.filter.dump_end();
                oracle.merge(&context);
                dump.note_merge(&oracle.filter, end);
            }
            2 => {
                oracle.add_without_room(&context);
                done += 99;
            }
            3 | 4 if !dump.is_running() => {
                dump.begin(&oracle.filter, &mut oracle.random, oracle.last.clone())
            }
            5..50 => {
                oracle.batch(&context);
                done += 99;
            }
            50..70 => oracle.tick(),
            70..400 => {
                oracle.look_up(&context);
                done += 19;
            }
            _ => oracle.add(&context),
        }
        validator.step(&oracle.filter, &context);
        if done % 200 == 0 {
            dump.go_on(&oracle.filter, &context, |copy, at_start| {
                copy.set_now(oracle.now_ms);
                let (now, steps) = (copy.now(), oracle.window.span.steps());
                let live =
                    at_start.iter().filter(|(_, last)| steps.is_live(**last, now)).map(|(number, _)| *number);
                assert_eq!(missing(copy, live), NONE, "{context}: in the dump");
            });
        }
        if done >= operations * checked / 10 {
            checked += 1;
            oracle.check(&context);
        }
    }
    oracle.check(name);
    let (asked, found) = oracle.expired;
    println!(
        "{name}, seed {seed}: {done} operations, {} dumps, {} items, {} refused, {found} of {asked} expired or \
         absent items found",
        dump.complete,
        oracle.filter.items(),
        oracle.refused
    );
    let most = promise.error_rate * asked as f64;
    assert!(found as f64 <= most + 6.0 * most.sqrt() + 2.0, "{name}: {found} of {asked}");
    let live = oracle.filter.items();
    // When all items have expired, new items replace them without a refusal, in nearly the same memory.
    oracle.now_ms += 10 * DAY_MS + 20 * window.span.ms();
    set_time(&mut oracle.filter, oracle.now_ms);
    // The limit is a little higher, because segments are not equally full.
    let limit = oracle.filter.size_bytes() / 16 * 17;
    for number in 0..live / 4 * 3 {
        let outcome = oracle.filter.add(&item(number | 1 << 50), &limit, NoPrefetch);
        assert!(outcome.is_ok(), "{name}: {outcome:?} of an empty filter");
    }
}

/// The name of a case, what creates its filter, and its window.
type Case = (&'static str, Make, (Promise, Window));

#[test]
fn items_are_found_until_they_expire_and_then_no_more() {
    let window = |error_rate, items, expansion, window_ms, no_refresh| {
        let window = Window::new(WindowLength::new(window_ms), no_refresh);
        (promise(error_rate, items, expansion), window)
    };
    let fine = |(promise, window): (Promise, Window)| {
        let span = window.span.with_steps(Steps::Fine);
        (promise, Window::new(span, window.no_refresh))
    };
    let cases: [Case; 11] = [
        ("a day", windowed, window(0.01, 10_000, 2, DAY_MS, false)),
        ("100 ms", windowed, window(0.01, 1_000, 2, 100, false)),
        ("101 ms", windowed, window(0.01, 100, 2, 101, false)),
        ("no refresh", windowed, window(0.01, 5_000, 2, 1_000, true)),
        ("fixed", windowed, window(0.01, 300, 0, DAY_MS, false)),
        ("0.1 %", windowed, window(0.001, 5_000, 2, 3 * 3_600_000, false)),
        ("30 %", windowed, window(0.3, 3_000, 2, 49 * DAY_MS, false)),
        ("a day in 120 steps", windowed, fine(window(0.01, 10_000, 2, DAY_MS, false))),
        ("1013 ms in 120 steps", windowed, fine(window(0.001, 1_000, 2, 1013, true))),
        ("fixed in 120 steps", windowed, fine(window(0.01, 300, 0, DAY_MS, false))),
        ("keyed", keyed_windowed, window(0.01, 20, 1, 3653 * DAY_MS, false)),
    ];
    for (seed, (name, make, window)) in (1..).zip(cases) {
        run(name, make, window, seed, operations() / 8);
    }
}
