//! Plain entries: every item that was added is found, at any size.

use everbloom::bloom::table::{Addition, Counting, EntryKind, Table, TableSpec};
use everbloom::bloom::{AddError, Added, NoPrefetch, ReserveError, Room};

use super::rates::most_items;
use super::{add, addition, any, bytes, has, hash, measured_rate, plain};

#[test]
fn every_item_is_found_while_the_table_grows() {
    for (error_rate, items) in [(0.01, 300_000u64), (0.3, 300_000), (1e-6, 100_000), (1e-15, 30_000)] {
        let (mut table, mut new, mut check_at) = (plain(error_rate), 0, 1);
        for item in 0..items {
            new += u64::from(add(&mut table, item) == Ok(Added::New));
            assert!(has(&table, item), "{error_rate}: {item} of itself");
            if item == check_at {
                check_at += check_at / 8 + 1;
                let missing = (0..item).step_by(1 + item as usize / 20_000).find(|item| !has(&table, *item));
                assert_eq!(missing, None, "{error_rate}: of {item}");
                assert_eq!(table.internal_validate(), Ok(()), "{error_rate}: of {item}");
            }
        }
        assert!((0..items).all(|item| has(&table, item)), "{error_rate}");
        assert_eq!(table.items(0), new);
        assert_eq!(table.internal_validate(), Ok(()), "{error_rate}");
        assert!((0..items).all(|item| add(&mut table, item) == Ok(Added::Present)), "{error_rate}");
    }
}

#[test]
fn every_item_of_a_large_table_is_found() {
    let (mut table, items) = (plain(0.01), most_items().max(1_000_000));
    let mut hashes = Vec::new();
    let addition = addition(0);
    for first in (0..items).step_by(64) {
        hashes.clear();
        hashes.extend((first..first + 64).map(hash));
        let outcomes = table.add_each(&hashes, u64::MAX, addition, &any(), NoPrefetch);
        assert_eq!(outcomes.refused, None);
        assert_eq!(table.contains_each(&hashes, u64::MAX, 0, NoPrefetch), u64::MAX, "{first}");
    }
    assert!((0..items).all(|item| has(&table, item)));
    assert_eq!(table.internal_validate(), Ok(()));
    let measured = measured_rate(&table, 0, 1_000_000);
    assert!(measured < 0.01 && (measured / table.error_rate(0) - 1.0).abs() < 0.1, "{measured}");
}

#[test]
fn a_group_has_the_outcome_of_single_items() {
    let (mut single, mut group) = (plain(0.05), plain(0.05));
    let addition = addition(0);
    for first in (0..100_000u64).step_by(40) {
        let hashes: Vec<_> = (first..first + 64).map(|item| hash(item / 2 * 3)).collect();
        let wanted = 0xfff0_ffff_ffff_f00f;
        let outcomes = group.add_each(&hashes, wanted, addition, &any(), NoPrefetch);
        for (index, hash) in hashes.iter().enumerate().filter(|(index, _)| wanted >> index & 1 == 1) {
            let outcome = single.add(Addition { hash: *hash, ..addition }, &any(), NoPrefetch).unwrap();
            assert_eq!(outcomes.new >> index & 1 == 1, outcome == Added::New, "{first}, {index}");
        }
        let found = group.contains_each(&hashes, wanted, 0, NoPrefetch);
        let expected = (0..64).filter(|index| single.contains(hashes[*index], 0, NoPrefetch));
        assert_eq!(found, expected.fold(0, |set, index| set | 1 << index) & wanted);
    }
    assert_eq!(bytes(&single), bytes(&group));
    assert_eq!((single.items(0), single.error_rate(0)), (group.items(0), group.error_rate(0)));
}

