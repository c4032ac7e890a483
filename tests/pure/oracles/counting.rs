//! Filters of which items are deleted, compared with a multiset.

use std::collections::HashMap;

use everbloom_filter::filter::merge::MergeError;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::{AddError, Added, Filter, Promise, UnknownMemory};

use super::{Dump, NONE, Validator, assert_keeps_promise, item, missing, operations, restart};
use crate::support::make::{ANY, add, contains, counting, keyed_counting, promise, remove};
use crate::support::saved::digested;
use crate::support::{Random, slices};

/// A multiset of numbers, from which a random one can be drawn.
#[derive(Default)]
struct Multiset {
    occurrences: Vec<u64>,
    counts: HashMap<u64, u64>,
}

impl Multiset {
    fn add(&mut self, number: u64) {
        self.occurrences.push(number);
        *self.counts.entry(number).or_default() += 1;
    }

    fn take(&mut self, random: &mut Random) -> Option<u64> {
        if self.occurrences.is_empty() {
            return None;
        }
        let number = self.occurrences.swap_remove(random.below(self.occurrences.len()));
        let count = self.counts.get_mut(&number)?;
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&number);
        }
        Some(number)
    }
}

struct Oracle {
    make: fn(Promise) -> Filter,
    promise: Promise,
    filter: Filter,
    expected: Multiset,
    random: Random,
    universe: u64,
}

impl Oracle {
    fn add(&mut self, context: &str) {
        let number = self.random.next() % self.universe;
        let was_found = contains(&self.filter, &item(number));
        assert!(was_found || !self.expected.counts.contains_key(&number), "{context}: {number}");
        let expected = if was_found { Added::Again } else { Added::New };
        assert_eq!(add(&mut self.filter, &item(number)), Ok(expected), "{context}: {number}");
        self.expected.add(number);
    }

    fn remove(&mut self, context: &str) {
        let Some(number) = self.expected.take(&mut self.random) else { return };
        assert_eq!(remove(&mut self.filter, &item(number)), Ok(true), "{context}: {number}");
    }

    /// Deletes an item that is certainly absent.
    fn remove_absent(&mut self, context: &str) {
        let number = item(u64::MAX - self.random.next() % (1 << 20));
        if !contains(&self.filter, &number) {
            let items = self.filter.items();
            assert_eq!(remove(&mut self.filter, &number), Ok(false), "{context}");
            assert_eq!(self.filter.items(), items, "{context}");
        }
    }

    /// Adds or removes items in one batch.
    fn batch(&mut self, adds: bool, context: &str) {
        let numbers: Vec<u64> = (0..self.random.below(150))
            .filter_map(|_| {
                if adds {
                    let number = self.random.next() % self.universe;
                    self.expected.add(number);
                    Some(number)
                } else {
                    self.expected.take(&mut self.random)
                }
            })
            .collect();
        let items: Vec<_> = numbers.iter().copied().map(item).collect();
        if adds {
            self.filter.add_many(&slices(&items), &ANY, NoPrefetch, |outcome| {
                assert!(matches!(outcome, Ok(Added::New | Added::Again)), "{context}: {outcome:?}");
                true
            });
        } else {
            self.filter.remove_many(&slices(&items), NoPrefetch, |removed| {
                assert_eq!(removed, Ok(true), "{context}");
                true
            });
        }
    }

    /// Merges a filter of a random size into this one, with items that this one may have.
    fn merge(&mut self, context: &str) {
        let mut source = (self.make)(Promise { error_rate: self.promise.error_rate / 100.0, ..self.promise });
        let mut numbers = Vec::new();
        for _ in 0..self.random.magnitude(1.0, 2_000.0) as u64 {
            let number = self.random.next() % self.universe;
            let _ = add(&mut source, &item(number)).unwrap();
            numbers.push(number);
        }
        let before = digested(&self.filter);
        match self.filter.merge(&[&source], u64::MAX, false, &ANY, UnknownMemory) {
            Ok(_) => numbers.into_iter().for_each(|number| self.expected.add(number)),
            // Items that are added often at several sizes of the table may fill the slots of a bucket.
            Err(MergeError::TooOften | MergeError::ErrorRate { .. }) => {
                assert!(digested(&self.filter) == before, "{context}");
            }
            Err(error) => panic!("{context}: {error}"),
        }
    }

