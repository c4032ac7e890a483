//! The segments of a table: their directory, and dumps and merges of parts. Items that the table has had since the dump
//! began are in the copy, whatever splits and joins happen meanwhile.

use std::collections::BTreeMap;

use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::table::{
    DumpedSegment, EntryKind, LoadError, POSITIONS, Replaced, Table, TableCounts, TableLoad,
};
use everbloom_filter::{BlockVisitor, GrowthBudget, OutOfMemory};

use super::{KINDS, add, add_kind, any, bytes, counted, has, has_at, hash, of_kind, plain, reloaded, remove};
use crate::support::fuzz::forge::{self, TableForm};
use crate::support::{Moves, Random, effort};

/// Begins the load of a dump of this table.
pub(super) fn load_of(table: &Table) -> TableLoad {
    TableLoad::new(table.kind(), table.counts(), table.used_slots()).unwrap()
}

/// Returns whether a client may bring this table.
pub(super) fn is_proportionate(table: &Table) -> bool {
    table.counts().is_proportionate(table.kind(), table.used_slots())
}

/// Adds a part to a load.
pub(super) fn add_part(load: &mut TableLoad, part: DumpedSegment) -> Result<Replaced, LoadError> {
    load.add(vec![part], u64::MAX, &any())
}

/// Ends a load with whatever has come.
pub(super) fn made_of(load: &mut TableLoad) -> Table {
    let table = load.make_table(false, &any()).unwrap();
    assert_eq!(table.internal_validate(), Ok(()));
    table
}

/// Returns the parts of a table at rest, with the positions after them.
pub(super) fn parts(table: &Table) -> Vec<(DumpedSegment, u64)> {
    let (mut position, mut parts) = (0, Vec::new());
    while position < POSITIONS {
        let (part, end) = table.segment_at(position).unwrap().unwrap();
        parts.push((part, end));
        position = end;
    }
    parts
}

/// Returns the table that is made of these parts.
pub(super) fn made_of_parts(table: &Table, parts: impl IntoIterator<Item = DumpedSegment>) -> Table {
    let mut load = load_of(table);
    parts.into_iter().for_each(|part| _ = add_part(&mut load, part).unwrap());
    made_of(&mut load)
}

/// A table and its items. Items of counted entries have their counts, all others their generations.
struct Changing {
    table: Table,
    items: BTreeMap<u64, u64>,
    now: u64,
    next: u64,
    random: Random,
}

impl Changing {
    fn new(kind: EntryKind, items: u64) -> Self {
        let (items_of, random) = (BTreeMap::new(), Random(items));
        let mut changing =
            Self { table: of_kind(kind, 0.01, 2_000), items: items_of, now: 100, next: 0, random };
        changing.add(items);
        changing
    }

    fn add(&mut self, items: u64) {
        for item in self.next..self.next + items {
            add_kind(&mut self.table, item, self.now);
            let is_counted = self.table.kind() == EntryKind::Counted;
            let times = if is_counted && item % 5 == 0 { 3 } else { 1 };
            (1..times).for_each(|_| _ = add_kind(&mut self.table, item, self.now));
            self.items.insert(item, if is_counted { times } else { self.now });
        }
        self.next += items;
    }

    /// Adds items. Removes `removals` items of counted entries, and lets time pass for timed entries.
    fn change(&mut self, adds: u64, removals: u64) {
        self.add(adds);
        match self.table.kind() {
            EntryKind::Plain => {}
            EntryKind::Counted => {
                for _ in 0..removals.min(self.items.len() as u64) {
                    let from = self.random.next() % self.next;
                    let item = self.items.range(from..).next().or(self.items.iter().next());
                    let (item, times) = item.map(|(item, times)| (*item, *times)).unwrap();
                    (0..times).for_each(|_| assert_eq!(remove(&mut self.table, item, NoPrefetch), Ok(true)));
                    self.items.remove(&item);
                }
            }
            EntryKind::Timed(_) => {
                self.now += 1 + removals / 500;
                let now = self.now;
                self.items.retain(|_, generation| now - *generation < 15);
            }
        }
    }
}

