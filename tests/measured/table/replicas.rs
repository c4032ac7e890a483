//! Only accepted adds and removals change a table. So replicas have the same bytes.

use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::prefetch::SelectTask;
use everbloom_filter::table::{Addition, EntryKind, Table};
use everbloom_filter::words::Select;
use everbloom_filter::{AddError, Added, GrowthBudget, ItemHash, Prefetch};

use super::{add_kind, addition, any, bytes, counted, hash, of_kind, remove, timed};
use crate::support::make::insert;
use crate::support::{Random, effort};

const KINDS: [EntryKind; 4] = [
    EntryKind::Plain,
    EntryKind::Counted,
    EntryKind::Timed(everbloom::Steps::Fourteen),
    EntryKind::Timed(everbloom::Steps::Fine),
];

/// Selects without the instructions of the processor, and in another way than the portable code.
#[derive(Clone, Copy)]
struct Slow;

impl Select for Slow {
    fn select(self, word: u64, rank: u32) -> u32 {
        (0..rank).fold(word, |word, _| word & word.wrapping_sub(1)).trailing_zeros()
    }
}

#[derive(Clone, Copy)]
struct SlowProcessor;

impl Prefetch for SlowProcessor {
    fn prefetch<T>(self, _: &T) {}

    fn with_fast_select<T: SelectTask>(self, task: T) -> T::Output {
        task.run(Slow)
    }
}

/// The limit of the primary is sometimes too small. The replica has another processor and no limit, and gets only the
/// adds and removals that the primary has accepted.
#[test]
fn replicas_with_other_limits_and_processors_have_the_same_bytes() {
    for kind in KINDS {
        let (mut primary, mut replica) = (of_kind(kind, 0.01, 5_000), of_kind(kind, 0.01, 5_000));
        let (mut random, mut refused, mut unchanged, mut now) = (Random(7), 0, 0, 100);
        let mut limit = 1_000u64;
        for step in 0..150_000u64 {
            let item = random.next() % 40_000;
            now += u64::from(random.below(1_000) == 0);
            if kind == EntryKind::Counted && random.below(3) == 0 {
                let removed = remove(&mut primary, item, NoPrefetch).unwrap();
                if removed {
                    assert_eq!(remove(&mut replica, item, SlowProcessor), Ok(true));
                }
                continue;
            }
            let late = if random.below(4) == 0 { random.next() % 15 } else { 0 };
            let addition = Addition { hash: hash(item), generation: now - late, ..addition(now) };
            let before = (primary.counts(), primary.used_slots(), primary.size_bytes());
            let outcome = insert(&mut primary, addition, &GrowthBudget::new(&limit));
            match outcome {
                Ok(Added::Present) | Err(_) => {
                    assert_eq!(
                        (primary.counts(), primary.used_slots(), primary.size_bytes()),
                        before,
                        "{kind:?}"
                    );
                    unchanged += 1;
                }
                Ok(_) => {
                    assert_eq!(replica.add(addition, &any(), SlowProcessor), outcome, "{kind:?}, {step}")
                }
            }
            if matches!(outcome, Err(AddError::CannotGrow(_))) {
                refused += 1;
                limit += limit / 50;
            }
            if step % 10_000 == 0 {
                assert!(bytes(&primary) == bytes(&replica), "{kind:?}, {step}");
                assert!((0..40_000).step_by(7).all(|item| {
                    primary.contains(hash(item), now, NoPrefetch)
                        == replica.contains(hash(item), now, SlowProcessor)
                }));
            }
        }
        assert!(bytes(&primary) == bytes(&replica) && primary.counts() == replica.counts(), "{kind:?}");
        assert!(refused > 50 && unchanged >= refused, "{kind:?}: {refused}, {unchanged}");
    }
}

