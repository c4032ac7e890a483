//! Counted entries: what is left of items that were removed, and which entry a removal takes.

use everbloom::bloom::table::Table;
use everbloom::bloom::{Added, NoPrefetch};

use super::{add, counted, has, hash, measured_rate};

fn remove(table: &mut Table, item: u64) -> bool {
    table.remove(hash(item), NoPrefetch).unwrap()
}

#[test]
fn memory_and_rate_follow_the_items_down_again() {
    let (mut table, items) = (counted(0.01), 400_000u64);
    (0..items).for_each(|item| _ = add(&mut table, item).unwrap());
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
