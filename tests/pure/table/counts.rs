//! Counts of hot items, and of items that were added when the table had another size: nobody's item is refused or lost
//! because of them.

use std::collections::HashMap;

use everbloom::bloom::prefetch::NoPrefetch;
use everbloom::bloom::table::Table;

use super::{add, counted, has, remove};
use crate::support::Random;

/// Removes each item as often as it was added. The table is empty then.
fn remove_all(table: &mut Table, counts: &HashMap<u64, u64>) {
    for (item, count) in counts {
        for _ in 0..*count {
            assert_eq!(remove(table, *item, NoPrefetch), Ok(true), "{item}");
        }
    }
    assert!(table.is_empty());
}

/// Item `n` is added with a probability of about 1/`n`, while the table grows to many times its size.
#[test]
fn items_of_a_zipf_distribution_are_never_refused() {
    let (mut table, mut random, mut counts) = (counted(0.01), Random(5), HashMap::new());
    let log_items = 1e7f64.ln();
    for _ in 0..1_500_000 {
        let uniform = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        let item = (uniform * log_items).exp() as u64;
        add(&mut table, item).unwrap();
        *counts.entry(item).or_insert(0u64) += 1;
    }
    assert_eq!(table.internal_validate(), Ok(()));
    assert_eq!(table.items(0), 1_500_000);
    assert!(table.distinct_items(0).abs_diff(counts.len() as u64) < counts.len() as u64 / 100);
    remove_all(&mut table, &counts);
}

/// One item is added again at each size of the table, between many others.
#[test]
fn a_hot_item_is_counted_at_every_size() {
    let (mut table, mut counts) = (counted(0.01), HashMap::new());
    for item in 1..600_000u64 {
        add(&mut table, item).unwrap();
        counts.insert(item, 1);
        if item.is_power_of_two() || item % 50_000 == 0 {
            for hot in 0..20 {
                (0..60).for_each(|_| _ = add(&mut table, 1 << 40 | hot).unwrap());
                *counts.entry(1 << 40 | hot).or_insert(0) += 60;
            }
        }
    }
    assert_eq!(table.items(0), counts.values().sum::<u64>());
    remove_all(&mut table, &counts);
}

/// After a peak, all items but one are deleted, again and again. Void entries of the large table are joined then.
#[test]
fn a_table_that_was_large_takes_new_items() {
    let (mut table, mut random) = (counted(0.01), Random(6));
    add(&mut table, 0).unwrap();
    for (round, peak) in [2_000_000u64, 300_000, 1_000_000].into_iter().enumerate() {
        let first = (round as u64 + 1) << 32;
        let mut items: Vec<u64> = (first..first + peak).collect();
        items.iter().for_each(|item| _ = add(&mut table, *item).unwrap());
        items.sort_by_cached_key(|_| random.next());
        for item in items {
            assert_eq!(remove(&mut table, item, NoPrefetch), Ok(true), "{item}");
        }
        assert_eq!(table.internal_validate(), Ok(()));
        assert!(table.items(0) == 1 && has(&table, 0), "{round}");
        assert!(
            table.size_bytes() < 1 << 16,
            "{} bytes of {:?}",
            table.size_bytes(),
            table.match_all_counts()
        );
        let new = first | 1 << 31..(first | 1 << 31) + 1000;
        new.clone().for_each(|item| _ = add(&mut table, item).unwrap());
        new.for_each(|item| assert_eq!(remove(&mut table, item, NoPrefetch), Ok(true), "{item}"));
    }
}