#[test]
fn a_dump_misses_nothing_while_segments_are_split_and_joined() {
    for kind in KINDS {
        let large = effort(30_000u64, 150_000);
        let traffic = [
            (100u64, 3_000u64, 0u64),
            (20_000, 100, 0),
            (5_000, 20_000, 100),
            (large, large / 25, large / 150),
        ];
        let joins = [
            (large, 100, large * 2 / 25),
            (60_000, 1_000, 4_000),
            (9_000, 10, 2_000),
            (60_000, 5_000, 5_000),
        ];
        for (items, adds, removals) in traffic.into_iter().chain(joins) {
            let mut source = Changing::new(kind, items);
            let before = source.items.clone();
            let (mut load, mut shuffled) = (load_of(&source.table), load_of(&source.table));
            let (mut position, mut loaded_parts) = (0, Vec::new());
            while position < POSITIONS {
                let (part, end) = source.table.segment_at(position).unwrap().unwrap();
                assert!(end > position);
                add_part(&mut load, part.clone()).unwrap();
                // A part that comes again changes nothing.
                assert!(add_part(&mut load, part.clone()).unwrap().is_empty(), "{kind:?}, {items}");
                loaded_parts.push(part);
                position = end;
                source.change(adds, removals);
            }
            let mut copy = made_of(&mut load);
            let stayed = before.keys().filter(|item| source.items.contains_key(*item));
            let missing = stayed.clone().find(|item| !has_at(&copy, **item, source.now));
            assert_eq!(missing, None, "{kind:?}: {items}, {adds}, {removals}");
            // The same parts are loaded in another order, some of them twice.
            loaded_parts.reverse();
            loaded_parts.extend_from_within(..loaded_parts.len() / 3);
            loaded_parts.into_iter().for_each(|part| _ = add_part(&mut shuffled, part).unwrap());
            let shuffled = made_of(&mut shuffled);
            assert!(bytes(&shuffled) == bytes(&copy), "{kind:?}, {items}");
            let missing = stayed.clone().find(|item| !has_at(&shuffled, **item, source.now));
            assert_eq!(missing, None, "{kind:?}: {items}, {adds}, {removals}, in another order");
            assert_eq!(source.table.internal_validate(), Ok(()));
            if kind == EntryKind::Counted {
                // Items that stayed in the source can be removed from the copy, as often as they were added.
                let stayed = stayed.flat_map(|item| vec![item; source.items[item] as usize]);
                stayed.for_each(|item| assert_eq!(remove(&mut copy, *item, NoPrefetch), Ok(true)));
            }
        }
    }
}

/// A dump can go on in the middle of a segment, after segments were joined.
#[test]
fn a_part_has_the_items_from_its_position_to_its_end() {
    for (kind, items) in KINDS.into_iter().flat_map(|kind| [60, 150, 60_000].map(|items| (kind, items))) {
        let source = Changing::new(kind, items);
        let position_of = |item: u64| u64::from((hash(item).h1 as u32).reverse_bits());
        let mut first = 0;
        while first < POSITIONS {
            let (_, end) = source.table.segment_at(first).unwrap().unwrap();
            for eighth in 1..8 {
                let position = first + (end - first) / 8 * eighth;
                let part = source.table.segment_at(position).unwrap().unwrap();
                assert_eq!(part.1, end);
                let copy = made_of_parts(&source.table, [part.0]);
                let (mut before, mut found) = (0, 0);
                for item in source.items.keys() {
                    let at = position_of(*item);
                    let is_found = has_at(&copy, *item, source.now);
                    if (position..end).contains(&at) {
                        assert!(is_found, "{kind:?}: {item} at {at} is after {position}");
                    } else {
                        (before, found) = (before + 1, found + u32::from(is_found));
                    }
                }
                assert!(found * 20 <= before, "{kind:?}: {found} of {before} other items are found");
            }
            first = end;
        }
    }
}

