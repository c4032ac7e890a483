//! Timed entries: the error rate is that of the live entries, whatever the table has gone through.

use everbloom_filter::table::{Addition, Table};

use super::{addition, any, hash, measured_rate, timed};
use crate::support::make::insert;

const PROBES: u64 = 100_000;

/// Adds items of a generation at `now`.
fn add(table: &mut Table, items: std::ops::Range<u64>, generation: u64, now: u64) {
    for item in items {
        let addition = Addition { hash: hash(item), generation, ..addition(now) };
        insert(table, addition, &any()).unwrap();
    }
}

/// Asserts that the error rate at `now` and at some later times is at least the measured one, and not much above it.
fn assert_rates(table: &Table, now: u64, context: &str) {
    assert_eq!(table.internal_validate(), Ok(()), "{context}");
    let copy = table.try_clone().unwrap();
    for now in [0, 1, 3, 7, 11, 14, 15, 40].map(|idle| now + idle) {
        let (computed, measured) = (table.error_rate(now), measured_rate(table, now, PROBES));
        let deviation = (computed.max(1.0 / PROBES as f64) / PROBES as f64).sqrt();
        let context = format!("{context} at {now}: {computed} computed, {measured} measured");
        assert!(computed >= measured - 5.0 * deviation, "{context}");
        // Several entries of a bucket can match the same item. The rate of a large table is an estimate.
        let lowest =
            computed * (1.0 - 4.0 * computed).max(0.5) * if table.segment_count() > 8 { 0.8 } else { 1.0 };
        assert!(lowest <= measured + 5.0 * deviation + 1e-4, "{context}");
        assert_eq!(computed, copy.error_rate(now), "{context}");
    }
}

/// The older items are more than the live ones, and have longer remainders because the table has grown.
#[test]
fn an_older_history_expires() {
    for (items, older) in [(100, 3000), (1000, 200_000), (20_000, 100_000)] {
        let mut table = timed(0.01, items);
        add(&mut table, 0..items, 20, 20);
        assert_rates(&table, 20, "live items");
        for generation in 6..10 {
            add(&mut table, generation << 32..(generation << 32) + older / 4, generation, 20);
            assert_rates(&table, 20, &format!("{items} live items, {generation} loaded"));
        }
        for now in [21, 23, 25] {
            assert_rates(&table, now, &format!("{items} live items and {older} older ones"));
        }
        add(&mut table, items..items + 700, 25, 25);
        assert_rates(&table, 25, &format!("{items} items, and newer ones"));
    }
}

#[test]
fn a_table_is_filled_evenly_and_then_idle() {
    for (error_rate, items) in [(0.01, 50), (0.1, 5000), (0.001, 40_000)] {
        let mut table = timed(error_rate, items);
        let step = items.div_ceil(14);
        for now in 20..55 {
            add(&mut table, now * step..(now + 1) * step, now, now);
            if now % 5 == 0 {
                assert_rates(&table, now, &format!("{error_rate}, {items} items per window"));
            }
        }
        // The same items again: they move to the current generation.
        for now in 55..60 {
            add(&mut table, 54 * step..57 * step, now, now);
            assert_rates(&table, now, &format!("{error_rate}, {items} items per window, again"));
        }
    }
}

/// The table outgrows its size, and shrinks again after the items have expired.
#[test]
fn a_table_grows_and_shrinks() {
    for (error_rate, items, burst) in [(0.01, 100, 100_000), (0.3, 50, 200_000), (0.001, 3000, 250_000)] {
        let mut table = timed(error_rate, items);
        let mut segments = 0;
        for now in 20..40 {
            // The burst is of older generations, so the first items are live after it has expired.
            let context = format!("{error_rate}, {items} items");
            add(&mut table, now << 40..(now << 40) + items, now, now);
            if now == 20 {
                for generation in 6..12 {
                    add(&mut table, generation << 32..(generation << 32) + burst / 6, generation, now);
                }
                segments = table.segment_count();
                assert_rates(&table, now, &format!("{context}, grown"));
            }
            // Every 256th add joins two segments.
            add(&mut table, now << 36..(now << 36) + 3000, now, now);
            if now % 3 == 0 {
                let left = table.segment_count();
                assert_rates(&table, now, &format!("{context}, {left} of {segments} segments"));
            }
        }
        assert!(table.segment_count() < segments / 2, "{} of {segments}", table.segment_count());
    }
}

/// In a table of few segments, all entries are read, so the share of the live ones is exact. Half of the items have
/// expired, and both halves were added together.
#[test]
fn the_live_share_of_a_small_table_is_exact() {
    for items in [200, 1000, 10_000] {
        let mut table = timed(0.01, 2 * items);
        for item in 0..items {
            add(&mut table, 2 * item..2 * item + 1, 20, 20);
            add(&mut table, 2 * item + 1..2 * item + 2, 10, 20);
        }
        let (all, live) = (table.error_rate(20), table.error_rate(25));
        assert!((live / all - 0.5).abs() < 0.01, "{items}: {live} of {all}");
    }
}
