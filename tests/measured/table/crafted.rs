//! Items that were crafted to fall into one bucket, block or segment.

use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::table::{Addition, EntryKind, Table};
use everbloom_filter::work::{self, Work};
use everbloom_filter::{AddError, Added, ItemHash};

use super::segments::{made_of_parts, parts};
use super::{add, add_kind, addition, any, counted, has, has_at, hash, of_kind, plain, remove, timed};
use crate::support::make::insert;
use crate::support::{Random, effort};

/// Returns a crafted hash: the `bits` low bits of its first word are the same in every call, and so is its bucket if
/// `same_bucket`.
fn crafted(random: &mut Random, bits: u32, same_bucket: bool) -> ItemHash {
    let h1 = random.next() >> bits << bits | 0x5a5a_5a5a & ((1 << bits) - 1);
    let h2 = if same_bucket { random.next() >> 6 | 7 << 58 } else { random.next() };
    ItemHash { h1, h2 }
}

fn attack(table: &mut Table, bits: u32, same_bucket: bool) {
    let mut random = Random(u64::from(bits) + 1);
    let before = table.size_bytes();
    let (mut refused, mut new) = (0u64, 0u64);
    for _ in 0..200_000 {
        let hash = crafted(&mut random, bits, same_bucket);
        let addition = Addition { hash, ..addition(20) };
        match insert(table, addition, &any()) {
            Ok(outcome) => {
                assert!(table.contains(hash, 20, NoPrefetch));
                new += u64::from(outcome == Added::New);
            }
            Err(AddError::TooOften) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(table.internal_validate(), Ok(()), "{bits}");
    let after = table.size_bytes();
    println!("{bits} {same_bucket}: {new} new, {refused} refused, {before} to {after} bytes");
    // A table of counted entries may get a segment for each bucket that 31 items fill.
    let most = if table.kind() == EntryKind::Counted { 60 } else { 40 };
    assert!(after < before + (64 << 10) + most * new, "{bits}: {before} to {after} bytes");
}

#[test]
fn they_take_bounded_memory_and_leave_the_other_items_alone() {
    let attacks = [(18, false), (12, false), (6, true), (18, true), (6, false)];
    for &(bits, same_bucket) in effort(&attacks[..3], &attacks) {
        for kind in [EntryKind::Plain, EntryKind::Counted, EntryKind::Timed(everbloom::Steps::Fourteen)] {
            let mut table = of_kind(kind, 0.01, 100_000);
            (0..100_000).for_each(|item| _ = add_kind(&mut table, item, 20));
            attack(&mut table, bits, same_bucket);
            assert!((0..100_000).all(|item| has_at(&table, item, 20)), "{bits} {kind:?}");
            // Absent items outside of the attacked part of the table keep their rate.
            let others = (0..100_000u64).map(|probe| super::hash(probe + (1 << 50)));
            let others: Vec<_> = others.filter(|hash| hash.h1 & 63 != 0x5a5a_5a5a & 63).collect();
            let found = others.iter().filter(|hash| table.contains(**hash, 20, NoPrefetch)).count();
            assert!((found as f64) < 0.011 * others.len() as f64, "{bits} {kind:?}: {found}");
        }
    }
}

/// Returns the share of the buckets of a table that match all items.
fn saturated_share(table: &Table) -> f64 {
    // A table of one segment grows before a bucket becomes saturated.
    let buckets = if table.segment_count() > 1 { table.segment_count() as u64 * 4096 } else { 2000 };
    table.match_all_counts().saturated_buckets as f64 / buckets as f64
}

/// The bounds of docs/command-details.md: each crafted item makes at most 1.37 buckets of 327,680 match all items, and
/// takes at most 110 bytes, also those of the honest items after it.
#[test]
fn they_add_to_the_rate_and_the_memory_as_documented() {
    const LATER: u64 = 10_000;
    // Full buckets and segments of counted entries refuse items.
    let later = |table: &mut Table| {
        for item in 1 << 30..(1 << 30) + LATER {
            let added = insert(table, Addition { hash: hash(item), ..addition(20) }, &any());
            assert!(added.is_ok() || added == Err(AddError::TooOften) && table.kind() == EntryKind::Counted);
        }
    };
    // The items that a window is made for.
    let kinds = [
        (EntryKind::Plain, 1),
        (EntryKind::Timed(everbloom::Steps::Fourteen), 1),
        (EntryKind::Timed(everbloom::Steps::Fourteen), 1_000),
        (EntryKind::Timed(everbloom::Steps::Fourteen), 100_000),
    ];
    for (kind, items) in kinds.into_iter().chain([(EntryKind::Counted, 1)]) {
        let mut most = (0.0f64, 0.0f64);
        let bits = effort(&[4, 8, 14][..], &[4, 5, 6, 8, 11, 14]);
        for (honest, &bits) in
            [0u64, 1_000, 100_000].into_iter().flat_map(|honest| bits.iter().map(move |bits| (honest, bits)))
        {
            let mut table = of_kind(kind, 0.01, items);
            (0..honest).for_each(|item| _ = add_kind(&mut table, item, 20));
            let mut without = table.try_clone().unwrap();
            later(&mut without);
            let (mut random, mut new) = (Random(u64::from(bits) + honest), 0);
            for tries in 1..=effort(9_000, 60_000) {
                let hash = crafted(&mut random, bits, false);
                if !table.contains(hash, 20, NoPrefetch)
                    && insert(&mut table, Addition { hash, ..addition(20) }, &any()).is_ok()
                {
                    new += 1;
                }
                if tries % 1500 == 0 {
                    let (share, context) =
                        (saturated_share(&table), format!("{kind:?} for {items}, {honest}, {bits}"));
                    assert!(share <= 0.0005 + 0.000_005 * f64::from(new), "{context}: {share} after {new}");
                    most.0 = most.0.max((share - 0.0005) / f64::from(new) * 1e6);
                }
            }
            later(&mut table);
            let more = table.size_bytes().saturating_sub(without.size_bytes()).saturating_sub(64 << 10);
            most.1 = most.1.max(more as f64 / f64::from(new));
            assert!(
                more as f64 <= 110.0 * f64::from(new),
                "{kind:?} for {items}, {honest}, {bits}: {more} for {new}"
            );
            assert!((0..honest).all(|item| has_at(&table, item, 20)));
        }
        println!("{kind:?} for {items}: {:.2} millionths and {:.1} bytes per crafted item", most.0, most.1);
    }
}

/// Sweeps of a window join segments. They must not undo the growth for a bucket that is full.
#[test]
fn a_small_window_keeps_the_size_that_full_buckets_need() {
    for seed in 9..14 {
        let (mut table, mut random) = (timed(0.01, 1_000), Random(seed));
        for _ in 0..2_500 {
            let hash = crafted(&mut random, 5, false);
            insert(&mut table, Addition { hash, ..addition(20) }, &any()).unwrap();
        }
        let saturated = table.match_all_counts().saturated_buckets;
        assert!(saturated <= 8, "{seed}: {saturated}");
        assert_eq!(table.internal_validate(), Ok(()));
        // The crafted items expire, and the table shrinks.
        let size = table.size_bytes();
        (0..2_000).for_each(|item| _ = add_kind(&mut table, item % 50, 40 + item / 100));
        assert!(table.size_bytes() < size / 4, "{seed}: {} of {size}", table.size_bytes());
    }
}

#[test]
fn a_small_table_survives_them() {
    for bits in [0, 3, 20, 60] {
        let mut table = plain(0.01);
        attack(&mut table, bits, true);
        (0..1_000).for_each(|item| _ = add(&mut table, item));
        assert!((0..1_000).all(|item| has(&table, item)));
    }
}

/// A join unites the runs of two buckets and shortens entries. So a run may be longer than adds make it, and equal
/// entries may together have a larger count than one entry can have.
#[test]
fn a_part_of_a_dump_of_a_joined_table_arrives_twice() {
    const TIMES: u64 = 3000;
    let mut table = counted(0.01);
    // While the table is large, the two halves of these items are in different blocks.
    let items = |bit: u64| (0..25u64).map(move |item| ItemHash { h1: bit << 9 | item << 10, h2: 7 << 58 });
    (0..200_000).for_each(|item| _ = add(&mut table, item));
    for hash in items(0).chain(items(1)) {
        insert(&mut table, Addition { hash, ..addition(0) }, &any()).unwrap();
    }
    let often = [0, 1 << 20].map(|h1| ItemHash { h1, h2: 9 << 58 });
    for hash in (0..TIMES).flat_map(|_| often) {
        insert(&mut table, Addition { hash, ..addition(0) }, &any()).unwrap();
    }
    (0..200_000).for_each(|item| assert_eq!(remove(&mut table, item, NoPrefetch), Ok(true)));
    let twice = parts(&table).into_iter().flat_map(|(part, _)| [part.clone(), part]);
    let mut copy = made_of_parts(&table, twice);
    assert!(items(0).chain(items(1)).all(|hash| copy.contains(hash, 0, NoPrefetch)));
    // What a join has made of copies of void entries counts in a loaded table.
    let items = table.items(0);
    assert!((items..items + 2).contains(&copy.items(0)), "{} of {items}", copy.items(0));
    for hash in (0..TIMES).flat_map(|_| often) {
        copy.remove_each(&[hash], NoPrefetch, |removed| removed == Ok(true) || panic!("{removed:?}"));
    }
}

/// A table grows for a bucket that gets full, long before its slots are used. So no bucket matches all items. A table of
/// counted entries refuses the crafted items of a bucket while it has few other items.
#[test]
fn a_small_table_grows_for_a_full_bucket() {
    for kind in [EntryKind::Plain, EntryKind::Timed(everbloom::Steps::Fourteen)] {
        let mut table = of_kind(kind, 0.01, 1);
        let mut honest = of_kind(kind, 0.01, 1);
        let mut random = Random(7);
        for item in 0..40 {
            let addition = Addition { hash: crafted(&mut random, 0, true), ..addition(20) };
            assert!(insert(&mut table, addition, &any()).is_ok(), "{kind:?}: item {item}");
            add_kind(&mut honest, item, 20);
        }
        assert_eq!(table.match_all_counts().saturated_buckets, 0, "{kind:?}");
        let [crafted, honest] = [table, honest].map(|table| table.size_bytes());
        assert!(crafted > honest, "{kind:?}: {crafted} bytes, {honest} for honest items");
    }
}

/// A crafted item for a full segment of counted entries is refused before any segment is rewritten for it.
#[test]
fn an_item_for_a_full_segment_takes_little_work() {
    let (mut table, mut random) = (counted(1e-9), Random(11));
    let mut refused = 0;
    for _ in 0..20_000 {
        let hash = crafted(&mut random, 7, false);
        _ = work::take();
        if let Err(error) = insert(&mut table, Addition { hash, ..addition(0) }, &any()) {
            assert_eq!((error, work::take()), (AddError::TooOften, Work::default()));
            refused += 1;
        }
    }
    assert!(refused > 10_000 && table.segment_count() < 80, "{refused} {}", table.segment_count());
}

/// A table cannot shrink if crafted items fill the two segments that it would join. A removal sees this without reading
/// their entries.
#[test]
fn removals_beside_full_segments_take_little_work() {
    let (mut table, mut random) = (counted(0.01), Random(13));
    for item in 0..600_000 {
        add(&mut table, item).unwrap();
    }
    // The two halves of these items are in different segments, which a join unites.
    let before = table.used_slots();
    for _ in 0..2_000 {
        for half in [0, 1 << 6] {
            let hash = ItemHash { h1: random.next() << 7 | half, h2: random.next() };
            insert(&mut table, Addition { hash, ..addition(0) }, &any()).unwrap();
        }
    }
    assert!(table.used_slots() > before + 3_900);
    _ = work::take();
    for item in 0..390_000 {
        assert_eq!(remove(&mut table, item, NoPrefetch), Ok(true));
        if item % 1_000 == 0 {
            let work = work::take();
            assert!(work.slots < 1_000_000, "{item}: {work:?}");
        }
    }
    assert_eq!(table.segment_count(), 65);
    assert_eq!(table.internal_validate(), Ok(()));
}
