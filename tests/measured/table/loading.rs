//! Parts of dumps that do not fit the table that their header describes, or that are crafted.

use everbloom_filter::table::{
    Addition, DumpedSegment, EntryKind, LoadError, POSITIONS, Schedule, Table, TableCounts, TableLoad,
};
use everbloom_filter::{GrowthBudget, ItemHash};

use super::forged::{forged, words};
use super::segments::{add_part, is_proportionate, load_of, made_of, made_of_parts, parts};
use super::{KINDS, add, add_kind, addition, any, bytes, has_at, hash, of_kind, plain};
use crate::support::Random;
use crate::support::fuzz::forge::{self, Filling, TableForm};
use crate::support::make::insert;

/// Returns a table with some items, and `segments` segments.
fn sparse(kind: EntryKind, segments: usize, items: u64) -> Table {
    let counts = TableCounts { segments, blocks_log: 6, ..of_kind(kind, 0.01, 50).counts() };
    let mut table = Table::try_of_counts(kind, counts, 0, &any()).unwrap();
    (0..items).for_each(|item| _ = add_kind(&mut table, item, 20));
    table
}

/// Returns a segment of plain entries, each given by its block, bucket and value.
fn plain_segment(slots: &[(u32, u32, u64)]) -> DumpedSegment {
    let width = TableForm::of_table(&plain(0.01)).width(0, 6);
    let segment = forge::segment(6, width, 4, slots).unwrap();
    DumpedSegment { number: 0, depth: 0, blocks_log: 6, stamp: 0, words: words(&segment) }
}

/// A million slots of this table take at least a megabyte.
#[test]
fn a_table_above_the_limit_is_refused_before_its_segments_are_read() {
    let counts = TableCounts { segments: 163, blocks_log: 6, items: 1_000_000, ..plain(0.01).counts() };
    for (limit, is_accepted) in [(900_000, false), (2_000_000, true)] {
        let table = Table::try_of_counts(EntryKind::Plain, counts, 1_000_000, &GrowthBudget::new(&limit));
        assert_eq!(table.is_ok(), is_accepted, "{limit}");
        assert!(table.err().is_none_or(|error| matches!(error, LoadError::NoRoom(_))));
    }
}

#[test]
fn items_without_entries_are_refused() {
    for kind in [EntryKind::Plain, EntryKind::Counted] {
        let counts = TableCounts { items: 5, ..of_kind(kind, 0.01, 0).counts() };
        let refused = Table::try_of_counts(kind, counts, 0, &any()).err();
        let expected = LoadError::Invalid("the number of items does not fit the entries");
        assert_eq!(refused, Some(expected), "{kind:?}");
    }
}

/// A table has at most 2^30 segments of 2^6 blocks.
#[test]
fn a_schedule_for_more_than_the_largest_size_is_refused() {
    let counts = of_kind(EntryKind::Timed(everbloom::Steps::Fourteen), 0.01, 50).counts();
    for (size_log, is_accepted) in [(0, true), (36, true), (37, false), (255, false)] {
        let counts = TableCounts { schedule: Schedule::FromCapacity { base: 10, size_log }, ..counts };
        let made = Table::try_of_counts(EntryKind::Timed(everbloom::Steps::Fourteen), counts, 0, &any());
        assert_eq!(made.is_ok(), is_accepted, "{size_log}");
    }
}

/// A part with entries of every length. Short ones match items of several segments of a larger table. A small table of
/// counted entries has none of them.
#[test]
fn an_entry_reaches_every_segment_that_has_its_items() {
    for kind in [EntryKind::Plain, EntryKind::Timed(everbloom::Steps::Fourteen)] {
        for (most, sizes) in [(60, &[2, 3, 8, 300, 512][..]), (1000, &[2, 3, 8])] {
            let source = forged(kind, Filling::Lengths, 6, 1, most).unwrap().table;
            for segments in sizes.iter().copied() {
                let other = sparse(kind, segments, 5);
                let all = parts(&source).into_iter().chain(parts(&other));
                let table = made_of_parts(&other, all.map(|(part, _)| part));
                let found = (0..100_000).filter(|item| has_at(&source, *item, 100)).count();
                let kept =
                    (0..100_000).filter(|item| has_at(&source, *item, 100) && has_at(&table, *item, 100));
                assert_eq!(kept.count(), found, "{kind:?}, {most} slots, {segments} segments");
                assert!(found > 100, "{found}");
                // Those of timed entries have expired.
                let is_found = |item| kind != EntryKind::Plain || has_at(&table, item, 0);
                assert!((0..5).all(is_found), "{kind:?}, {segments} segments");
            }
        }
    }
}

