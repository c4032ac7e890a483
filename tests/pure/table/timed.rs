//! Timed entries: as a map of times.

use std::collections::{BTreeMap, HashMap};

use everbloom::bloom::table::{Addition, Counting, Table};
use everbloom::bloom::{Added, NoPrefetch};

use super::{addition, any, bytes, hash, measured_rate, timed};
use crate::support::Random;

fn add_at(table: &mut Table, item: u64, added: u64, now: u64) -> Added {
    let addition = Addition { hash: hash(item), added, ..addition(now) };
    table.add(addition, &any(), NoPrefetch).unwrap()
}

#[test]
fn items_are_found_until_they_expire() {
    for (error_rate, items, seed) in [(0.01, 20_000u64, 1u64), (0.001, 3_000, 2), (0.2, 100_000, 3)] {
        let (mut table, mut random) = (timed(error_rate, items), Random(seed));
        let (mut times, mut next) = (HashMap::<u64, u64>::new(), 0u64);
        let mut now = 1_000u64;
        for step in 0..60 {
            // Even paces, bursts, pauses, and four times the pace.
            let adds = match step % 12 {
                0..5 => items / 15,
                5 => items,
                6..9 => 0,
                _ => items / 4,
            };
            for _ in 0..adds {
                let old = random.next() % 4 == 0;
                let item = if old { next - (random.next() % items).min(next) } else { next };
                next += u64::from(!old);
                // Some items come late.
                let added = if random.next() % 8 == 0 { now - random.next() % 15 } else { now };
                let outcome = add_at(&mut table, item, added, now);
                let live = times.get(&item).is_some_and(|added| now - added < 15);
                assert!(!live || outcome != Added::New, "{item} at {now}");
                let time = times.entry(item).or_default();
                *time = (*time).max(added);
            }
            for (item, added) in times.iter().filter(|(item, _)| (**item + step) % 7 == 0) {
                let is_found = table.contains(hash(*item), now, NoPrefetch);
                assert!(is_found || now - added >= 15, "{error_rate}: {item} of {added} at {now}");
            }
            assert_eq!(table.internal_validate(), Ok(()), "{error_rate} at {now}");
            let old: Vec<_> =
                times.iter().filter(|(_, added)| now - **added >= 15).map(|(item, _)| *item).collect();
            let found = old.iter().filter(|item| table.contains(hash(**item), now, NoPrefetch)).count();
            let most = error_rate * old.len() as f64;
            assert!(
                found as f64 <= most + 5.0 * most.sqrt() + 1.0,
                "{error_rate} at {now}: {found} of {}",
                old.len()
            );
            times.retain(|_, added| now - *added < 40);
            if adds > 0 {
                let measured = measured_rate(&table, now, 20_000);
                assert!(
                    measured <= error_rate + 5.0 * (error_rate / 20_000.0).sqrt(),
                    "{error_rate} at {now}: {measured}"
                );
            }
            now += if step % 12 == 8 { 1 + random.next() % 40 } else { 1 };
        }
    }
}

#[test]
fn lookups_and_adds_that_store_nothing_change_nothing() {
    let mut table = timed(0.01, 10_000);
    (0..10_000).for_each(|item| {
        let _ = add_at(&mut table, item, 100, 100);
    });
    let before = (bytes(&table), table.counts());
    for now in 100..130 {
        assert_eq!((0..10_000).all(|item| table.contains(hash(item), now, NoPrefetch)), now < 115);
        let keeps = Addition { hash: hash(5), keeps_generation: true, ..addition(now) };
        if now < 115 {
            assert_eq!(table.add(keeps, &any(), NoPrefetch), Ok(Added::Present));
        }
    }
    assert_eq!(add_at(&mut table, 7, 100, 110), Added::Present);
    assert_eq!((bytes(&table), table.counts()), before);
}

