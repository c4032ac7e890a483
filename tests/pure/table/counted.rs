//! Counted entries: as a multiset.

use std::collections::HashMap;

use everbloom::bloom::table::{COUNT_MAX, Counting, Table};
use everbloom::bloom::{AddError, Added, NoPrefetch};

use super::{add, any, bytes, counted, has, hash, measured_rate};
use crate::support::Random;

fn remove(table: &mut Table, item: u64) -> bool {
    table.remove(hash(item), NoPrefetch).unwrap()
}

#[test]
fn items_are_removed_as_often_as_they_were_added() {
    for (error_rate, universe, operations, seed) in
        [(0.01, 60_000u64, 1_500_000u64, 1u64), (0.2, 300_000, 1_500_000, 2), (1e-6, 2_000, 400_000, 3)]
    {
        let (mut table, mut random) = (counted(error_rate), Random(seed));
        let (mut times, mut total) = (HashMap::<u64, u64>::new(), 0u64);
        for operation in 0..operations {
            // The table grows and shrinks in turn.
            let is_growing = operation / (operations / 6) % 2 == 0;
            let item = random.next() % universe;
            let of_item = times.entry(item).or_default();
            if random.next() % 16 < if is_growing { 10 } else { 5 } {
                let outcome = add(&mut table, item).unwrap();
                assert!(outcome != Added::Present && (*of_item == 0 || outcome == Added::Again));
                (*of_item, total) = (*of_item + 1, total + 1);
            } else if *of_item > 0 {
                assert!(remove(&mut table, item), "{error_rate}, {operation}: {item}");
                (*of_item, total) = (*of_item - 1, total - 1);
            }
            assert_eq!(table.items(0), total);
            if operation % (operations / 20) == 0 {
                let missing = times.iter().find(|(item, times)| **times > 0 && !has(&table, **item));
                assert_eq!(missing, None, "{error_rate}, {operation}");
                assert_eq!(table.internal_validate(), Ok(()), "{error_rate}, {operation}");
            }
        }
        let mut all: Vec<_> = times.into_iter().collect();
        all.sort_unstable();
        for (item, times) in all {
            for left in (0..times).rev() {
                assert!(remove(&mut table, item), "{error_rate}: {item}, {left} left");
                assert!(left == 0 || has(&table, item));
            }
        }
        let empty = counted(error_rate);
        assert_eq!((bytes(&table), table.counts()), (bytes(&empty), empty.counts()));
    }
}

#[test]
fn an_item_is_counted_thousands_of_times() {
    let mut table = counted(0.01);
    (1..=50u64).for_each(|item| {
        let _ = add(&mut table, item);
    });
    for time in 0..COUNT_MAX {
        assert_eq!(add(&mut table, 0), Ok(if time == 0 { Added::New } else { Added::Again }));
    }
    let before = (bytes(&table), table.counts());
    assert_eq!(add(&mut table, 0), Err(AddError::TooOften));
    assert_eq!((bytes(&table), table.counts()), before);
    for _ in 0..COUNT_MAX {
        assert!(has(&table, 0) && remove(&mut table, 0));
    }
    assert!(!has(&table, 0) && !remove(&mut table, 0));
    assert_eq!((table.items(0), table.distinct_items(0)), (50, 50));
}

#[test]
fn memory_and_rate_follow_the_items_down_again() {
    let (mut table, items) = (counted(0.01), 400_000u64);
    (0..items).for_each(|item| {
        let _ = add(&mut table, item);
    });
    let bits = |table: &Table| table.size_bytes() as f64 * 8.0 / table.distinct_items(0) as f64;
    assert!(bits(&table) < 21.0, "{}", bits(&table));
    for item in 0..items - 3_000 {
        assert!(remove(&mut table, item));
        if item % 50_000 == 0 {
            assert!(table.error_rate(0) < 0.01 && bits(&table) < 21.0, "{item}: {}", bits(&table));
        }
    }
    assert!((items - 3_000..items).all(|item| has(&table, item)));
    assert!(bits(&table) < 21.0, "{}", bits(&table));
    let measured = measured_rate(&table, 0, 200_000);
    assert!(measured <= table.error_rate(0) * 1.2 && table.error_rate(0) < 0.01, "{measured}");
    // What is left behind of removed items is less than a thousandth of those that there were.
    assert!(table.used_slots() < 3_000 + items / 1000, "{}", table.used_slots());
    assert_eq!(table.internal_validate(), Ok(()));
}