    /// Adds and removes items with the current size as the limit. A refused add changes nothing, and removals make
    /// room.
    fn exchange_without_room(&mut self, context: &str) {
        let limit = self.filter.size_bytes();
        for _ in 0..200 {
            let number = self.random.next() % self.universe;
            let items = self.filter.items();
            match self.filter.add(&item(number), &limit, NoPrefetch) {
                Ok(_) => self.expected.add(number),
                Err(AddError::CannotGrow(_)) => {
                    assert_eq!(self.filter.items(), items, "{context}");
                    self.remove(context);
                }
                Err(error) => panic!("{context}: {error}"),
            }
            assert!(self.filter.size_bytes() <= limit, "{context}");
        }
    }

    fn check(&self, context: &str) {
        assert_eq!(self.filter.items(), self.expected.occurrences.len() as u64, "{context}");
        assert_eq!(missing(&self.filter, self.expected.counts.keys().copied()), NONE, "{context}");
        assert_keeps_promise(&self.filter, context);
    }
}

fn run(name: &str, make: fn(Promise) -> Filter, error_rate: f64, universe: u64, seed: u64, operations: u64) {
    let promise = promise(error_rate, 100, 2);
    let (filter, expected, random) = (make(promise), Multiset::default(), Random(seed));
    let mut oracle = Oracle { make, promise, filter, expected, random, universe };
    let (mut done, mut checked, mut dump) = (0u64, 0, Dump::none());
    let mut validator = Validator::default();
    // The filter grows and shrinks in turn, ten times each.
    let phase = (operations / 20).max(1);
    while done < operations {
        let context = format!("{name}, seed {seed}, operation {done}");
        let is_growing = (done / phase).is_multiple_of(2);
        let adds = oracle.random.below(16) < if is_growing { 11 } else { 4 };
        done += 1;
        match oracle.random.below(20_000) {
            0 => restart(&mut oracle.filter, &mut oracle.random, &context),
            1 | 2 => {
                let end = oracle.filter.dump_end();
                oracle.merge(&context);
                dump.note_merge(&oracle.filter, end);
            }
            3 => {
                oracle.exchange_without_room(&context);
                done += 199;
            }
            4..8 if !dump.is_running() => {
                dump.begin(&oracle.filter, &mut oracle.random, oracle.expected.counts.clone())
            }
            8..100 => {
                oracle.batch(adds, &context);
                done += 74;
            }
            100..1_000 => oracle.remove_absent(&context),
            _ if adds => oracle.add(&context),
            _ => oracle.remove(&context),
        }
        validator.step(&oracle.filter, &context);
        if done % 200 == 0 {
            // An item that the filter has had since the dump began is found in the copy.
            if let Some((.., at_start)) = &mut dump.running {
                at_start.retain(|number, _| oracle.expected.counts.contains_key(number));
            }
            dump.go_on(&oracle.filter, &context, |copy, at_start| {
                assert_eq!(missing(copy, at_start.keys().copied()), NONE, "{context}: in the dump");
            });
        }
        if done >= operations * checked / 20 {
            checked += 1;
            oracle.check(&context);
        }
    }
    println!(
        "{name}, seed {seed}: {done} operations, {} dumps, {} items",
        dump.complete,
        oracle.filter.items()
    );
    oracle.check(name);
    // After the last item is removed, the filter equals a new one.
    while !oracle.expected.occurrences.is_empty() {
        oracle.remove(name);
        if oracle.random.below(oracle.universe as usize / 4) == 0 {
            oracle.check(name);
        }
    }
    // Only the number of deletions stays.
    let new = make(promise);
    let [left, new] = [&oracle.filter, &new].map(|filter| filter.table().unwrap());
    assert!(left.counts() == new.counts() && left.segments().eq(new.segments()), "{name}");
    assert_eq!(oracle.filter.size_bytes(), make(promise).size_bytes(), "{name}");
}

/// The name of a case, what creates its filter, its error rate, and the number of operations.
type Case = (&'static str, fn(Promise) -> Filter, f64, u64);

#[test]
fn items_are_deleted_as_often_as_they_were_added_and_no_other_is_lost() {
    let cases: [Case; 5] = [
        ("counting", counting, 0.01, 60_000),
        ("counting at 0.1 %", counting, 0.001, 20_000),
        ("counting at 40 %", counting, 0.4, 100_000),
        ("counting at 1e-6", counting, 1e-6, 500),
        ("keyed counting", keyed_counting, 0.01, 3_000),
    ];
    for (seed, (name, make, error_rate, universe)) in (1..).zip(cases) {
        run(name, make, error_rate, universe, seed, operations() / 5);
    }
}
