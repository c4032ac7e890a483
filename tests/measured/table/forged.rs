//! Segments that no honest client makes: all slots in use, void or saturated, the longest counts, every generation. What
//! they cost afterwards is bounded by their bytes, whatever is done with them.

use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::table::{
    Addition, DumpedSegment, EntryKind, LoadError, Table, TableCounts, TableLoad, UnionError,
};
use everbloom_filter::work::{self, Work};
use everbloom_filter::{AddError, ItemHash};

use super::segments::{add_part, is_proportionate, load_of, made_of, parts};
use super::{KINDS, add_kind, addition, any, has_at, hash, made, of_kind};
use crate::support::effort;
use crate::support::fuzz::forge::{FILLINGS, Filling, TableForm, full_segment, most_slots};
use crate::support::make::insert;
use crate::support::work::assert_work;

/// The generation of the forged tables.
const NOW: u64 = 100;
/// The honest adds after a forgery.
const ADDS: u64 = 10_000;
/// The most slots that one add reads and writes: it may compact one segment, split another and enlarge a third.
const ADD_SLOTS_MAX: u64 = 60_000;

/// The bytes of 400 segments with few entries, and of their directory.
const SMALL_TABLE_BYTES: u64 = 400 * 1536 + (64 << 10);

/// A table of forged segments, and their bytes.
pub(super) struct Forged {
    pub(super) table: Table,
    bytes: u64,
    context: String,
}

pub(super) fn now_of(kind: EntryKind) -> u64 {
    if kind.is_timed() { NOW } else { 0 }
}

