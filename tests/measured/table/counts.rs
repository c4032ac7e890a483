//! Counts of hot items, and of items that were added when the table had another size: they are exact for most items, and
//! nobody's item is refused or lost because of them.

use std::collections::HashMap;

use everbloom_filter::ItemHash;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::table::{Addition, Table};

use super::unions::union_of;
use super::{add, addition, any, counted, has, hash, remove};
use crate::support::make::insert;
use crate::support::{Random, effort};

/// Removes each item as often as it was added. The table is empty then.
fn remove_all(table: &mut Table, counts: &HashMap<u64, u64>) {
    for (item, count) in counts {
        for _ in 0..*count {
            assert_eq!(remove(table, *item, NoPrefetch), Ok(true), "{item}");
        }
    }
    assert!(table.is_empty());
}

/// Returns an item of a Zipf distribution: `n` with a probability of about 1/`n`, up to 10^7.
fn zipf(random: &mut Random) -> u64 {
    let uniform = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
    (uniform * 1e7f64.ln()).exp() as u64
}

/// Returns the largest number of items of a measurement. TABLE_ITEMS overrides it; the full run has 10,000,000.
fn most_items() -> u64 {
    std::env::var("TABLE_ITEMS").map_or(300_000, |items| items.parse().unwrap())
}

/// An item that is added again after the table has grown takes a further entry, and seldom takes memory for it. If items
/// were counted on entries of any length, the mean would be 20.40 bits.
#[test]
fn items_of_a_zipf_distribution_take_little_more_memory_and_are_never_refused() {
    const ADDS: u64 = 1_500_000;
    let (mut table, mut random, mut counts) = (counted(0.01), Random(5), HashMap::new());
    let (mut next, mut bits) = (1_000, Vec::new());
    for adds in 1..=ADDS {
        let item = zipf(&mut random);
        add(&mut table, item).unwrap();
        *counts.entry(item).or_insert(0u64) += 1;
        if adds == next {
            next = next * 21 / 20;
            bits.push(table.size_bytes() as f64 * 8.0 / counts.len() as f64);
        }
    }
    assert_eq!(table.internal_validate(), Ok(()));
    let mean = bits.iter().sum::<f64>() / bits.len() as f64;
    let distinct = table.distinct_items(0) as f64 / counts.len() as f64;
    let exact = counts.iter().filter(|(item, count)| table.occurrences(hash(**item)) == **count).count();
    println!("{mean:.3} bits per item, {distinct:.4} of the distinct items, {exact} of {}", counts.len());
    assert!(mean <= 20.40 * 1.03, "{mean}");
    assert!((0.99..1.03).contains(&distinct), "{distinct}");
    assert!(exact >= counts.len() / 1000 * 990, "{exact} of {}", counts.len());
    assert_eq!(table.items(0), ADDS);
    remove_all(&mut table, &counts);
}

/// The hot items of each table have entries of other lengths. Together these take more slots than a bucket has.
#[test]
fn tables_with_hot_items_are_united() {
    let (mut random, mut counts, mut tables) = (Random(8), HashMap::new(), Vec::new());
    for number in 0..12 {
        let mut table = counted(0.01);
        for _ in 0..120_000 >> (number % 4) {
            let item = zipf(&mut random);
            add(&mut table, item).unwrap();
            *counts.entry(item).or_insert(0u64) += 1;
        }
        tables.push(table);
    }
    let tables: Vec<&Table> = tables.iter().collect();
    let mut united = union_of(tables[0], &tables[1..]);
    assert_eq!(united.internal_validate(), Ok(()));
    assert_eq!(united.items(0), counts.values().sum::<u64>());
    assert!(counts.iter().all(|(item, count)| united.occurrences(hash(*item)) >= *count));
    remove_all(&mut united, &counts);
}

