//! Merges of filters with tables: by their entries, and within the promise.

use everbloom::bloom::filter::merge::MergeError;
use everbloom::bloom::{Filter, Growth, Promise, UnknownMemory, Validation};

use crate::support::make::{
    ANY, START_MS, add, contains, counting, keyed, plain, promise, saturating, set_time, unreserved, window,
};
use crate::support::saved::digested;

/// Returns a filter with the numbers of a range.
fn with(mut filter: Filter, items: std::ops::Range<u64>) -> Filter {
    items.for_each(|item| _ = add(&mut filter, &item.to_le_bytes()).unwrap());
    filter
}

fn merge(filter: &mut Filter, sources: &[&Filter]) -> Result<bool, MergeError> {
    let before = digested(filter);
    let outcome = filter.merge(sources, false, &ANY, UnknownMemory);
    assert_eq!(filter.internal_validate(Validation::Contents), Ok(()));
    assert!(outcome == Ok(true) || digested(filter) == before, "{outcome:?}");
    outcome
}

fn merged_of(sources: &[&Filter]) -> Result<Filter, MergeError> {
    Filter::merged_of(sources, false, &ANY, UnknownMemory)
}

fn has_all(filter: &Filter, mut items: std::ops::Range<u64>) -> bool {
    items.all(|item| contains(filter, &item.to_le_bytes()))
}

#[test]
fn a_result_has_the_bits_and_the_entries_of_its_sources() {
    let mut filter = with(plain(promise(0.03, 10_000, 2)), 0..5_000);
    let table = with(plain(unreserved(0.001, 100, 2)), 5_000..20_000);
    let outgrown = with(plain(promise(0.002, 4_000, 2)), 20_000..30_000);
    assert_eq!(merge(&mut filter, &[&table, &outgrown]), Ok(true));
    assert!(filter.layer_count() == 2 && filter.table().is_some());
    assert!(has_all(&filter, 0..30_000));
    let slots = |filter: &Filter| filter.table().unwrap().used_slots();
    // An entry that another one covers is not added.
    let (made, of_both) = (slots(&filter), slots(&table) + slots(&outgrown));
    assert!(made <= of_both && made >= of_both - of_both / 500, "{made} of {of_both}");
    // The same again changes nothing.
    let before = digested(&filter);
    assert_eq!(merge(&mut filter, &[&table, &outgrown]), Ok(false));
    assert!(digested(&filter) == before);
}

#[test]
fn a_filter_without_a_table_refuses_one() {
    let table = with(plain(unreserved(0.001, 100, 2)), 0..1_000);
    for fixed in [promise(0.01, 10_000, 0), saturating(0.01, 10_000)] {
        assert_eq!(merge(&mut plain(fixed), &[&table]), Err(MergeError::Mismatch));
    }
    // Other kinds of entries, or other hashes.
    for mut other in [
        counting(promise(0.01, 100, 2)),
        window(promise(0.01, 100, 2), 1_000),
        keyed(unreserved(0.01, 100, 2)),
    ] {
        assert_eq!(merge(&mut other, &[&table]), Err(MergeError::Mismatch));
        assert_eq!(
            merge(&mut plain(unreserved(0.01, 100, 2)), &[&with(other, 0..1)]),
            Err(MergeError::Mismatch)
        );
    }
    let mut windows = window(promise(0.01, 100, 2), 1_000);
    assert_eq!(merge(&mut windows, &[&window(promise(0.01, 100, 2), 2_000)]), Err(MergeError::Mismatch));
}

