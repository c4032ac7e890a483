//! Unions of tables: their order does not matter, and nobody's items are lost or refused.

use std::cell::RefCell;

use std::collections::HashMap;

use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::table::{Addition, EntryKind, Table, UnionError};
use everbloom_filter::{GrowthBudget, ItemHash, work};

use super::{
    KINDS, add, add_kind, addition, any, counted, has_at, hash, made, measured_rate, of_kind, plain, remove,
    timed,
};
use crate::support::make::insert;
use crate::support::work::assert_work;
use crate::support::{Random, effort};

/// The generation of timed entries.
const NOW: u64 = 100;

/// Returns the union of tables, with the parameters of the first one.
pub(super) fn union_of(first: &Table, others: &[&Table]) -> Table {
    let united = first.union_with(others, NOW, &any(), |_| Ok::<(), UnionError>(())).unwrap();
    let united = made(united).unwrap_or_else(|| first.try_clone().unwrap());
    assert_eq!(united.internal_validate(), Ok(()));
    united
}

fn filled(kind: EntryKind, items: impl Iterator<Item = u64>) -> Table {
    let mut table = of_kind(kind, 0.01, 200_000);
    items.for_each(|item| _ = add_kind(&mut table, item, NOW));
    table
}

/// Returns all orders of the numbers below `count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![vec![]];
    }
    let shorter = orders(count - 1);
    let inserted = |order: &Vec<usize>, at| [&order[..at], &[count - 1], &order[at..]].concat();
    shorter.iter().flat_map(|order| (0..count).map(|at| inserted(order, at))).collect()
}

/// Small, equal and large sources, which have half of their items in common, are united in all orders, into a new table
/// and into the first of them.
#[test]
fn the_order_of_the_sources_does_not_matter() {
    for kind in KINDS {
        let ranges = [0..100_000u64, 50_000..150_000, 149_000..151_000, 150_990..151_010];
        let items = 151_010u64;
        let sources: Vec<Table> = ranges.clone().map(|range| filled(kind, range)).into();
        let mut whole = of_kind(kind, 0.01, 200_000);
        for item in ranges.into_iter().flatten() {
            add_kind(&mut whole, item, NOW);
        }
        let is_near = |one: f64, other: f64| (one / other - 1.0).abs() < 0.01;
        let all: Vec<&Table> = sources.iter().collect();
        let first = union_of(&whole.emptied(), &all);
        for (order, is_new) in orders(sources.len())
            .into_iter()
            .step_by(effort(5, 1))
            .flat_map(|order| [(order.clone(), true), (order, false)])
        {
            let ordered: Vec<&Table> = order.iter().map(|source| &sources[*source]).collect();
            let united = if is_new {
                union_of(&whole.emptied(), &ordered)
            } else {
                union_of(ordered[0], &ordered[1..])
            };
            let context = format!("{kind:?}, {order:?}, new: {is_new}");
            assert!((0..items).all(|item| has_at(&united, item, NOW)), "{context}");
            let numbers = |table: &Table| {
                [table.items(NOW) as f64, table.distinct_items(NOW) as f64, table.used_slots() as f64]
            };
            for (one, other) in numbers(&united).into_iter().zip(numbers(&first)) {
                assert_eq!(one, other, "{context}");
            }
            assert!(is_near(united.size_bytes() as f64, first.size_bytes() as f64), "{context}");
            assert!(is_near(united.error_rate(NOW), first.error_rate(NOW)), "{context}");
        }
        assert!(is_near(first.items(NOW) as f64, whole.items(NOW) as f64), "{kind:?}: {}", first.items(NOW));
        let share = first.size_bytes() as f64 / whole.size_bytes() as f64;
        // Two equal entries of the whole table take more slots than two of different lengths.
        let least = if kind == EntryKind::Counted { 0.75 } else { 0.99 };
        assert!((least..1.01).contains(&share), "{kind:?}: {share}");
        assert!(is_near(
            1.0 + measured_rate(&first, NOW, 100_000),
            1.0 + measured_rate(&whole, NOW, 100_000)
        ));
    }
}

/// Equal items get the sum of their counts, which takes more slots than both entries.
#[test]
fn counted_tables_of_any_size_are_united_with_their_copies() {
    let (mut table, mut items) = (counted(0.01), 0u64);
    while items < effort(20_000, 60_000) {
        for _ in 0..(items / 16).max(1) {
            add(&mut table, items).unwrap();
            items += 1;
        }
        let copy = table.try_clone().unwrap();
        for copies in [1, 2, 7] {
            let united = union_of(&table, &vec![&copy; copies]);
            assert_eq!(united.items(0), items * (1 + copies as u64), "{items}");
            assert_eq!(united.distinct_items(0), table.distinct_items(0), "{items}");
        }
    }
}