#[test]
fn memory_is_that_of_the_live_items_at_any_traffic() {
    for (error_rate, mean_max, worst_max) in [(0.01, 17.8, 19.7), (0.001, 22.0, 23.9)] {
        let mut means = BTreeMap::new();
        for items in [10_000u64, 14_000, 20_000, 29_000, 41_000, 60_000, 90_000, 130_000, 200_000] {
            for (name, at) in [
                ("even", [1; 15]),
                ("once", [15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
                ("quarters", [4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0]),
            ] {
                let (mut table, mut next, mut worst, mut live) =
                    (timed(error_rate, items), 0u64, 0.0f64, Vec::new());
                for now in 1_000..1_060u64 {
                    // A fourteenth in each generation, or the whole capacity in fifteen of them.
                    let adds = items * at[(now % 15) as usize] / if name == "even" { 14 } else { 15 };
                    (next..next + adds).for_each(|item| {
                        let _ = add_at(&mut table, item, now, now);
                    });
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
    // Each is there, and gets a further entry; the second time that one is refreshed.
    for item in 0..300 {
        assert_eq!(add_at(&mut table, item, 105, 105), Added::Again, "{item}");
    }
    assert!(table.used_slots() >= used + 295 && table.items(105) >= items + 295);
    let used = table.used_slots();
    for item in 0..300 {
        assert_eq!(add_at(&mut table, item, 106, 106), Added::Again, "{item}");
    }
    assert!(table.used_slots() <= used + 5);
    // The short ones expire in time: what they matched besides is not found any more.
    let others: Vec<_> =
        (1 << 40..(1 << 40) + 200_000).filter(|item| table.contains(hash(*item), 114, NoPrefetch)).collect();
    let left = others.iter().filter(|item| table.contains(hash(**item), 119, NoPrefetch)).count();
    assert!(left * 10 < others.len(), "{left} of {}", others.len());
    assert!((0..300).all(|item| table.contains(hash(item), 120, NoPrefetch)));
    let found = (0..300).filter(|item| table.contains(hash(*item), 121, NoPrefetch)).count();
    assert!(found < 10, "{found}");
}

/// The memory of what has expired is free after 256 adds for each segment, and after a sixteenth of the capacity.
#[test]
fn expired_memory_is_free_after_some_adds() {
    for items in [20_000u64, 100_000] {
        let mut table = timed(0.01, items);
        (0..4 * items).for_each(|item| _ = add_at(&mut table, item, 100, 100));
        let full = table.size_bytes();
        let segments = table.segment_count() as u64;
        (0..256 * segments).for_each(|item| _ = add_at(&mut table, item + 10 * items, 120, 120));
        let live = table.items(120);
        assert!(table.used_slots() <= live + live / 50, "{items}: {} used, {live} live", table.used_slots());
        assert!(table.size_bytes() < full / 2, "{items}: {} of {full} bytes", table.size_bytes());
        assert_eq!(table.internal_validate(), Ok(()));
    }
}

#[test]
fn the_union_keeps_the_newest_generation() {
    let (mut table, mut source) = (timed(0.01, 5_000), timed(0.01, 20_000));
    (0..4_000).for_each(|item| {
        let _ = add_at(&mut table, item, 100, 100);
    });
    (2_000..9_000).for_each(|item| {
        let _ = add_at(&mut source, item, 107, 107);
    });
    table.grow_for(source.used_slots(), 108, &any()).unwrap();
    for number in 0..source.counts().segments {
        source.visit_segment(number, |entry| {
            let _ = table.add_entry(entry, Counting::Sum, 108, &any());
        });
    }
    assert_eq!(table.internal_validate(), Ok(()));
    assert!((0..9_000).all(|item| table.contains(hash(item), 114, NoPrefetch)));
    assert!((2_000..9_000).all(|item| table.contains(hash(item), 121, NoPrefetch)));
    let expired = (0..2_000).filter(|item| table.contains(hash(*item), 115, NoPrefetch)).count();
    assert!(expired < 60, "{expired}");
    assert!((0..9_000).filter(|item| table.contains(hash(*item), 122, NoPrefetch)).count() < 200);
}

#[test]
fn a_sweep_of_the_only_segment_counts_its_expired_entries_once() {
    let mut table = timed(0.01, 1_000);
    let mut items = 0..;
    while table.counts().tally < 5_000 || table.counts().tally % 256 != 255 {
        add_at(&mut table, items.next().unwrap(), 100, 100);
    }
    assert_eq!(table.segment_count(), 1);
    // This entry is stored when a sweep is due, and all others have expired.
    add_at(&mut table, items.next().unwrap(), 1_000, 1_000);
    assert_eq!(table.internal_validate(), Ok(()));
    assert_eq!(table.items(1_000), 1);
}