pub(super) fn words(bytes: &[u8]) -> Box<[u64]> {
    bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Returns a table of this size whose segments have at most `most` used slots each; `None` if entries of this kind cannot
/// be filled so.
pub(super) fn forged(
    kind: EntryKind,
    filling: Filling,
    blocks_log: u32,
    segments: usize,
    most: usize,
) -> Option<Forged> {
    let empty = of_kind(kind, 0.01, 50);
    let counts = TableCounts { blocks_log, segments, ..empty.counts() };
    let blank = Table::try_of_counts(kind, counts, 0, &any()).unwrap();
    let form = TableForm::of_table(&blank);
    let mut made = Vec::new();
    for number in 0..segments {
        let depth = form.depth_of(number as u64);
        let (bytes, used) = full_segment(&form, depth, blocks_log, filling, most, now_of(kind));
        made.push((number, bytes, used));
    }
    let used = made.iter().map(|(.., used)| *used as u64).sum::<u64>();
    let bytes = made.iter().map(|(_, bytes, _)| bytes.len() as u64).sum::<u64>();
    let counts = TableCounts { items: if kind.is_timed() { 0 } else { used }, ..counts };
    let mut table = Table::try_of_counts(kind, counts, used, &any()).unwrap();
    for (number, bytes, _) in made.into_iter().filter(|(_, bytes, _)| !bytes.is_empty()) {
        table.set_segment(number, words(&bytes), now_of(kind)).ok()?;
    }
    if table.used_slots() != used || used == 0 {
        return None;
    }
    let context =
        format!("{kind:?}, {filling:?}, {segments} segments of 2^{blocks_log} blocks, {most} slots");
    assert_eq!(table.internal_validate(), Ok(()), "{context}");
    Some(Forged { table, bytes, context })
}

/// Calls `check` with forged tables of every filling and of sizes around each threshold; in a quick run with every fifth.
fn for_each_forged(mut check: impl FnMut(Forged)) {
    let (mut made, mut number) = ([0u32; 3], 0);
    for (index, kind) in KINDS.into_iter().enumerate() {
        for filling in FILLINGS {
            for (blocks_log, segments) in [(0, 1), (1, 1), (3, 1), (6, 1), (6, 2), (6, 5)] {
                let most = most_slots(blocks_log);
                // A table of one block grows when it is full, larger ones at 1.4 to 1.6 slots per bucket.
                let growth = if blocks_log == 0 { most } else { (64 << blocks_log) * 7 / 5 };
                for most in [1, growth, growth + 1, most] {
                    number += 1;
                    if number % effort(5, 1) == 0
                        && let Some(forged) = forged(kind, filling, blocks_log, segments, most)
                    {
                        made[index] += 1;
                        check(forged);
                    }
                }
            }
        }
    }
    assert!(made.iter().all(|made| *made > effort(15, 80)), "{made:?}");
}

/// Runs an operation. Returns its outcome and its work.
fn measured<R>(run: impl FnOnce() -> R) -> (R, Work) {
    _ = work::take();
    let outcome = run();
    (outcome, work::take())
}

/// Adds honest items. Asserts what they cost each and together, after a payload of `bytes` bytes.
fn add_honest_items(table: &mut Table, bytes: u64, context: &str) {
    let (kind, mut added) = (table.kind(), 0);
    for item in 0..ADDS {
        let addition = Addition { hash: hash(item), ..addition(now_of(kind)) };
        let (outcome, work) = measured(|| insert(table, addition, &any()));
        match outcome {
            Ok(_) => added += 1,
            Err(error) => assert_eq!((error, kind), (AddError::TooOften, EntryKind::Counted), "{context}"),
        }
        assert!(work.slots < ADD_SLOTS_MAX, "{work:?}, item {item}: {context}");
    }
    let most = 4 * bytes + (64 << 10) + 64 * ADDS;
    assert!(table.size_bytes() <= most, "{} bytes, at most {most}: {context}", table.size_bytes());
    assert_eq!(table.internal_validate(), Ok(()), "{context}");
    let found = (0..ADDS).filter(|item| table.contains(hash(*item), now_of(kind), NoPrefetch)).count();
    assert!(found as u64 >= added, "{context}");
}

#[test]
fn honest_adds_after_a_forgery_cost_no_more_than_its_bytes() {
    for_each_forged(|Forged { mut table, bytes, context }| add_honest_items(&mut table, bytes, &context));
}

#[test]
fn forged_entries_are_removed_and_expire_within_their_bytes() {
    for_each_forged(|Forged { mut table, bytes, context }| {
        let kind = table.kind();
        let (_, work) = measured(|| {
            for item in 0..100 {
                match kind {
                    EntryKind::Plain => {}
                    EntryKind::Counted => {
                        table.remove_each(&[hash(item)], NoPrefetch, |removed| removed.is_ok())
                    }
                    EntryKind::Timed(_) => {
                        let addition = Addition { hash: hash(item), ..addition(NOW + 15 + item / 10) };
                        insert(&mut table, addition, &any()).unwrap();
                    }
                }
            }
        });
        assert_work(work, 100 * (bytes + table.size_bytes()) / 4, &context);
        assert_eq!(table.internal_validate(), Ok(()), "{context}");
        if kind.is_timed() {
            assert!(table.items(NOW + 24) <= 100, "{context}");
        }
    });
}

#[test]
fn forged_segments_are_copied_saved_and_dumped_within_their_bytes() {
    for_each_forged(|Forged { table, bytes, context }| {
        let (copy, work) = measured(|| table.try_clone().unwrap());
        assert_work(work, bytes + copy.size_bytes(), &context);
        assert!(copy.segments().eq(table.segments()), "{context}");
        let (loaded, work) = measured(|| {
            let (mut load, mut position) = (load_of(&table), 0);
            while let Some((segment, next)) = table.segment_at(position).unwrap() {
                position = next;
                add_part(&mut load, segment).unwrap();
            }
            made_of(&mut load)
        });
        assert_work(work, 2 * bytes + loaded.size_bytes(), &context);
        assert!(!table.has_counts_of_entries() || loaded.counts() == table.counts(), "{context}");
        assert!(loaded.segments().eq(table.segments()), "{context}");
    });
}

/// Forged sources and one honest one are merged into an honest table, and the honest table into a forged one. There are
/// forty forged sources for every fifteenth forgery, and five for the others, because forty take most of the time.
#[test]
fn unions_with_forged_tables_cost_no_more_than_their_bytes() {
    let honest = KINDS.map(|kind| {
        let mut table = of_kind(kind, 0.01, 50);
        (0..30_000).for_each(|item| _ = add_kind(&mut table, item, now_of(kind)));
        table
    });
    let mut number = 0;
    for_each_forged(|Forged { table, bytes, context }| {
        number += 1;
        let kind = table.kind();
        let honest = &honest[usize::from(kind != EntryKind::Plain) + usize::from(kind.is_timed())];
        let many = [vec![&table; if number % effort(15, 5) == 1 { 40 } else { 5 }], vec![honest]].concat();
        for (first, others) in [(honest, many), (&table, vec![honest])] {
            let unite = || {
                let accept = |_| Ok::<(), UnionError>(());
                first.union_with(&others, now_of(table.kind()), &any(), accept)
            };
            let (united, work) = measured(unite);
            let sources = others.len() as u64 * bytes + 2 * honest.size_bytes();
            let result = match united {
                Ok(united) => made(united),
                Err(error) => {
                    assert_eq!(
                        (error, table.kind()),
                        (UnionError::TooOften, EntryKind::Counted),
                        "{context}"
                    );
                    None
                }
            };
            let result_bytes = result.as_ref().map_or(0, Table::size_bytes);
            // Forty sources are united in three steps.
            assert_work(work, 3 * sources + result_bytes, &context);
            assert!(result_bytes <= 8 * sources + (64 << 10), "{result_bytes} of {sources}: {context}");
            if let Some(result) = result {
                assert_eq!(result.internal_validate(), Ok(()), "{context}");
                let is_found = |item| result.contains(hash(item), now_of(table.kind()), NoPrefetch);
                assert!((0..30_000).all(is_found), "{context}");
            }
        }
    });
}

/// Loads each forged segment beside the parts of honest tables of other sizes, as a segment of a smaller and of a larger
/// table, and asserts what the parts, the table of them, and its adds cost.
#[test]
fn loads_of_forged_segments_cost_no_more_than_their_bytes() {
    for kind in KINDS {
        for &honest_items in effort(&[0, 3_000][..], &[0, 3_000, 60_000]) {
            let mut honest = of_kind(kind, 0.01, 50);
            (0..honest_items).for_each(|item| _ = add_kind(&mut honest, item, now_of(kind)));
            let mut honest_load = load_of(&honest);
            parts(&honest).into_iter().for_each(|(part, _)| _ = add_part(&mut honest_load, part).unwrap());
            for filling in FILLINGS {
                for (depth, blocks_log) in [(0, 0), (0, 3), (0, 6), (1, 6), (6, 6), (22, 6)] {
                    let form = TableForm::of_table(&honest);
                    let most = most_slots(blocks_log);
                    let (bytes, _) = full_segment(&form, depth, blocks_log, filling, most, now_of(kind));
                    let context = format!("{kind:?}, {honest_items}, {filling:?}, {depth}, {blocks_log}");
                    let mut load = honest_load.try_clone().unwrap();
                    let mut sent = honest.size_bytes();
                    for number in [0, 1, 5, 1 << depth >> 1].map(|number| number & ((1 << depth) - 1)) {
                        let stamp = now_of(kind);
                        let segment =
                            DumpedSegment { number, depth, blocks_log, stamp, words: words(&bytes) };
                        let before = load.size_bytes();
                        let (outcome, work) = measured(|| add_part(&mut load, segment));
                        sent += bytes.len() as u64;
                        assert_work(work, 2 * (bytes.len() as u64 + before), &context);
                        match outcome {
                            Ok(_) => {}
                            Err(LoadError::Invalid(_) | LoadError::Overlapping) => {
                                assert_eq!(load.size_bytes(), before, "{context}");
                            }
                            Err(error) => panic!("{error}: {context}"),
                        }
                        // Memory of the directory's map is not counted as a part.
                        assert!(load.size_bytes() <= 2 * sent + 4096, "{context}");
                    }
                    let (made, work) = measured(|| load.make_table(false, &any()));
                    match made {
                        Ok(mut table) => {
                            assert_work(work, 4 * sent + table.size_bytes(), &context);
                            assert_eq!(table.internal_validate(), Ok(()), "{context}");
                            // Entries that do not fit one segment make a small table larger.
                            let most = 4 * sent + SMALL_TABLE_BYTES;
                            assert!(
                                table.size_bytes() <= most,
                                "{} above {most}: {context}",
                                table.size_bytes()
                            );
                            add_honest_items(&mut table, sent, &format!("{context}, adds"));
                        }
                        Err(LoadError::Invalid(_) | LoadError::Overlapping) => {
                            assert_work(work, 8 * sent + SMALL_TABLE_BYTES, &context);
                        }
                        Err(error) => panic!("{error}: {context}"),
                    }
                }
            }
        }
    }
}

/// A header names millions of segments, and each chunk has one entry of a high segment. Nothing else is loaded.
#[test]
fn a_load_of_almost_nothing_takes_little_memory() {
    for kind in KINDS {
        for chunks in [0usize, 1, 4, 200] {
            let counts = TableCounts { segments: 1 << 22, blocks_log: 6, ..of_kind(kind, 0.01, 50).counts() };
            let (mut load, work) = measured(|| TableLoad::new(kind, counts, 1 << 30).unwrap());
            assert_work(work, 120, "header");
            let form = TableForm::of_table(&of_kind(kind, 0.01, 50));
            let (bytes, _) = full_segment(&form, 22, 6, Filling::Long, 1, now_of(kind));
            let segment = |number| {
                let stamp = now_of(kind);
                DumpedSegment { number, depth: 22, blocks_log: 6, stamp, words: words(&bytes) }
            };
            let mut sent = 120;
            for chunk in 0..chunks {
                let (loaded, work) =
                    measured(|| add_part(&mut load, segment((chunk * 0x1_2345) % (1 << 22))));
                loaded.unwrap();
                sent += bytes.len() as u64;
                assert_work(work, bytes.len() as u64, "chunk");
            }
            // Others come in one chunk, in no order.
            for of_chunk in [3, 60] {
                let numbers = (1..=of_chunk).map(|one| (one * 0x2_3457 + of_chunk) % (1 << 22));
                let (loaded, work) = measured(|| load.add(numbers.map(segment).collect(), u64::MAX, &any()));
                loaded.unwrap();
                let chunk_bytes = (of_chunk * bytes.len()) as u64;
                assert_work(work, chunk_bytes, "chunk of many");
                sent += chunk_bytes;
            }
            assert_eq!(load.part_count(), chunks + 63);
            let (mut table, work) = measured(|| made_of(&mut load));
            assert_work(work, 4 * sent + table.size_bytes(), &format!("{kind:?}, {chunks} chunks"));
            assert!(is_proportionate(&table) && table.segment_count() <= 400, "{}", table.segment_count());
            add_honest_items(&mut table, sent, &format!("{kind:?}, {chunks} chunks"));
        }
    }
}

/// Most void entries do not count, so a sweep makes the table smaller. As many other entries would keep its size.
#[test]
fn a_table_of_void_entries_shrinks() {
    for segments in [2, 3] {
        let mut table =
            forged(EntryKind::Timed(everbloom::Steps::Fourteen), Filling::Void, 6, segments, 3000)
                .unwrap()
                .table;
        assert_eq!(table.match_all_counts().void_slots, table.used_slots());
        let found = |table: &Table| (0..10_000).filter(|item| has_at(table, *item, NOW)).count();
        let (before, mut item) = (found(&table), 0);
        while table.segment_count() == segments {
            assert!(item < 300, "{segments} segments");
            add_kind(&mut table, item, NOW);
            item += 1;
        }
        assert_eq!((table.segment_count(), table.internal_validate()), (segments - 1, Ok(())));
        assert!((0..item).all(|item| has_at(&table, item, NOW)), "{segments} segments");
        assert!(before > 5000 && found(&table) >= before, "{segments} segments");
    }
}

/// Returns a table whose segment `number`, which is split next, has one filling, and all others have long entries.
fn about_to_split(kind: EntryKind, segments: usize, number: usize, filling: Filling) -> Table {
    let counts = TableCounts { segments, blocks_log: 6, ..of_kind(kind, 0.01, 50).counts() };
    let form = TableForm::of_table(&Table::try_of_counts(kind, counts, 0, &any()).unwrap());
    let filled = (0..segments).map(|at| {
        let (filling, most) = if at == number { (filling, usize::MAX) } else { (Filling::Long, 6_800) };
        full_segment(&form, form.depth_of(at as u64), 6, filling, most, now_of(kind))
    });
    let filled: Vec<_> = filled.collect();
    let used = filled.iter().map(|(_, used)| *used as u64).sum::<u64>();
    let counts = if kind == EntryKind::Counted {
        TableCounts { items: u64::MAX, entries: used, ..counts }
    } else {
        counts
    };
    let mut table = Table::try_of_counts(kind, counts, used, &any()).unwrap();
    for (at, (bytes, _)) in filled.iter().enumerate() {
        table.set_segment(at, words(bytes), now_of(kind)).unwrap();
    }
    assert_eq!(table.internal_validate(), Ok(()));
    table
}

/// Each void entry belongs to both halves of the segment, so they would not fit.
#[test]
fn a_counted_table_that_cannot_be_split_refuses_new_items() {
    let mut table = about_to_split(EntryKind::Counted, 32, 0, Filling::CountedVoid);
    let refused = (0..100)
        .filter_map(|item| insert(&mut table, Addition { hash: hash(item), ..addition(0) }, &any()).err());
    let refused: Vec<_> = refused.collect();
    assert!(refused.len() > 50 && refused.iter().all(|error| *error == AddError::TooOften), "{refused:?}");
}

/// A split leaves out entries that have expired, also void ones and those of saturated buckets. The item is in another
/// segment, which alone is compacted before.
#[test]
fn a_segment_of_expired_entries_is_split() {
    let item = ItemHash { h1: hash(1).h1 & !7 | 3, ..hash(1) };
    for filling in [Filling::Void, Filling::Saturated, Filling::Lengths] {
        for expired in 10..20 {
            let mut table = about_to_split(EntryKind::Timed(everbloom::Steps::Fourteen), 5, 1, filling);
            let now = NOW + expired;
            insert(&mut table, Addition { hash: item, ..addition(now) }, &any()).unwrap();
            let context = format!("{filling:?}, {expired} generations later");
            assert_eq!((table.segment_count(), table.internal_validate()), (6, Ok(())), "{context}");
            assert!(table.contains(item, now, NoPrefetch), "{context}");
        }
    }
}

/// The entries of the small table are read once for many blocks of the union. Its void entries are copied to all of them.
/// With 128 segments or more, several segments of the union read the same block.
#[test]
fn a_large_union_counts_the_void_entries_of_a_small_table() {
    for (kind, items, segments) in
        [(EntryKind::Plain, 800_000, 128), (EntryKind::Timed(everbloom::Steps::Fourteen), 80_000, 8)]
    {
        let mut large = of_kind(kind, 0.01, 50);
        (0..items).for_each(|item| _ = add_kind(&mut large, item, now_of(kind)));
        for filling in [Filling::Void, Filling::Saturated, Filling::Lengths] {
            let small = forged(kind, filling, 6, 1, 300).unwrap().table;
            let united = large.union_with(&[&small], now_of(kind), &any(), |_| Ok::<(), UnionError>(()));
            let united = made(united.unwrap()).unwrap();
            assert!(united.segment_count() >= segments, "{kind:?}, {filling:?}");
            assert_eq!(united.internal_validate(), Ok(()), "{kind:?}, {filling:?}");
            let mut all = (0..items).step_by(7);
            assert!(all.all(|item| has_at(&united, item, now_of(kind))), "{kind:?}, {filling:?}");
        }
    }
}
