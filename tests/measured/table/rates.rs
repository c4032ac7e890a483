//! Plain entries: every item of a large table is found; the error rate and the memory.

use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::table::{Schedule, Table};

use super::{add, addition, any, has, hash, measured_rate, plain};
use crate::support::effort;

const RATES: [f64; 8] = [0.5, 0.25, 0.05, 0.01, 0.0025, 0.001, 1e-4, 1e-9];

/// Returns the largest number of items at which rates are measured. TABLE_ITEMS overrides it; the full run has
/// 10,000,000.
fn most_items() -> u64 {
    std::env::var("TABLE_ITEMS").map_or(100_000, |items| items.parse().unwrap())
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
fn the_measured_rate_is_the_computed_one_and_within_the_promise() {
    let most_items = most_items();
    for error_rate in [0.5, 0.25, 0.05, 0.01, 0.0025, 0.001] {
        let (mut table, mut check_at) = (plain(error_rate), 1);
        for item in 1..=most_items {
            let _ = add(&mut table, item);
            if item == check_at || item == most_items {
                check_at = check_at * 4 + 1;
                let probes = 200_000;
                let (measured, computed) = (measured_rate(&table, 0, probes), table.error_rate(0));
                let deviation = (computed / probes as f64).sqrt();
                assert!(computed <= error_rate, "{error_rate}, {item}: {computed}");
                // Entries of one bucket can match the same item, so the sum is an upper bound.
                let least = computed * (1.0 - computed * 4.0).max(0.7) - 5.0 * deviation;
                assert!(
                    measured >= least && measured <= computed + 5.0 * deviation,
                    "{error_rate}, {item}: {measured} {computed}"
                );
            }
        }
    }
}

/// A merge relies on the bound. It must not rise while items are added, and must be close to the rate that is reached.
#[test]
fn the_highest_rate_is_an_upper_bound_at_every_size() {
    for error_rate in [0.5, 0.05, 0.01, 0.001, 1e-9] {
        let mut table = plain(error_rate);
        let first = table.error_rate_max();
        assert!(first <= error_rate, "{error_rate}: {first}");
        for item in 0..100_000 {
            let _ = add(&mut table, item);
            let share = table.error_rate_max() / first;
            assert!((0.95..=1.000_001).contains(&share), "{error_rate}, {item}: {share} of {first}");
        }
    }
}

/// The numbers of a table that has grown to some size. They are computed without a table, because the format determines
/// the lengths of remainders and the numbers of blocks.
#[derive(Clone, Copy)]
struct Computed {
    rate: f64,
    void_entries: f64,
    items: f64,
}

/// Returns the rate and the void entries when a table of a schedule has grown to 2^`size_log` blocks and is full.
fn computed(table: &Table, size_log: u32) -> Computed {
    let Schedule::FromOneBlock { base, longer_from } = table.counts().schedule else { panic!("timed") };
    let bits = |size: u32| {
        let longer = [21, 25, 34, 43, 52, 61].iter().filter(|from| size >= **from).count() as u32;
        u32::from(base) + u32::from(size >= longer_from.into()) + longer
    };
    let mut computed = Computed { rate: 0.0, void_entries: 0.0, items: 0.0 };
    for size in 0..=size_log {
        // The first block has 112 slots for 64 buckets. A round of splits begins at 1.4 slots in use per bucket and
        // ends at 1.6. The model takes 1.5: half of the entries that are added in a round have the old length, and half
        // the new one.
        let load = |size: u32| 64.0 * 2f64.powi(size as i32) * 1.5;
        let added =
            if size == 0 { 112.0 } else { load(size) - if size == 1 { 112.0 } else { load(size - 1) } };
        let known = 6 + size + bits(size);
        computed.rate += added * 2f64.powi(-(known as i32));
        computed.items += added;
        let lost = size_log - size;
        if lost >= bits(size) {
            computed.void_entries += added * 2f64.powi((lost - bits(size)) as i32);
        }
    }
    computed
}

#[test]
fn the_rate_is_within_the_promise_up_to_two_to_the_forty_items() {
    for error_rate in [0.999, 0.9, 0.5, 0.25, 0.1, 0.05, 0.01, 0.0025, 0.001, 1e-4, 1e-6, 1e-9, 1e-12] {
        let mut table = plain(error_rate);
        for size_log in 0..=34 {
            let Computed { rate, items, .. } = computed(&table, size_log);
            assert!(rate <= error_rate, "{error_rate}: {rate} at {items} items");
        }
        assert!(computed(&table, 34).items > (1u64 << 40) as f64);
        let at_most = table.error_rate_max();
        assert!(at_most <= error_rate * 1.001, "{error_rate}: {at_most}");
        // The model agrees with a real table.
        (0..200_000).for_each(|item| _ = add(&mut table, item));
        let size_log = table.segment_count().ilog2() + 6;
        let (below, above) = (computed(&table, size_log - 1).rate, computed(&table, size_log + 1).rate);
        let rate = table.error_rate(0);
        assert!(error_rate > 0.1 || rate > below && rate < above, "{error_rate}: {below} {rate} {above}");
        assert!(table.error_rate_max() <= error_rate * 1.001, "{error_rate}: {}", table.error_rate_max());
    }
}

#[test]
fn void_entries_are_few_up_to_a_thousand_million_items() {
    for error_rate in [0.999, 0.5, 0.25, 0.1, 0.01, 1e-3] {
        let mut table = plain(error_rate);
        // 2^23 blocks have 8 * 10^8 items, 2^24 have 1.6 * 10^9.
        for size_log in 0..=24 {
            let Computed { void_entries, items, .. } = computed(&table, size_log);
            assert!(void_entries <= items / 20.0, "{error_rate}: {void_entries} of {items}");
        }
        if error_rate > 0.2 {
            (0..1_000_000).for_each(|item| _ = add(&mut table, item));
            let size_log = table.segment_count().ilog2() + 6;
            let expected = [size_log, size_log + 1].map(|size_log| computed(&table, size_log).void_entries);
            let void = table.match_all_counts().void_entries as f64;
            assert!(
                void >= expected[0] / 2.0 && void <= expected[1] * 1.2,
                "{error_rate}: {void} {expected:?}"
            );
        }
    }
}

/// Returns the mean and the largest memory in bits per item, from `from` items on.
fn memory(table: &mut Table, from: u64, to: u64) -> (f64, f64) {
    let (mut next, mut sum, mut count, mut worst) = (from, 0.0, 0.0, 0.0f64);
    for item in 1..=to {
        let _ = add(table, item);
        if item == next {
            next += next / 64 + 1;
            let bits = table.size_bytes() as f64 * 8.0 / item as f64;
            (sum, count, worst) = (sum + bits, count + 1.0, worst.max(bits));
        }
    }
    (sum / count, worst)
}

#[test]
fn the_memory_follows_the_items() {
    let measured = RATES.map(|error_rate| {
        let (mean, worst) = memory(&mut plain(error_rate), 3_000, effort(300_000, 1_000_000));
        println!("{error_rate}: {mean:.2} bits per item, at most {worst:.2}");
        (mean, worst)
    });
    let most = [
        (13.5, 15.5),
        (13.5, 15.5),
        (14.5, 16.5),
        (17.0, 19.6),
        (19.5, 22.0),
        (21.0, 24.0),
        (25.0, 28.0),
        (44.0, 50.0),
    ];
    for ((error_rate, measured), most) in RATES.iter().zip(measured).zip(most) {
        assert!(measured.0 <= most.0 && measured.1 <= most.1, "{error_rate}: {measured:?}");
    }
}