/// A hot item is added far more often than others, while both tables grow. Nobody's item is refused, and every item can
/// be removed as often as it was added.
#[test]
fn hot_items_of_two_tables_refuse_no_other_item() {
    let mut counts = HashMap::<u64, u64>::new();
    let mut put = |table: &mut Table, item, times| {
        for _ in 0..times {
            add(table, item).unwrap();
        }
        *counts.entry(item).or_insert(0) += times;
    };
    let (mut one, mut other) = (counted(0.01), counted(0.01));
    for item in 0..147_000 {
        put(&mut one, item, 1);
        if item.is_power_of_two() {
            put(&mut one, 1 << 40, 60);
        }
    }
    for item in 147_000..245_000 {
        put(&mut other, item, 1);
        if item % 1000 == 0 {
            put(&mut other, 1 << 40, 60);
        }
    }
    let mut united = union_of(&one, &[&other]);
    assert_eq!(united.items(0), counts.values().sum::<u64>());
    for (item, count) in &counts {
        for _ in 0..*count {
            assert_eq!(remove(&mut united, *item, NoPrefetch), Ok(true), "{item}");
        }
    }
    assert!(united.is_empty());
}

/// The number of adds decides when a table of timed entries sweeps. A union keeps this number, so it is tried for each
/// residue.
#[test]
fn windows_are_united_at_every_point_between_two_sweeps() {
    let mut source = timed(0.01, 3_000);
    (0..2_000).for_each(|item| _ = add_kind(&mut source, item, NOW - 13 + item / 200));
    for residue in 0..=256 {
        let mut table = timed(0.01, 3_000);
        (10_000..10_000 + residue).for_each(|item| _ = add_kind(&mut table, item, NOW - 1));
        _ = work::take();
        let mut united = union_of(&table, &[&source]);
        let bytes = table.size_bytes() + source.size_bytes() + united.size_bytes();
        // The validation reads the table again.
        assert_work(work::take(), 2 * bytes, &format!("{residue}"));
        for item in 20_000..20_600 {
            add_kind(&mut united, item, NOW);
            assert_work(work::take(), united.size_bytes(), &format!("{residue}, {item}"));
        }
        assert_eq!(united.internal_validate(), Ok(()), "{residue}");
        let live = (10_000..10_000 + residue).chain(20_000..20_600).chain(0..2_000);
        assert!(live.clone().all(|item| has_at(&united, item, NOW)), "{residue}");
        assert!(united.items(NOW) <= live.count() as u64, "{residue}");
    }
}

/// A refused union has done no work beyond finding that out.
#[test]
fn a_refused_union_costs_little() {
    for kind in KINDS {
        let (one, other) = (filled(kind, 0..200_000), filled(kind, 100_000..300_000));
        let limit = one.size_bytes() + one.size_bytes() / 4;
        let whole = union_of(&one, &[&other]);
        _ = work::take();
        let refused =
            one.union_with(&[&other], NOW, &GrowthBudget::new(&limit), |_| Ok::<(), UnionError>(()));
        assert!(matches!(refused, Err(UnionError::NoRoom(_))), "{kind:?}");
        let work = work::take();
        assert!(work.slots < whole.used_slots() / 2, "{kind:?}: {work:?}");
        let bounds = RefCell::new(Vec::new());
        let refused = one.union_with(&[&other], NOW, &any(), |bound| {
            bounds.borrow_mut().push(bound / whole.error_rate_max());
            Err(UnionError::TooOften)
        });
        let bounds = bounds.into_inner();
        assert!(refused.is_err() && matches!(bounds[..], [lower, upper] if lower < 1.0 && upper > 1.0));
        assert!(bounds[0] > 0.7 && bounds[1] < 1.3, "{kind:?}: {bounds:?}");
        assert!(work::take().slots < whole.used_slots() / 2, "{kind:?}");
    }
}

/// The bounds of the error rate hold for unions of any size, with any share of common items.
#[test]
fn a_union_is_refused_early_only_if_it_would_be_refused() {
    let all = [(20_000, 1), (50_000, 3), (130_000, 1), (35_000, 7)];
    for (kind, &(items, others)) in
        KINDS.into_iter().flat_map(|kind| effort(&all[..2], &all).iter().map(move |size| (kind, size)))
    {
        for common in [0, items / 2, items] {
            let tables: Vec<_> = (0..=others)
                .map(|number| number * (items - common)..number * (items - common) + items)
                .map(|range| filled(kind, range))
                .collect();
            let others: Vec<_> = tables[1..].iter().collect();
            let bounds = RefCell::new(Vec::new());
            let united = tables[0].union_with(&others, NOW, &any(), |bound| {
                bounds.borrow_mut().push(bound);
                if bounds.borrow().len() < 2 { Err(UnionError::TooOften) } else { Ok(()) }
            });
            // The second bound was accepted, but the error of the first one is returned.
            assert!(united.is_err() != bounds.borrow().is_empty());
            let whole = union_of(&tables[0], &others).error_rate_max();
            for bounds in bounds.into_inner().chunks(2) {
                let context = format!("{kind:?}, {items} of {} tables, {common} in common", tables.len());
                assert!(bounds[0] < whole && whole < bounds[1], "{context}: {whole}, {bounds:?}");
            }
        }
    }
}