#[test]
fn the_parts_of_a_small_table_complete_the_load_of_a_large_one() {
    for kind in KINDS {
        let source = sparse(kind, 1, 2000);
        for segments in [1, 2, 3, 64, 300, 512, 1 << 20] {
            let counts = TableCounts { segments, blocks_log: 6, ..source.counts() };
            let mut load = TableLoad::new(kind, counts, source.used_slots()).unwrap();
            add_part(&mut load, parts(&source).remove(0).0).unwrap();
            let table = made_of(&mut load);
            assert!(is_proportionate(&table), "{kind:?}, {segments} segments");
            assert!((0..2000).all(|item| has_at(&table, item, 20)), "{kind:?}, {segments} segments");
        }
    }
}

/// The lowest three bits are 0 in the hashes of all items. So a table of up to eight segments has them in its first one,
/// which is too full for those of two tables.
#[test]
fn two_versions_of_a_part_that_do_not_fit_together_are_refused() {
    let mut random = Random(9);
    let mut crafted = || {
        let mut table = plain(0.01);
        while table.used_slots() < 4_500 {
            let hash = ItemHash { h1: random.next() & !7, h2: random.next() };
            insert(&mut table, Addition { hash, ..addition(0) }, &any()).unwrap();
        }
        assert_eq!(table.segment_count(), 1);
        table
    };
    let (one, other) = (crafted(), crafted());
    let mut load = load_of(&one);
    add_part(&mut load, parts(&one).remove(0).0).unwrap();
    let before = load.size_bytes();
    assert_eq!(add_part(&mut load, parts(&other).remove(0).0).err(), Some(LoadError::Overlapping));
    assert_eq!(load.size_bytes(), before);
    assert!(bytes(&made_of(&mut load)) == bytes(&one));
}

/// Segments of different depths may have the same items, because a table can grow and shrink while it is dumped.
#[test]
fn a_segment_twice_in_one_chunk_is_refused() {
    let segment =
        |number: usize, depth: u32| DumpedSegment { number, depth, ..plain_segment(&[(0, 5, 1 << 9)]) };
    for (numbers, is_accepted) in [
        (vec![(0, 0), (0, 0)], false),
        (vec![(1, 0)], false),
        (vec![(4, 2)], false),
        (vec![(0, 0), (0, 1)], true),
        (vec![(0, 2), (2, 2), (1, 1), (0, 1)], true),
        (vec![(3, 2), (0, 1), (1, 2)], true),
    ] {
        let mut load = load_of(&plain(0.01));
        let segments = numbers.iter().map(|(number, depth)| segment(*number, *depth)).collect();
        let loaded = load.add(segments, u64::MAX, &any());
        assert_eq!(loaded.is_ok(), is_accepted, "{numbers:?}: {loaded:?}");
        assert_eq!(load.part_count(), if is_accepted { numbers.len() } else { 0 }, "{numbers:?}");
    }
}

/// Each position has the items whose first hash, with its lowest bits first, is at least that position.
#[test]
fn a_part_from_the_middle_has_only_the_entries_from_its_position_on() {
    let mut table = plain(0.000_1);
    (0..2000).for_each(|item| _ = add(&mut table, item).unwrap());
    assert_eq!((table.segment_count(), table.used_slots()), (1, 2000));
    for position in (1..64).map(|step| step * (POSITIONS >> 12)) {
        let (part, end) = table.segment_at(position).unwrap().unwrap();
        assert_eq!(end, POSITIONS);
        let rest = made_of_parts(&table, [part]);
        let is_after = |item: &u64| u64::from((hash(*item).h1 as u32).reverse_bits()) >= position;
        assert_eq!(rest.used_slots(), (0..2000).filter(is_after).count() as u64, "{position}");
    }
}