/// Some items of one bucket are added often at each size of the table. A bucket has no room for an entry of each item
/// and size.
#[test]
fn hot_items_of_one_bucket_are_never_refused() {
    let (mut table, mut added) = (counted(0.01), 0u64);
    let hot = |item: u64| ItemHash { h1: item << 16 | 0x5555, h2: 7 << 58 | item };
    for item in 1..most_items() {
        add(&mut table, item).unwrap();
        if item.is_power_of_two() {
            for item in 0..5 {
                for _ in 0..5_000 {
                    let added = insert(&mut table, Addition { hash: hot(item), ..addition(0) }, &any());
                    assert!(added.is_ok(), "{item}: {added:?}");
                }
            }
            added += 5_000;
        }
    }
    for item in (0..5).rev() {
        assert!(table.occurrences(hot(item)) >= added);
        for _ in 0..added {
            table.remove_each(&[hot(item)], NoPrefetch, |removed| removed == Ok(true) || panic!("{item}"));
        }
    }
    assert!((1..most_items()).all(|item| has(&table, item)));
    assert_eq!(table.internal_validate(), Ok(()));
}

/// Each of some items is added at each size of the table, once, twice or often.
#[test]
fn an_item_of_every_doubling_is_never_refused() {
    let (mut table, mut counts) = (counted(0.01), HashMap::new());
    for item in 1..=most_items() {
        add(&mut table, item).unwrap();
        if item.is_power_of_two() {
            for (hot, times) in [1, 2, 3, 20, 5_000]
                .into_iter()
                .zip(1u64..)
                .flat_map(|(times, first)| (0..20).map(move |number| (1 << 40 | first << 20 | number, times)))
            {
                (0..times).for_each(|_| _ = add(&mut table, hot).unwrap());
                *counts.entry(hot).or_insert(0) += times;
            }
        }
    }
    for (hot, times) in &counts {
        assert!(table.occurrences(hash(*hot)) >= *times, "{hot}");
    }
    for (hot, times) in &counts {
        (0..*times).for_each(|_| assert_eq!(remove(&mut table, *hot, NoPrefetch), Ok(true), "{hot}"));
    }
    assert!((1..=most_items()).all(|item| has(&table, item)));
    assert_eq!(table.items(0), most_items());
    assert_eq!(table.internal_validate(), Ok(()));
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
    for (round, peak) in [effort(700_000u64, 2_000_000), 300_000, 500_000].into_iter().enumerate() {
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

/// The entries of the oldest items are short, so they match many later items. These must not be counted on them.
#[test]
fn the_oldest_items_are_counted_exactly_and_can_be_deleted() {
    for (error_rate, oldest, wrong_max) in [(0.01, 1_000, 20), (0.001, 20_000, 50)] {
        let (mut table, mut next, mut bits) = (counted(error_rate), oldest, Vec::new());
        for items in 1..=most_items() {
            add(&mut table, items).unwrap();
            if items < next && items < most_items() {
                continue;
            }
            next = next * 5 / 3;
            bits.push(table.size_bytes() as f64 * 8.0 / items as f64);
            let wrong = (1..=oldest).filter(|item| table.occurrences(hash(*item)) != 1).count();
            let mut left = table.try_clone().unwrap();
            assert!((1..=oldest).all(|item| remove(&mut left, item, NoPrefetch) == Ok(true)));
            let found = (1..=oldest).filter(|item| has(&left, *item)).count();
            println!(
                "{error_rate}, {items}: of {oldest}, {wrong} have a wrong count and {found} are found after deletion"
            );
            assert!(wrong <= wrong_max && found <= wrong_max, "{items}: {wrong} wrong, {found} found");
            let distinct = table.distinct_items(0);
            assert!(distinct <= items && distinct > items / 1000 * 995, "{items}: {distinct} distinct");
            assert!((oldest + 1..=items).all(|item| has(&left, item)), "{items}");
        }
        let mean = bits.iter().sum::<f64>() / bits.len() as f64;
        println!("{mean:.2} bits per item, at most {:.2}", bits.iter().copied().fold(0.0, f64::max));
        assert!(error_rate < 0.01 || mean <= 17.0 && bits.iter().all(|bits| *bits <= 18.0), "{bits:?}");
    }
}