/// A union with a table of a few items decodes only the blocks of these items.
#[test]
fn a_union_copies_the_blocks_of_which_one_table_has_all_entries() {
    let (mut large, mut small) = (plain(0.01), plain(0.01));
    let mut random = Random(1);
    (0..400_000).for_each(|_| _ = add(&mut large, random.next()));
    (0..20).for_each(|_| _ = add(&mut small, random.next()));
    for (one, other) in [(&large, &small), (&small, &large)] {
        _ = work::take();
        let united = one.union_with(&[other], 0, &any(), |_| Ok::<(), UnionError>(()));
        let united = made(united.unwrap()).unwrap();
        let work = work::take();
        assert_eq!(united.internal_validate(), Ok(()));
        assert!(work.slots < united.used_slots() / 4, "{work:?} of {}", united.used_slots());
        assert!(united.items(0).abs_diff(large.items(0) + small.items(0)) < 400, "{}", united.items(0));
    }
}

#[test]
fn a_bucket_of_a_counted_union_has_at_most_31_slots() {
    let mut random = Random(11);
    let mut crafted = |items| {
        let mut table = counted(1e-9);
        for _ in 0..items {
            let hash = ItemHash { h1: random.next() << 20, h2: random.next() >> 6 };
            insert(&mut table, Addition { hash, ..addition(0) }, &any()).unwrap();
        }
        table
    };
    let (one, fits, does_not) = (crafted(16), crafted(15), crafted(16));
    let united = |other| one.union_with(&[other], 0, &any(), |_| Ok::<(), UnionError>(()));
    assert_eq!(made(united(&fits).unwrap()).unwrap().used_slots(), 31);
    assert_eq!(united(&does_not).err(), Some(UnionError::TooOften));
}

/// The first segment of each table has 4500 slots in one half of its blocks, and their union has two segments. So buckets
/// become saturated, although each block has the entries of one table only.
#[test]
fn a_union_of_crafted_tables_that_is_too_full_has_all_items() {
    let mut random = Random(7);
    let mut crafted = |upper_half: u64| -> (Table, Vec<ItemHash>) {
        let (mut table, mut hashes) = (plain(0.01), Vec::new());
        while table.segment_count() < 2 {
            // The lowest bit chooses the segment, and the six above it the block. The second segments are alike.
            let hash = match table.used_slots() {
                ..4_500 => ItemHash { h1: random.next() & !0x41 | upper_half << 6, h2: random.next() },
                _ => ItemHash { h1: hash(hashes.len() as u64).h1 | 1, ..hash(hashes.len() as u64) },
            };
            insert(&mut table, Addition { hash, ..addition(0) }, &any()).unwrap();
            hashes.push(hash);
        }
        assert_eq!(table.match_all_counts().saturated_buckets, 0);
        (table, hashes)
    };
    let ((first, mut hashes), (second, others)) = (crafted(0), crafted(1));
    hashes.extend(others);
    for (first, second) in [(&first, &second), (&second, &first)] {
        let united = union_of(first, &[second]);
        assert_eq!(united.segment_count(), 2);
        assert!(united.match_all_counts().saturated_buckets > 0);
        assert!(hashes.iter().all(|hash| united.contains(*hash, 0, NoPrefetch)));
    }
}

/// The remainders of a large table with a low error rate have more bits than fit a slot of a small one. The sums over
/// its expired entries are still subtracted exactly.
#[test]
fn expired_entries_with_long_remainders_are_left_out() {
    let mut table = timed(1e-15, 1);
    (0..40_000).for_each(|item| _ = add_kind(&mut table, item, NOW - 40));
    // An add compacts its segment, so these remain.
    (0..200).for_each(|item| _ = add_kind(&mut table, item, NOW - 20));
    assert!(table.segment_count() > 4 && table.used_slots() < 1_000, "{}", table.used_slots());
    let mut other = timed(1e-15, 1);
    (0..100).for_each(|item| _ = add_kind(&mut other, item, NOW));
    let united = union_of(&table, &[&other]);
    assert_eq!((united.items(NOW), united.segment_count()), (100, 1));
    assert!((united.error_rate_max() / other.error_rate_max() - 1.0).abs() < 0.01);
}

/// A union with a copy adds nothing, also if most blocks of both are empty.
#[test]
fn a_union_with_a_copy_adds_nothing() {
    for kind in [EntryKind::Plain, EntryKind::Timed(everbloom::Steps::Fourteen)] {
        let (mut table, mut random) = (of_kind(kind, 0.001, 1), Random(5));
        for _ in 0..300 {
            // All items are in the first of up to 64 blocks.
            let hash = ItemHash { h1: random.next() << 6, h2: random.next() };
            insert(&mut table, Addition { hash, ..addition(NOW) }, &any()).unwrap();
        }
        let copy = table.try_clone().unwrap();
        let united = table.union_with(&[&copy], NOW, &any(), |_| Ok::<(), UnionError>(())).unwrap();
        assert!(made(united).is_none(), "{kind:?}");
    }
}