#[test]
fn a_new_filter_of_tables_promises_the_sum_of_their_rates() {
    let shards: Vec<Filter> = (0..8u64)
        .map(|shard| with(plain(unreserved(0.01, 100, 2)), shard << 32..(shard << 32) + 20_000))
        .collect();
    let sources: Vec<&Filter> = shards.iter().collect();
    let merged = merged_of(&sources).unwrap();
    assert_eq!(merged.policy().promise(), Some(&Promise { error_rate: 0.08, ..unreserved(0.01, 100, 2) }));
    assert!((0..8u64).all(|shard| has_all(&merged, shard << 32..(shard << 32) + 20_000)));
    // Its cardinality is the number of distinct entries.
    let entries: u64 = shards.iter().map(|shard| shard.table().unwrap().used_slots()).sum();
    assert!(
        merged.items() <= entries && merged.items() > entries * 98 / 100,
        "{} of {entries}",
        merged.items()
    );
    assert_eq!(merged.table().unwrap().used_slots(), merged.items());
    assert!(merged.error_rate_max().unwrap() <= 0.08);
    // The sum ends at 25 %, and what exceeds that is refused.
    let coarse: Vec<Filter> = (0..3u64)
        .map(|shard| with(plain(unreserved(0.2, 100, 2)), shard << 32..(shard << 32) + 3_000))
        .collect();
    let [one, two, three] = &coarse[..] else { panic!() };
    match merged_of(&[one, two, three]) {
        Ok(merged) => assert_eq!(merged.promise().error_rate, 0.25),
        Err(error) => assert!(matches!(error, MergeError::ErrorRate { promised: 0.25, .. }), "{error}"),
    }
    assert_eq!(merged_of(&[one, two]).map(|merged| merged.promise().error_rate).unwrap_or(0.25), 0.25);
}

#[test]
fn an_existing_filter_refuses_what_exceeds_its_promise_and_names_the_rate() {
    let mut filter = with(plain(unreserved(0.001, 100, 2)), 0..50_000);
    let coarse = with(plain(unreserved(0.05, 100, 2)), 50_000..100_000);
    let Err(MergeError::ErrorRate { rate, promised, needed }) = merge(&mut filter, &[&coarse]) else {
        panic!()
    };
    assert!(promised == 0.001 && rate > 0.01 && needed >= rate, "{rate} {needed}");
    let mut wide = plain(promise(needed, 100, 2));
    assert_eq!(merge(&mut wide, &[&filter, &coarse]), Ok(true));
    assert!(has_all(&wide, 0..100_000) && wide.error_rate_max().unwrap() <= needed * 1.02);
    // By force it takes them, and shows the rate.
    assert_eq!(filter.merge(&[&coarse], true, &ANY, UnknownMemory), Ok(true));
    assert!(has_all(&filter, 0..100_000) && filter.error_rate_max().unwrap() > 0.01);
}

#[test]
fn counts_are_added_and_the_later_time_stays() {
    let mut counts = with(counting(promise(0.01, 100, 2)), 0..3_000);
    let source = with(with(counting(promise(0.001, 100, 2)), 2_000..20_000), 2_000..20_000);
    assert_eq!(merge(&mut counts, &[&source]), Ok(true));
    assert_eq!(counts.items(), 3_000 + 36_000);
    let mut windows = window(promise(0.01, 1_000, 2), 14_000);
    let mut later = window(promise(0.001, 5_000, 2), 14_000);
    set_time(&mut windows, START_MS);
    set_time(&mut later, START_MS + 5_000);
    let (mut windows, later) = (with(windows, 0..2_000), with(later, 1_000..6_000));
    assert_eq!(merge(&mut windows, &[&later]), Ok(true));
    let found = |at_ms: u64, items: std::ops::Range<u64>| {
        let mut windows = windows.try_clone(UnknownMemory).unwrap();
        set_time(&mut windows, at_ms);
        items.filter(|item| contains(&windows, &item.to_le_bytes())).count()
    };
    assert_eq!(found(START_MS + 14_000, 0..6_000), 6_000);
    assert_eq!(found(START_MS + 19_000, 1_000..6_000), 5_000);
    assert!(found(START_MS + 16_000, 0..1_000) < 30 && found(START_MS + 21_000, 0..6_000) < 100);
}

#[test]
fn a_limit_refuses_a_merge_of_tables() {
    let source = with(plain(unreserved(0.001, 100, 2)), 0..20_000);
    let filter = with(plain(unreserved(0.01, 100, 2)), 30_000..31_000);
    let mut whole = filter.try_clone(UnknownMemory).unwrap();
    assert_eq!(merge(&mut whole, &[&source]), Ok(true));
    let bytes = whole.size_bytes();
    for limit in [filter.size_bytes(), bytes / 2, bytes * 9 / 10] {
        let mut filter = filter.try_clone(UnknownMemory).unwrap();
        let refused = filter.merge(&[&source], false, &limit, UnknownMemory);
        assert!(matches!(refused, Err(MergeError::Reserve(_))), "{limit} of {bytes}: {refused:?}");
    }
    let growth = Growth::default().unreserved();
    assert_eq!(filter.growth(), growth);
}
