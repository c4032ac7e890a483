//! Filters whose items neither expire nor are deleted, compared with a set.

use everbloom_filter::filter::merge::MergeError;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::{AddError, Added, Filter, Promise, UnknownMemory};

use super::{Dump, NONE, Validator, assert_keeps_promise, item, missing, operations, restart};
use crate::support::make::{ANY, add, contains, keyed, plain, promise, unreserved};
use crate::support::saved::digested;
use crate::support::{Random, slices};

/// A filter, the numbers that it must have, and the first number that was never offered.
struct Oracle {
    filter: Filter,
    added: Vec<u64>,
    random: Random,
    next: u64,
}

impl Oracle {
    fn add(&mut self, number: u64, context: &str) {
        let was_found = contains(&self.filter, &item(number));
        let before = self.filter.items();
        let outcome = add(&mut self.filter, &item(number)).unwrap();
        assert_eq!(outcome == Added::Present, was_found, "{context}");
        assert_eq!(self.filter.items(), before + u64::from(!was_found), "{context}");
        self.added.push(number);
    }

    fn add_batch(&mut self, context: &str) {
        let count = 1 + self.random.below(200) as u64;
        let items: Vec<_> = (self.next..self.next + count).map(item).collect();
        self.filter.add_many(&slices(&items), &ANY, NoPrefetch, |outcome| {
            assert!(outcome.is_ok(), "{context}");
            true
        });
        self.added.extend(self.next..self.next + count);
        self.next += count;
    }

    /// Merges a filter of a random size into this one.
    fn merge(&mut self, make: fn(Promise) -> Filter, error_rate: f64, context: &str) {
        let mut source = make(unreserved(error_rate, 100, 2));
        let count = self.random.magnitude(1.0, 3_000.0) as u64;
        for number in self.next..self.next + count {
            let _ = add(&mut source, &item(number)).unwrap();
        }
        let before = digested(&self.filter);
        match self.filter.merge(&[&source], u64::MAX, false, &ANY, UnknownMemory) {
            Ok(_) => self.added.extend(self.next..self.next + count),
            Err(MergeError::ErrorRate { .. }) => assert!(digested(&self.filter) == before, "{context}"),
            Err(error) => panic!("{context}: {error}"),
        }
        self.next += count;
    }
}

fn run(name: &str, make: fn(Promise) -> Filter, promise: Promise, seed: u64, operations: u64) {
    let (filter, random) = (make(promise), Random(seed));
    let mut oracle = Oracle { filter, added: Vec::new(), random, next: 0 };
    let (mut done, mut dump, mut checked) = (0u64, Dump::none(), 0);
    let mut validator = Validator::default();
    while done < operations {
        let context = format!("{name}, seed {seed}, operation {done}");
        done += 1;
        match oracle.random.below(20_000) {
            0 => restart(&mut oracle.filter, &mut oracle.random, &context),
            1 | 2 => {
                let end = oracle.filter.dump_end();
                oracle.merge(make, promise.error_rate / 100.0, &context);
                dump.note_merge(&oracle.filter, end);
            }
            3 if oracle.added.len() > 20_000 && !dump.is_running() => {
                oracle.filter = oracle.filter.try_emptied(&ANY).unwrap();
                oracle.added.clear();
            }
            4..8 if !dump.is_running() => dump.begin(&oracle.filter, &mut oracle.random, oracle.added.len()),
            8..200 => {
                oracle.add_batch(&context);
                done += 99;
            }
            200..10_000 if !oracle.added.is_empty() => {
                let number = *oracle.random.choose(&oracle.added);
                let outcome = add(&mut oracle.filter, &item(number));
                assert_eq!(outcome, Ok(Added::Present), "{context}: {number}");
            }
            _ => {
                let number = oracle.next;
                oracle.next += 1;
                oracle.add(number, &context);
            }
        }
        validator.step(&oracle.filter, &context);
        if done % 500 == 0 {
            dump.go_on(&oracle.filter, &context, |copy, added| {
                assert_eq!(
                    missing(copy, oracle.added[..added].iter().copied()),
                    NONE,
                    "{context}: in the dump"
                );
            });
        }
        if done >= operations * checked / 10 {
            checked += 1;
            assert_eq!(missing(&oracle.filter, oracle.added.iter().copied()), NONE, "{context}");
            assert_keeps_promise(&oracle.filter, &context);
        }
    }
    assert_eq!(missing(&oracle.filter, oracle.added.iter().copied()), NONE, "{name}");
    // Without room, an item that needs none is added, and any other is refused without a change.
    let limit = oracle.filter.size_bytes();
    for number in (1 << 50)..(1 << 50) + 50_000u64 {
        match oracle.filter.add(&item(number), &limit, NoPrefetch) {
            Ok(_) => {}
            Err(AddError::CannotGrow(_)) => {
                let before = digested(&oracle.filter);
                assert!(oracle.filter.add(&item(number), &limit, NoPrefetch).is_err(), "{name}");
                assert!(digested(&oracle.filter) == before, "{name}");
                break;
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
    println!(
        "{name}, seed {seed}: {done} operations, {} dumps, {} items",
        dump.complete,
        oracle.filter.items()
    );
}

/// The name of a case, what creates its filter, and its promise.
type Case = (&'static str, fn(Promise) -> Filter, Promise);

#[test]
fn items_are_found_in_every_filter_that_grows() {
    let cases: [Case; 6] = [
        ("unreserved", plain, unreserved(0.01, 100, 2)),
        ("unreserved at 0.1 %", plain, unreserved(0.001, 100, 2)),
        ("unreserved at 40 %", plain, unreserved(0.4, 100, 2)),
        ("keyed and unreserved", keyed, unreserved(0.01, 100, 2)),
        ("reserved", plain, promise(0.01, 2_000, 2)),
        ("keyed and reserved", keyed, promise(0.001, 300, 2)),
    ];
    for (seed, (name, make, promise)) in (1..).zip(cases) {
        run(name, make, promise, seed, operations() / 6);
    }
}