/// An add may join segments. That cuts remainders, so the item may match an entry only then. Such an add is not
/// [`Added::Present`], because it has changed the table.
#[test]
fn an_add_that_is_present_has_changed_nothing() {
    let mut after_joins = 0;
    for seed in 0..4 {
        let (mut table, mut random, mut now) = (timed(0.5, 400), Random(seed), 100);
        for round in 0..100u64 {
            let adds = if round % 25 == 0 { 20_000 } else { 600 };
            for _ in 0..adds {
                let hash = hash(random.next());
                let before = (table.counts(), table.used_slots(), table.size_bytes());
                let outcome = insert(&mut table, Addition { hash, ..addition(now) }, &any()).unwrap();
                let after = (table.counts(), table.used_slots(), table.size_bytes());
                assert!(outcome != Added::Present || before == after, "{round}: {before:?} {after:?}");
                after_joins += u32::from(after.0.segments < before.0.segments);
            }
            now += 1;
        }
        assert_eq!(table.internal_validate(), Ok(()));
    }
    assert!(after_joins > 20, "{after_joins}");
}

/// Between growing and shrinking there is a gap, or adds and removals at the boundary would split and join in turn.
#[test]
fn adds_and_removals_at_the_boundary_do_not_split_and_join_in_turn() {
    for items in [70u64, 300, 3_000, 9_000, 40_000] {
        let mut table = counted(0.01);
        let mut next = 0;
        let mut add = |table: &mut Table| {
            let _ = insert(table, Addition { hash: hash(next), ..addition(0) }, &any()).unwrap();
            next += 1;
        };
        let size = |table: &Table| (table.segment_count(), table.counts().blocks_log);
        (0..items).for_each(|_| add(&mut table));
        // To the next growth.
        let before = size(&table);
        while size(&table) == before {
            add(&mut table);
        }
        let (grown, mut removed, used) = (size(&table), 0, table.used_slots());
        // A twentieth of the items is removed, and as many are added.
        for _ in 0..5 {
            for _ in 0..used / 20 {
                assert_eq!(remove(&mut table, removed, NoPrefetch), Ok(true));
                removed += 1;
                assert_eq!(size(&table), grown, "{items}");
            }
            (0..used / 20).for_each(|_| add(&mut table));
            assert_eq!(size(&table), grown, "{items}");
        }
        // When only six tenths of the slots are still in use, the table is smaller again.
        while table.used_slots() > used * 6 / 10 {
            assert_eq!(remove(&mut table, removed, NoPrefetch), Ok(true));
            removed += 1;
        }
        assert!(size(&table) < grown, "{items}");
    }
}

/// An add may split one segment and then need more slots in another. If the limit allows only the split, it is taken back.
#[test]
fn a_split_before_a_refusal_is_taken_back() {
    for kind in KINDS {
        let mut random = Random(3);
        let mut item = |segment| ItemHash { h1: random.next() & !3 | segment, h2: random.next() };
        let with = |table: &Table, hash| {
            let mut table = table.try_clone().unwrap();
            insert(&mut table, Addition { hash, ..addition(20) }, &any()).unwrap();
            table
        };
        let mut table = of_kind(kind, 0.01, 50);
        for number in 0.. {
            if table.segment_count() == 4 {
                break;
            }
            add_kind(&mut table, number, 20);
        }
        // The last segment is full, and then the next add splits the first one.
        let grow =
            |mut table: Table, item: &mut dyn FnMut() -> ItemHash, is_due: fn(&Table, &Table) -> bool| loop {
                let next = with(&table, item());
                if is_due(&table, &next) {
                    return table;
                }
                table = next;
            };
        let table = grow(table, &mut || item(3), |table, next| next.size_bytes() > table.size_bytes());
        let mut others = (0..3).cycle();
        let table = grow(table, &mut || item(others.next().unwrap()), |_, next| next.segment_count() > 4);
        let last = item(3);
        let after = with(&table, last);
        assert_eq!((table.segment_count(), after.segment_count()), (4, 5), "{kind:?}");
        for limit in (table.size_bytes()..after.size_bytes()).step_by(effort(40, 8)) {
            let mut refusing = table.try_clone().unwrap();
            let addition = Addition { hash: last, ..addition(20) };
            let refused = insert(&mut refusing, addition, &GrowthBudget::new(&limit));
            assert!(matches!(refused, Err(AddError::CannotGrow(_))), "{kind:?}, limit {limit}");
            assert_eq!(refusing.segment_count(), 4, "{kind:?}, limit {limit}");
            assert!(bytes(&refusing) == bytes(&table), "{kind:?}, limit {limit}");
            assert_eq!(refusing.internal_validate(), Ok(()), "{kind:?}, limit {limit}");
        }
    }
}