#[test]
fn a_refused_add_changes_nothing() {
    let (mut table, mut refused, mut limit) = (plain(0.01), 0u64, 200u64);
    let mut item = 0;
    while table.items(0) < 30_000 {
        let room = Room::new(&limit);
        room.set_other_bytes(100);
        let addition = Addition { hash: hash(item), ..addition(0) };
        let (before, items) = (bytes(&table), table.items(0));
        match table.add(addition, &room, NoPrefetch) {
            Ok(outcome) => {
                assert!(table.size_bytes() + 100 <= limit.max(300), "{} of {limit}", table.size_bytes());
                item += 1;
                assert_eq!(table.items(0), items + u64::from(outcome == Added::New));
            }
            Err(AddError::CannotGrow(ReserveError::TooLarge { needed_bytes, limit: exceeded })) => {
                assert!(needed_bytes > limit && exceeded == limit.into());
                assert_eq!((bytes(&table), table.items(0)), (before, items));
                refused += 1;
                limit += limit / 32 + 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 50, "{refused}");
    assert!((0..item).all(|item| has(&table, item)));
    // The same adds without a limit come to the same bytes.
    let mut free = plain(0.01);
    (0..item).for_each(|item| {
        let _ = add(&mut free, item);
    });
    assert_eq!(bytes(&table), bytes(&free));
}

#[test]
fn a_table_is_saved_and_loaded() {
    for items in [0, 1, 100, 113, 5_000, 6_000, 200_000] {
        let mut table = plain(0.01);
        (0..items).for_each(|item| {
            let _ = add(&mut table, item);
        });
        let mut loaded = Table::try_of_counts(EntryKind::Plain, table.counts(), &any()).unwrap();
        for number in 0..table.counts().segments {
            let (words, stamp) = table.segment(number).unwrap();
            loaded.set_segment(number, words.into(), stamp).unwrap();
        }
        assert_eq!(loaded.internal_validate(), Ok(()));
        assert_eq!(bytes(&loaded), bytes(&table));
        assert_eq!(loaded.error_rate(0), table.error_rate(0));
        let copy = table.try_clone().unwrap();
        assert_eq!((bytes(&copy), copy.counts()), (bytes(&table), table.counts()));
        // What follows is the same, too.
        let (mut one, mut other) = (table, loaded);
        (items..items * 2).for_each(|item| assert_eq!(add(&mut one, item), add(&mut other, item)));
        assert_eq!(bytes(&one), bytes(&other));
    }
}

#[test]
fn the_union_of_tables_has_the_items_of_both() {
    for (left, right) in [(0, 1_000), (1_000, 0), (100, 200_000), (200_000, 100), (70_000, 50_000)] {
        let (mut table, mut source) = (plain(0.001), plain(0.01));
        (0..left).for_each(|item| {
            let _ = add(&mut table, item);
        });
        (0..right).for_each(|item| {
            let _ = add(&mut source, item + left / 2);
        });
        let sum = table.error_rate(0) + source.error_rate(0);
        table.grow_for(source.used_slots(), 0, &any()).unwrap();
        for number in 0..source.counts().segments {
            source.visit_segment(number, |entry| {
                table.add_entry(entry, Counting::Sum, 0, &any()).unwrap();
            });
        }
        assert_eq!(table.internal_validate(), Ok(()), "{left} + {right}");
        assert!((0..left).all(|item| has(&table, item)), "{left} + {right}");
        assert!((0..right).all(|item| has(&table, item + left / 2)), "{left} + {right}");
        assert!(table.error_rate(0) <= sum * 1.0001, "{} {sum}", table.error_rate(0));
        // Entries that come again change nothing.
        let before = bytes(&table);
        for number in 0..source.counts().segments {
            source.visit_segment(number, |entry| {
                assert_eq!(table.add_entry(entry, Counting::Sum, 0, &any()), Ok(false));
            });
        }
        assert_eq!(bytes(&table), before);
    }
}

#[test]
fn a_table_of_the_size_of_another_takes_its_entries_unchanged() {
    let mut table = plain(0.01);
    (0..100_000).for_each(|item| {
        let _ = add(&mut table, item);
    });
    let mut again = Table::try_new(TableSpec { error_rate: 0.01, kind: EntryKind::Plain, items: 0 }).unwrap();
    let mut entries = Vec::new();
    for number in 0..table.counts().segments {
        table.visit_segment(number, |entry| entries.push(entry));
    }
    for entry in &entries {
        again.add_entry(*entry, Counting::Sum, 0, &any()).unwrap();
    }
    assert_eq!(entries.len() as u64, table.used_slots());
    assert!((0..100_000).all(|item| has(&again, item)));
}
