//! Parts of dumps that do not fit the table into which they are loaded, or that are crafted.

use everbloom::bloom::prefetch::NoPrefetch;
use everbloom::bloom::table::{
    Addition, DumpedSegment, EntryKind, LoadError, POSITIONS, Schedule, Table, TableCounts, UnionError,
};
use everbloom::bloom::{GrowthBudget, ItemHash};

use super::forged::{forged, words};
use super::segments::{parts, target};
use super::{KINDS, add, add_kind, addition, any, bytes, has_at, hash, made, of_kind, plain, reloaded};
use crate::fuzzed::fuzz::forge::{self, Filling, TableForm};
use crate::support::Random;

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

/// The part belongs to a table of 4096 segments. Four times the slots of the first header fit 1024.
#[test]
fn a_part_makes_a_table_grow_as_far_as_the_header_allows() {
    let deep = parts(&sparse(EntryKind::Plain, 1 << 12, 1000)).into_iter().map(|(part, _)| part);
    let part = deep.rev().find(|part| !part.words.is_empty()).unwrap();
    assert_eq!(part.depth, 12);
    for (used_slots, expected) in [(1_000_000, 600..1025), (10_000_000, 2048..4097)] {
        let mut table = plain(0.01);
        add(&mut table, 1 << 40).unwrap();
        table.begin_loading(used_slots);
        table.add_segments(vec![part.clone()], u64::MAX, &any()).unwrap();
        assert!(expected.contains(&table.segment_count()), "{used_slots}: {}", table.segment_count());
        assert_eq!(table.internal_validate(), Ok(()));
    }
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
    let counts = of_kind(EntryKind::Timed, 0.01, 50).counts();
    for (size_log, is_accepted) in [(0, true), (36, true), (37, false), (255, false)] {
        let counts = TableCounts { schedule: Schedule::FromCapacity { base: 10, size_log }, ..counts };
        let made = Table::try_of_counts(EntryKind::Timed, counts, 0, &any());
        assert_eq!(made.is_ok(), is_accepted, "{size_log}");
    }
}

/// A part with entries of every length. Short ones match items of several segments of the larger table. A small table of
/// counted entries has none of them.
#[test]
fn an_entry_reaches_every_segment_that_has_its_items() {
    for kind in [EntryKind::Plain, EntryKind::Timed] {
        for (most, sizes) in [(60, &[2, 3, 8, 300, 512][..]), (1000, &[2, 3, 8])] {
            let source = forged(kind, Filling::Lengths, 6, 1, most).unwrap().table;
            for segments in sizes.iter().copied() {
                let mut table = sparse(kind, segments, 5);
                table.add_segments(vec![parts(&source).remove(0).0], u64::MAX, &any()).unwrap();
                assert_eq!(table.internal_validate(), Ok(()));
                assert!(table.segment_count() >= segments);
                let found = (0..100_000).filter(|item| has_at(&source, *item, 100)).count();
                let kept =
                    (0..100_000).filter(|item| has_at(&source, *item, 100) && has_at(&table, *item, 100));
                assert_eq!(kept.count(), found, "{kind:?}, {most} slots, {segments} segments");
                assert!(found > 100, "{found}");
            }
        }
    }
}

#[test]
fn a_part_of_a_small_table_is_loaded_into_a_large_one() {
    for kind in KINDS {
        let source = sparse(kind, 1, 2000);
        for segments in [1, 2, 3, 64, 300, 512] {
            let mut table = sparse(kind, segments, 0);
            add_kind(&mut table, 1 << 40, 20);
            table.add_segments(vec![parts(&source).remove(0).0], u64::MAX, &any()).unwrap();
            assert_eq!((table.segment_count(), table.internal_validate()), (segments, Ok(())), "{kind:?}");
            assert!((0..2000).all(|item| has_at(&table, item, 20)), "{kind:?}, {segments} segments");
        }
    }
}

/// The entries after it fit.
#[test]
fn an_entry_that_would_be_copied_too_often_is_refused_whatever_follows() {
    let long = 1 << 10;
    for slots in
        [vec![(0, 5, 1)], vec![(0, 5, 1), (1, 3, long)], vec![(0, 5, 1), (0, 9, long), (63, 63, long)]]
    {
        let mut table = sparse(EntryKind::Plain, 1 << 20, 0);
        table.begin_loading(1 << 40);
        let refused = table.add_segments(vec![plain_segment(&slots)], u64::MAX, &any());
        assert_eq!(refused, Err(LoadError::Invalid("void entries")), "{slots:?}");
    }
}

/// The lowest three bits are 0 in the hashes of all items. So a table of up to eight segments has them in its first one,
/// which is too full.
#[test]
fn a_table_grows_until_the_entries_of_a_part_fit() {
    let mut random = Random(9);
    let mut crafted = || {
        let (mut table, mut hashes) = (plain(0.01), Vec::new());
        while table.used_slots() < 4_500 {
            let hash = ItemHash { h1: random.next() & !7, h2: random.next() };
            table.add(Addition { hash, ..addition(0) }, &any(), NoPrefetch).unwrap();
            hashes.push(hash);
        }
        assert_eq!(table.segment_count(), 1);
        (table, hashes)
    };
    let ((mut table, mut hashes), (other, others)) = (crafted(), crafted());
    hashes.extend(others);
    table.add_segments(vec![parts(&other).remove(0).0], u64::MAX, &any()).unwrap();
    assert_eq!((table.segment_count(), table.internal_validate()), (16, Ok(())));
    assert!(hashes.iter().all(|hash| table.contains(*hash, 0, NoPrefetch)));
}