/// A dumped table whose items have gone is large. The loaded one has the size for its items.
#[test]
fn the_loaded_table_has_a_size_for_its_entries() {
    for kind in KINDS {
        for (segments, items) in [(400, 200), (401, 200), (3000, 200)] {
            let source = sparse(kind, segments, items);
            let made = made_of_parts(&source, parts(&source).into_iter().map(|(part, _)| part));
            assert!(
                is_proportionate(&made) && made.segment_count() <= 400,
                "{kind:?}: {}",
                made.segment_count()
            );
            assert_eq!(bytes(&made) == bytes(&source), segments == 400, "{kind:?}: {segments}");
            assert_eq!(made.items(20), items, "{kind:?}");
            assert!((0..items).all(|item| has_at(&made, item, 20)), "{kind:?}");
        }
    }
}

/// A table that a client brings has at most the size for eight times its slots, or 400 segments. One of timed entries may
/// have 65,536, because it is as large as it was when its items were live.
#[test]
fn a_table_far_too_large_for_its_entries_is_out_of_proportion() {
    for kind in KINDS {
        let most = if kind.is_timed() { 1 << 16 } else { 400 };
        for (segments, is_accepted) in [(1, true), (400, true), (most, true), (most + 1, false)] {
            assert_eq!(is_proportionate(&sparse(kind, segments, 5)), is_accepted, "{kind:?}: {segments}");
        }
    }
    let full = forged(EntryKind::Plain, Filling::Long, 6, 1200, 1000).unwrap().table;
    assert!(is_proportionate(&full));
}

/// Whatever has come is taken back part by part, and a copy of a load takes the same parts.
#[test]
fn a_part_is_taken_back() {
    for kind in KINDS {
        let source = sparse(kind, 5, 9_000);
        let mut load = load_of(&source);
        let mut all = parts(&source).into_iter().map(|(part, _)| part);
        add_part(&mut load, all.next().unwrap()).unwrap();
        for part in all {
            let before =
                (load.part_count(), load.size_bytes(), format!("{:?}", load.parts().collect::<Vec<_>>()));
            let replaced = add_part(&mut load, part.clone()).unwrap();
            assert!(!replaced.is_empty() && load.part_count() == before.0 + 1);
            load.take_back(replaced);
            let after =
                (load.part_count(), load.size_bytes(), format!("{:?}", load.parts().collect::<Vec<_>>()));
            assert_eq!(after, before, "{kind:?}");
            let mut copy = load.try_clone().unwrap();
            add_part(&mut copy, part.clone()).unwrap();
            add_part(&mut load, part).unwrap();
            assert!(copy.parts().eq(load.parts()), "{kind:?}");
        }
        assert!(bytes(&made_of(&mut load)) == bytes(&source), "{kind:?}");
    }
}

/// The limit bounds the parts, and then the table: not both together.
#[test]
fn the_limit_bounds_the_parts_and_then_the_table() {
    for kind in KINDS {
        let source = sparse(kind, 5, 9_000);
        for (limit, is_made) in [(source.size_bytes() + 512, true), (source.size_bytes() - 1, false)] {
            let mut load = load_of(&source);
            parts(&source).into_iter().for_each(|(part, _)| _ = add_part(&mut load, part).unwrap());
            let before = load.size_bytes();
            let made = load.make_table(false, &GrowthBudget::new(&limit));
            assert_eq!(made.is_ok(), is_made, "{kind:?}, {limit}: {before}");
            if let Err(error) = made {
                assert!(matches!(error, LoadError::NoRoom(_)), "{error}");
                // The load is as it was.
                assert_eq!(load.size_bytes(), before);
                assert!(bytes(&made_of(&mut load)) == bytes(&source), "{kind:?}");
            }
        }
    }
}