#[test]
fn a_dump_of_a_table_at_rest_makes_the_same_table_in_any_order_of_its_parts() {
    for kind in KINDS {
        for items in [0, 50, 1_000, 7_000, 100_000] {
            let source = Changing::new(kind, items);
            let dumped = || parts(&source.table).into_iter().map(|(part, _)| part);
            let mut in_order = made_of_parts(&source.table, dumped());
            assert!(bytes(&in_order) == bytes(&source.table), "{kind:?}, {items}");
            assert_eq!(in_order.counts(), source.table.counts(), "{kind:?}, {items}");
            assert_eq!(in_order.error_rate(0), source.table.error_rate(0), "{kind:?}, {items}");
            let reversed = made_of_parts(&source.table, dumped().rev().chain(dumped()));
            assert!(bytes(&reversed) == bytes(&source.table), "{kind:?}, {items}");
            assert_eq!(reversed.items(source.now), source.table.items(source.now), "{kind:?}, {items}");
            // Both continue alike.
            let mut again = source.table.try_clone().unwrap();
            for item in items..items + 500 {
                let outcome = add_kind(&mut again, item, 105);
                assert_eq!(add_kind(&mut in_order, item, 105), outcome);
            }
            assert!(bytes(&again) == bytes(&in_order), "{kind:?}, {items}");
        }
    }
}

/// A part of a table with other parameters is refused before anything changes.
#[test]
fn parts_of_other_tables_are_refused() {
    for kind in KINDS {
        let source = Changing::new(kind, 30_000);
        let (part, _) = parts(&source.table).remove(1);
        let mut load = load_of(&of_kind(kind, 1e-6, 2_000));
        assert!(add_part(&mut load, part.clone()).is_err());
        for wrong in [
            DumpedSegment { number: part.number + (1 << part.depth), ..part.clone() },
            DumpedSegment { depth: 31, ..part.clone() },
            DumpedSegment { blocks_log: 5, ..part.clone() },
            DumpedSegment { words: part.words[1..].into(), ..part.clone() },
            DumpedSegment { words: part.words.iter().map(|word| !word).collect(), ..part.clone() },
        ] {
            assert!(add_part(&mut load, wrong).is_err());
        }
        assert_eq!((load.part_count(), load.size_bytes()), (0, 0));
        // If there is no room for all parts, none of them is added.
        let mut load = load_of(&source.table);
        let all: Vec<_> = parts(&source.table).into_iter().map(|(part, _)| part).collect();
        let limit = source.table.size_bytes() / 2;
        assert!(load.add(all, u64::MAX, &GrowthBudget::new(&limit)).is_err());
        assert_eq!((load.part_count(), load.size_bytes()), (0, 0));
    }
}

/// The largest block that it visits.
#[derive(Default)]
struct Largest(usize);

impl BlockVisitor for Largest {
    fn visit<T>(&mut self, block: &[T]) {
        self.0 = self.0.max(size_of_val(block));
    }
}

/// Returns the bytes of the largest block of a table.
fn largest(table: &Table) -> usize {
    let mut largest = Largest::default();
    table.visit_blocks(&mut largest);
    largest.0
}

/// Nothing of more than 64 KiB is moved at once while a table grows.
#[test]
fn the_directory_is_in_pieces_of_at_most_64_kib() {
    let mut counts = TableCounts { blocks_log: 6, ..plain(0.01).counts() };
    for segments in [2, 3, 5, 2047, 2048, 2049, 2050, 20_000] {
        counts.segments = segments;
        let mut table = Table::try_of_counts(EntryKind::Plain, counts, 0, &any()).unwrap();
        assert_eq!(table.segment_count(), segments);
        assert!(largest(&table) <= 64 << 10, "{segments}: {}", largest(&table));
        // Every segment is where its number says.
        (0..5_000).for_each(|item| _ = add(&mut table, item).unwrap());
        assert_eq!(table.internal_validate(), Ok(()), "{segments}");
        let before = bytes(&table);
        table.move_structs(&Moves);
        (0..segments).for_each(|number| table.move_segment(number, &Moves));
        assert!(bytes(&table) == before && (0..5_000).all(|item| has(&table, item)), "{segments}");
        let copy = table.try_clone().unwrap();
        assert!(bytes(&copy) == before && largest(&copy) <= 64 << 10, "{segments}");
    }
}

/// A table of several segments that becomes small again has one segment, which is stored in place.
#[test]
fn the_directory_grows_and_shrinks_with_the_segments() -> Result<(), OutOfMemory> {
    let mut table = counted(0.01);
    let mut most = 0;
    for item in 0..60_000 {
        let _ = add(&mut table, item);
        most = most.max(table.segment_count());
    }
    for item in 0..59_999 {
        assert!(remove(&mut table, item, NoPrefetch)?);
    }
    assert!(most > 8 && table.segment_count() == 1 && has(&table, 59_999));
    assert!(table.size_bytes() < 200, "{}", table.size_bytes());
    Ok(())
}