/// A dump has each item in one segment only. Here the first segments of tables of one, two and four segments are together,
/// and segments in any order that have different items.
#[test]
fn segments_with_the_same_items_are_refused() {
    let segment =
        |number: usize, depth: u32| DumpedSegment { number, depth, ..plain_segment(&[(0, 5, 1 << 9)]) };
    for (numbers, is_accepted) in [
        (vec![(0, 0), (0, 0)], false),
        (vec![(0, 0), (0, 1)], false),
        (vec![(0, 2), (2, 2), (1, 1), (0, 1)], false),
        (vec![(1, 0)], false),
        (vec![(3, 2), (1, 1)], false),
        (vec![(3, 2), (0, 1), (1, 2)], true),
        (vec![(1, 1), (2, 2), (0, 2)], true),
    ] {
        let mut table = plain(0.01);
        let segments = numbers.iter().map(|(number, depth)| segment(*number, *depth)).collect();
        let loaded = table.add_segments(segments, u64::MAX, &any());
        assert_eq!(loaded.is_ok(), is_accepted, "{numbers:?}: {loaded:?}");
        assert_eq!(table.used_slots(), if is_accepted { numbers.len() as u64 } else { 0 }, "{numbers:?}");
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
        let mut rest = table.emptied();
        rest.add_segments(vec![part], u64::MAX, &any()).unwrap();
        let is_after = |item: &u64| u64::from((hash(*item).h1 as u32).reverse_bits()) >= position;
        assert_eq!(rest.used_slots(), (0..2000).filter(is_after).count() as u64, "{position}");
    }
}

#[test]
fn the_end_of_a_load_makes_a_sparse_table_smaller() {
    for kind in KINDS {
        let source = sparse(kind, 3000, 200);
        let mut table = target(&source);
        for (part, end) in parts(&source) {
            table.add_segments(vec![part], u64::MAX, &any()).unwrap();
            assert_eq!(table.segment_count(), 3000, "{kind:?}");
            if end == POSITIONS {
                table.end_loading().unwrap();
            }
        }
        assert!(!table.is_sparse() && table.segment_count() <= 400, "{kind:?}: {}", table.segment_count());
        assert_eq!((table.internal_validate(), table.items(20)), (Ok(()), 200), "{kind:?}");
        assert!((0..200).all(|item| has_at(&table, item, 20)), "{kind:?}");
    }
}

/// Most blocks of the table have entries, and the part has three. The header allows a much larger table.
#[test]
fn what_a_table_has_already_changes_nothing() {
    for kind in KINDS {
        for segments in [1, 2, 4] {
            let few = sparse(kind, segments, 3);
            let mut table = sparse(kind, segments, 4000 * segments as u64);
            let united = table.union_with(&[&few], 20, &any(), |_| Ok::<(), UnionError>(())).unwrap();
            assert!(made(united).is_none() || kind == EntryKind::Counted, "{kind:?}, {segments} segments");
            let before = bytes(&table);
            table.begin_loading(10_000_000);
            for (part, _) in parts(&few) {
                table.add_segments(vec![part], u64::MAX, &any()).unwrap();
            }
            assert!(bytes(&table) == before, "{kind:?}, {segments} segments");
            assert_eq!(table.segment_count(), segments, "{kind:?}");
        }
    }
}

/// A replica that was synchronised during a load has lists of another capacity. It takes the same decisions.
#[test]
fn adds_during_a_load_change_a_copy_in_the_same_way() {
    for kind in KINDS {
        let source = sparse(kind, 1 << 14, 500);
        let filled = parts(&source).into_iter().map(|(part, _)| part).filter(|part| !part.words.is_empty());
        let filled: Vec<_> = filled.collect();
        let mut other_sizes = 0;
        for together in 1..60 {
            let mut table = target(&source);
            let mut parts = filled.chunks(together);
            // The last add makes the sparse table smaller.
            while table.segment_count() == source.segment_count() {
                table.add_segments(parts.next().unwrap().to_vec(), u64::MAX, &any()).unwrap();
                let mut copy = reloaded(&table);
                other_sizes += u64::from(copy.size_bytes() != table.size_bytes());
                let addition = Addition { hash: hash(1 << 40 | table.used_slots()), ..addition(20) };
                let outcomes = [&mut table, &mut copy].map(|table| table.add(addition, &any(), NoPrefetch));
                let context = format!("{kind:?}, {together} parts at once, {} slots", table.used_slots());
                assert_eq!(outcomes[0], outcomes[1], "{context}");
                assert!(bytes(&table) == bytes(&copy), "{context}");
            }
        }
        assert!(other_sizes > 10, "{kind:?}: {other_sizes}");
    }
}
