//! Counted and timed entries: what is left of items that were removed or have expired, and which of several entries an
//! operation takes.

use std::collections::BTreeMap;

use everbloom::Steps;
use everbloom_filter::Added;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::table::{Addition, EntryKind, History, Table};

use super::forged::now_of;
use super::{KINDS, add, add_kind, addition, any, counted, has, has_at, hash, measured_rate, of_kind, timed};
use crate::support::effort;
use crate::support::make::insert;

fn remove(table: &mut Table, item: u64) -> bool {
    super::remove(table, item, NoPrefetch).unwrap()
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
    // Removed items leave fewer slots in use than a thousandth of their number.
    assert!(table.used_slots() < 3_000 + items / 1000, "{}", table.used_slots());
    assert_eq!(table.internal_validate(), Ok(()));
}

/// The slots of these tables become as wide as slots can be.
#[test]
fn items_with_the_longest_entries_are_found() {
    let fine = EntryKind::Timed(Steps::Fine);
    for kind in KINDS.into_iter().chain([fine]) {
        let mut table = of_kind(kind, 1e-15, 50);
        for item in 0..5_000 {
            add_kind(&mut table, item, now_of(kind));
        }
        assert_eq!(table.internal_validate(), Ok(()), "{kind:?}");
        assert!((0..5_000).all(|item| has_at(&table, item, now_of(kind))), "{kind:?}");
    }
}

/// Entries that were added while the table was small become void. When their item is removed, copies of them stay
/// behind.
#[test]
fn leftovers_of_removed_items_are_few_and_are_shown() {
    for error_rate in [0.5, 0.01] {
        let (mut table, items) = (counted(error_rate), 1_000_000u64);
        (0..items).for_each(|item| _ = add(&mut table, item).unwrap());
        let void = table.match_all_counts().void_entries;
        assert!(void <= items / 100, "{error_rate}: {void} void entries of {items}");
        let stats = table.stats(0);
        assert_eq!(
            (stats.match_all_counts, stats.match_all_counts.saturated_buckets),
            (table.match_all_counts(), 0)
        );
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

fn add_at(table: &mut Table, item: u64, added: u64, now: u64) -> Added {
    let addition = Addition { hash: hash(item), generation: added, ..addition(now) };
    insert(table, addition, &any()).unwrap()
}

#[test]
fn memory_is_that_of_the_live_items_at_any_traffic() {
    for (error_rate, mean_max, worst_max) in [(0.01, 17.85, 19.7), (0.001, 22.0, 23.9)] {
        let mut means = BTreeMap::new();
        let sizes = [10_000u64, 14_000, 20_000, 29_000, 41_000, 60_000, 90_000, 130_000, 200_000];
        for &items in effort(&sizes[..6], &sizes) {
            for (name, at) in [
                ("even", [1; 15]),
                ("once", [15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
                ("quarters", [4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0]),
            ] {
                let (mut table, mut next, mut worst, mut live) =
                    (timed(error_rate, items), 0u64, 0.0f64, Vec::new());
                for now in 1_000..1_060u64 {
                    // The even traffic adds a fourteenth of the capacity in each generation, the others the whole
                    // capacity in fifteen generations.
                    let adds = items * at[(now % 15) as usize] / if name == "even" { 14 } else { 15 };
                    (next..next + adds).for_each(|item| _ = add_at(&mut table, item, now, now));
                    next += adds;
                    live.push(adds);
                    let live = live.iter().rev().take(15).sum::<u64>();
                    if now > 1_030 && adds > 0 {
                        worst = worst.max(table.size_bytes() as f64 * 8.0 / live as f64);
                    }
                }
                let rate = table.error_rate(1_059);
                println!("{error_rate}, {items}, {name}: {worst:.2} bits per live item, rate {rate:.5}");
                assert!(rate <= error_rate, "{error_rate}, {items}, {name}: {rate}");
                means.entry(name).or_insert_with(Vec::new).push(worst);
            }
        }
        for (name, bits) in means {
            let mean = bits.iter().sum::<f64>() / bits.len() as f64;
            let worst = bits.iter().copied().fold(0.0, f64::max);
            println!("{error_rate}, {name}: mean {mean:.2}, worst {worst:.2}");
            assert!(mean <= mean_max && worst <= worst_max, "{error_rate}, {name}: {mean}, {worst}");
        }
    }
}

/// A shorter entry stands for more items. If each of them refreshed it, it would never expire.
#[test]
fn an_add_refreshes_no_shorter_entry_but_stores_a_new_one() {
    // The first items are added while the table is far smaller than at the end.
    let mut table = timed(0.01, 500);
    (0..300).for_each(|item| assert_ne!(add_at(&mut table, item, 100, 100), Added::Present));
    (1_000..20_000).for_each(|item| _ = add_at(&mut table, item, 104, 104));
    let (used, items) = (table.used_slots(), table.items(104));
    // Each item is present, and gets a further entry. The second add refreshes that entry.
    for item in 0..300 {
        assert_eq!(add_at(&mut table, item, 105, 105), Added::Again, "{item}");
    }
    assert!(table.used_slots() >= used + 295 && table.items(105) >= items + 295);
    let used = table.used_slots();
    for item in 0..300 {
        assert_eq!(add_at(&mut table, item, 106, 106), Added::Again, "{item}");
    }
    assert!(table.used_slots() <= used + 5);
    // The short entries expire in time, and the other items that they matched are no longer found.
    let others: Vec<_> =
        (1 << 40..(1 << 40) + 200_000).filter(|item| table.contains(hash(*item), 114, NoPrefetch)).collect();
    let left = others.iter().filter(|item| table.contains(hash(**item), 119, NoPrefetch)).count();
    assert!(left * 10 < others.len(), "{left} of {}", others.len());
    assert!((0..300).all(|item| table.contains(hash(item), 120, NoPrefetch)));
    let found = (0..300).filter(|item| table.contains(hash(*item), 121, NoPrefetch)).count();
    assert!(found < 10, "{found}");
}

#[test]
fn a_sweep_of_the_only_segment_counts_its_expired_entries_once() {
    let mut table = timed(0.01, 1_000);
    let mut items = 0..;
    while table.counts().entries < 5_000 || table.counts().entries % 256 != 255 {
        add_at(&mut table, items.next().unwrap(), 100, 100);
    }
    assert_eq!(table.segment_count(), 1);
    // This entry is stored when a sweep is due, and all others have expired.
    add_at(&mut table, items.next().unwrap(), 1_000, 1_000);
    assert_eq!(table.internal_validate(), Ok(()));
    assert_eq!(table.items(1_000), 1);
}

/// Of each generation, the items are live as long as its entries are, at any time before and after the newest.
#[test]
fn live_items_are_those_of_the_live_generations() {
    for newest in [1u64, 14, 15, 16, 17, 40] {
        let mut history = History { newest, items: [0; 16] };
        let generations = newest.saturating_sub(15)..=newest;
        generations
            .clone()
            .for_each(|generation| history.items[(generation % 16) as usize] = 1 << generation);
        for now in 0..newest + 20 {
            let live = generations.clone().filter(|generation| Steps::Fourteen.is_live(*generation, now));
            assert_eq!(
                history.live_items(now),
                live.map(|generation| 1u64 << generation).sum::<u64>(),
                "{newest}, {now}"
            );
        }
    }
}