/// A table takes as much memory as its copy and as the table that is loaded from its bytes, also after it has shrunk.
#[test]
fn the_memory_follows_from_the_contents() {
    let mut table = counted(0.01);
    (0..60_000).for_each(|item| _ = add(&mut table, item).unwrap());
    let mut sizes = Vec::new();
    for item in 0..60_000 {
        if table.segment_count() != *sizes.last().unwrap_or(&0) {
            sizes.push(table.segment_count());
            let found = [reloaded(&table), table.try_clone().unwrap()].map(|copy| copy.size_bytes());
            assert_eq!(found, [table.size_bytes(); 2], "{} segments", table.segment_count());
        }
        remove(&mut table, item, NoPrefetch).unwrap();
    }
    assert!(sizes.len() > 9 && sizes.is_sorted_by(|more, fewer| more > fewer), "{sizes:?}");
}

/// Crafted bytes can state an older newest generation than that of an entry. A snapshot and a dump must correct it in
/// the same way.
#[test]
fn a_loaded_segment_advances_the_newest_generation_to_that_of_its_entries() {
    let mut table = of_kind(EntryKind::Timed(everbloom::Steps::Fourteen), 0.01, 100);
    add_kind(&mut table, 1, 20);
    let mut counts = table.counts();
    add_kind(&mut table, 2, 21);
    counts.history.newest = 20;
    let mut loaded =
        Table::try_of_counts(EntryKind::Timed(everbloom::Steps::Fourteen), counts, 2, &any()).unwrap();
    let (_, words, stamp) = table.segments().next().unwrap();
    assert_eq!(stamp, 20);
    loaded.set_segment(0, words.into(), stamp).unwrap();
    assert_eq!(loaded.internal_validate(), Ok(()));
    assert_eq!(loaded.counts().history.newest, 21);
}

/// The bits before the slots of a block take up to three words.
#[test]
fn a_segment_with_less_than_three_words_per_block_is_refused() {
    let table = plain(0.01);
    let form = TableForm::of_table(&table);
    let bytes = forge::segment(0, form.width(0, 0), 4, &[(0, 5, 1 << 10)]).unwrap();
    let all: Vec<u64> = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    for words in [1, 2, 3, 4] {
        let mut table = table.try_clone().unwrap();
        let is_accepted = table.set_segment(0, all[..words].into(), 0).is_ok();
        assert_eq!(is_accepted, words == 4, "{words} words");
    }
}

/// Items of counted entries have void entries in a large table. The parts of a dump are loaded in other orders than they
/// were read, while the source grows until many entries are void.
#[test]
fn parts_of_a_growing_table_of_counted_entries_are_loaded_in_any_order() {
    let mut source = Changing::new(EntryKind::Counted, 150_000);
    let before = source.items.clone();
    let header = load_of(&source.table);
    let (mut position, mut parts) = (0, Vec::new());
    while position < POSITIONS {
        let (part, end) = source.table.segment_at(position).unwrap().unwrap();
        parts.push(part);
        position = end;
        source.add(if source.next < 1_500_000 { 40_000 } else { 0 });
    }
    assert!(source.table.match_all_counts().void_entries > 100, "{:?}", source.table.match_all_counts());
    let mut random = Random(2);
    let mut cards = Vec::new();
    for &order in effort(&[1, 3, 4][..], &[0, 1, 2, 3, 4, 5, 6]) {
        let mut ordered = parts.clone();
        match order {
            0 => {}
            1 => ordered.reverse(),
            2 => ordered.rotate_left(1),
            3 => ordered.rotate_right(1),
            _ => ordered.sort_by_cached_key(|_| random.next()),
        }
        let mut load = header.try_clone().unwrap();
        ordered.into_iter().for_each(|part| _ = add_part(&mut load, part).unwrap());
        let mut copy = made_of(&mut load);
        cards.push(copy.items(0));
        for (item, times) in &before {
            for _ in 0..*times {
                assert_eq!(remove(&mut copy, *item, NoPrefetch), Ok(true), "{item}, order {order}");
            }
        }
    }
    let (least, most) = (cards.iter().min().unwrap(), cards.iter().max().unwrap());
    assert!(most - least <= most / 1000, "{cards:?}");
}