#[test]
fn a_table_that_grows_and_shrinks_ten_times_keeps_its_rate() {
    let (mut table, mut next) = (counted(0.01), 0u64);
    (0..2_000u64).for_each(|item| {
        let _ = add(&mut table, item);
    });
    for _ in 0..10 {
        let first = next + 1_000_000;
        next = first + 100_000;
        (first..next).for_each(|item| {
            let _ = add(&mut table, item);
        });
        assert!(table.error_rate(0) < 0.01, "{}", table.error_rate(0));
        (first..next).for_each(|item| assert!(remove(&mut table, item)));
        assert!((0..2_000).all(|item| has(&table, item)));
        assert_eq!(table.internal_validate(), Ok(()));
        assert!(table.error_rate(0) < 0.01, "{}", table.error_rate(0));
    }
    assert!(table.used_slots() < 2_300, "{}", table.used_slots());
}

/// Entries of items from when the table was small become void, and their copies stay behind when the item is removed.
#[test]
fn leftovers_of_removed_items_are_few_and_are_shown() {
    for error_rate in [0.5, 0.01] {
        let (mut table, items) = (counted(error_rate), 1_000_000u64);
        (0..items).for_each(|item| _ = add(&mut table, item).unwrap());
        let void = table.leftovers().void_entries;
        assert!(void <= items / 100, "{error_rate}: {void} void entries of {items}");
        let stats = table.stats(0);
        assert_eq!((stats.leftovers, stats.leftovers.saturated_buckets), (table.leftovers(), 0));
        (1..items).for_each(|item| assert!(remove(&mut table, item)));
        // All but one item are gone.
        let left = table.used_slots() - table.distinct_items(0);
        assert!(left <= items / 500, "{error_rate}: {left} left");
        assert!(has(&table, 0) && remove(&mut table, 0) && table.is_empty());
    }
}

/// A removal takes the longest entry that matches: the shorter one may be of another item.
#[test]
fn a_removal_takes_the_longest_entry() {
    let mut table = counted(0.5);
    // While the table is small, entries are short and match many later items.
    (0..60).for_each(|item| _ = add(&mut table, item).unwrap());
    (1_000..100_000).for_each(|item| _ = add(&mut table, item).unwrap());
    let matched: Vec<u64> = (1 << 40..(1 << 40) + 100_000).filter(|item| has(&table, *item)).collect();
    assert!(matched.len() > 300, "{}", matched.len());
    for item in &matched {
        assert_eq!(add(&mut table, *item), Ok(Added::Again));
    }
    for item in &matched {
        assert!(remove(&mut table, *item));
    }
    assert!((0..60).chain(1_000..100_000).all(|item| has(&table, item)));
    assert_eq!(table.internal_validate(), Ok(()));
}

#[test]
fn the_union_counts_the_items_of_both() {
    for (left, right) in [(20_000u64, 3_000u64), (500, 60_000)] {
        let (mut table, mut source) = (counted(0.01), counted(0.001));
        let twice = |table: &mut Table, items: std::ops::Range<u64>| {
            items.flat_map(|item| [item; 2]).for_each(|item| {
                let _ = add(table, item);
            });
        };
        twice(&mut table, 0..left);
        twice(&mut source, left / 2..left / 2 + right);
        table.grow_for(source.used_slots(), 0, &any()).unwrap();
        for number in 0..source.counts().segments {
            source.visit_segment(number, |entry| {
                table.add_entry(entry, Counting::Sum, 0, &any()).unwrap();
            });
        }
        assert_eq!(table.internal_validate(), Ok(()));
        assert_eq!(table.items(0), 2 * (left + right));
        let of_both = |item: u64| {
            2 * u64::from(item < left) + 2 * u64::from(item >= left / 2 && item < left / 2 + right)
        };
        for item in 0..left.max(left / 2 + right) {
            for _ in 0..of_both(item) {
                assert!(has(&table, item) && remove(&mut table, item), "{item}");
            }
        }
    }
}
