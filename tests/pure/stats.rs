//! Statistics compared with the truth: the number of distinct items and the error rate.

use everbloom::bloom::encoding::ItemEncoding;
use everbloom::bloom::filter::policy::redisbloom::RedisBloomOptions;
use everbloom::bloom::hash::scheme::{Scheme, SchemeParameters};
use everbloom::bloom::prefetch::NoPrefetch;
use everbloom::bloom::{Added, Filter, Growth, UnknownMemory};

use crate::support::make::{
    ANY, START_MS, add, client, contains, counting, keyed, plain, promise, redisbloom, saturating, set_time,
    unreserved, valkey, window,
};

fn item(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Adds items to the only layer, even if it is full.
fn force(filter: &mut Filter, items: std::ops::Range<u64>) {
    for number in items {
        filter.layers_mut()[0].set_items(0);
        add(filter, &item(number)).unwrap();
    }
}

fn fixed(error_rate: f64, capacity_items: u64) -> Filter {
    plain(promise(error_rate, capacity_items, 0))
}

/// Returns a filter of bits of every kind, with its capacity.
fn kinds() -> Vec<(&'static str, u64, Filter)> {
    let (scheme, encoding, probes, size_bits) = (Scheme::GuavaMitz64, ItemEncoding::Raw, 7, 4_000_000);
    let parameters = SchemeParameters { scheme, encoding, shift: 0, probes, size_bits };
    vec![
        ("scattered", 100_000, fixed(0.01, 100_000)),
        ("one line", 2_500_000, fixed(0.1, 2_500_000)),
        ("two lines", 1_000_000, fixed(0.01, 1_000_000)),
        ("three lines", 1_000_000, fixed(0.001, 1_000_000)),
        ("eight lines", 300_000, fixed(1e-9, 300_000)),
        ("keyed", 100_000, keyed(promise(0.01, 100_000, 0))),
        ("keyed in pages", 1_000_000, keyed(promise(0.01, 1_000_000, 0))),
        ("redisbloom", 400_000, redisbloom(0.01, 400_000, RedisBloomOptions::FIXED, 2)),
        ("valkey-bloom", 400_000, valkey(promise(0.01, 400_000, 0))),
        ("imported", 400_000, client(parameters, 400_000, Growth::Fixed)),
    ]
}

#[test]
fn estimates_of_items_are_within_one_per_cent_and_the_error_rate_is_the_measured_one() {
    for (name, capacity, mut filter) in kinds() {
        let mut items = 0;
        for percent in [1, 2, 5, 10, 25, 50, 75, 99, 150, 300, 500] {
            let next = capacity * percent / 100;
            force(&mut filter, items..next);
            items = next;
            let (layers, _, whole) = filter.stats();
            let error = whole.estimated_items / items as f64 - 1.0;
            assert!(error.abs() < 0.01, "{name} at {percent} %: {items}, estimated {whole:?}");
            assert_eq!(whole.set_bits, layers[0].set_bits);
            if [75, 99, 150, 300, 500].contains(&percent) {
                assert_rate(&format!("{name} at {percent} %"), &filter);
            }
        }
    }
}

#[test]
fn the_items_of_a_filter_that_grows_are_estimated_over_its_bits_and_its_table() {
    for error_rate in [0.3, 0.01, 0.0001] {
        let growing = [
            ("reserved", plain(promise(error_rate, 5_000, 2))),
            ("unreserved", plain(unreserved(error_rate, 100, 2))),
            ("counting", counting(promise(error_rate, 100, 2))),
        ];
        for (kind, mut filter) in growing {
            let (mut items, mut new_items) = (0, 0);
            for target in [50, 2_500, 4_950, 6_000, 20_000, 70_000, 300_000] {
                for number in items..target {
                    new_items += u64::from(add(&mut filter, &item(number)) == Ok(Added::New));
                }
                items = target;
                let name = format!("{kind} at {error_rate}: {items} items");
                let (_, table, whole) = filter.stats();
                // A table counts the items that it stores. It does not store false positives.
                let of_table = table.map_or(0, |table| table.distinct_items);
                let of_bits: u64 = filter.layers().iter().map(|layer| layer.counts().items).sum();
                assert!(of_table == new_items - of_bits || kind == "counting", "{name}: {of_table}");
                let error = whole.estimated_items / items as f64 - 1.0;
                assert!(error.abs() < 0.01 + error_rate / 2.0, "{name}: {whole:?}");
                // The rate of a table is a sum over its entries, and so an upper bound.
                let asked = 200_000u64;
                let hits = (0..asked).filter(|number| contains(&filter, &item(number | 1 << 60))).count();
                let (measured, rate) = (hits as f64 / asked as f64, whole.error_rate);
                let noise = 4.0 * (rate / asked as f64).sqrt();
                assert!(measured <= rate * 1.05 + noise, "{name}: {measured} {whole:?}");
                assert!(measured >= rate * (0.95 - rate) - noise, "{name}: {measured} {whole:?}");
            }
        }
    }
}

#[test]
fn the_stats_of_a_window_are_those_of_its_live_items() {
    let mut filter = window(promise(0.01, 20_000, 2), 14_000);
    for second in 0..60u64 {
        set_time(&mut filter, START_MS + second * 1000);
        let added = if second % 20 < 14 { 1_000 } else { 0 };
        (0..added).for_each(|number| _ = add(&mut filter, &item(second << 32 | number)).unwrap());
        let (_, table, whole) = filter.stats();
        let live =
            (0..15).filter(|back| second >= *back && (second - back) % 20 < 14).count() as f64 * 1000.0;
        assert!(
            (table.unwrap().items as f64 - live).abs() <= live / 100.0,
            "{second}: {table:?}, {live} live"
        );
        assert_eq!(whole.estimated_items, table.unwrap().items as f64);
        let expired = table.unwrap().expired_entries;
        let (used, bytes) = (filter.table().unwrap().used_slots(), table.unwrap().expired_bytes());
        assert_eq!(expired, used - table.unwrap().items);
        assert!((expired == 0) == (bytes == 0) && bytes <= filter.size_bytes());
        let asked = 100_000u64;
        let hits = (0..asked).filter(|number| contains(&filter, &item(number | 1 << 60))).count();
        let (measured, rate) = (hits as f64 / asked as f64, whole.error_rate);
        let noise = 4.0 * (rate / asked as f64).sqrt();
        assert!(
            measured <= rate * 1.1 + noise && measured >= rate * 0.85 - noise,
            "{second}: {measured} {rate}"
        );
    }
}

/// The estimate of a small filter may be off by five standard deviations. The formula of the standard deviation is in
/// docs/command-details.md.
#[test]
fn small_filters_are_estimated_within_their_statistical_error() {
    for (capacity, rounds) in [(10u64, 300u64), (100, 200), (1000, 50)] {
        let (mut sum, mut squares, mut expected) = (0.0, 0.0, 0.0);
        for round in 0..rounds {
            let mut filter = fixed(0.01, capacity);
            force(&mut filter, round << 32..(round << 32) + capacity);
            let (layers, _, whole) = filter.stats();
            let (cells, probes) = (layers[0].positions as f64, f64::from(layers[0].probes));
            let t = capacity as f64 * probes / cells;
            expected = ((t.exp() - 1.0 - t) * cells).sqrt() / probes;
            let off = whole.estimated_items - capacity as f64;
            assert!(off.abs() < expected * 5.0 + 1.0, "{capacity}: off by {off}, deviation {expected}");
            sum += off;
            squares += off * off;
        }
        let (mean, deviation) = (sum / rounds as f64, (squares / rounds as f64).sqrt());
        assert!(mean.abs() < capacity as f64 * 0.01 + 0.1, "{capacity}: {mean}");
        assert!((deviation / expected - 1.0).abs() < 0.3, "{capacity}: {deviation}, expected {expected}");
    }
}

/// Compares the reported error rate with the measured one, unless lookups would find fewer than 4,000 false positives.
/// The number of lookups aims at ten thousand.
fn assert_rate(name: &str, filter: &Filter) {
    let (_, _, whole) = filter.stats();
    let asked = ((1e4 / whole.error_rate) as u64).clamp(100_000, 3_000_000);
    if (asked as f64) * whole.error_rate < 4_000.0 {
        return;
    }
    let wrong = (0..asked).filter(|number| filter.contains(&item(number | 1 << 60), NoPrefetch)).count();
    let measured = wrong as f64 / asked as f64;
    let off = (measured / whole.error_rate - 1.0).abs();
    assert!(off < 0.05, "{name}: measured {measured}, reported {}", whole.error_rate);
}

#[test]
fn the_stats_of_united_filters_of_every_kind_give_their_items_and_error_rate() {
    for percent in [1, 10, 50, 99, 200] {
        let (mut whole, mut items) = (None, 0);
        for (source, (name, capacity, mut filter)) in kinds().into_iter().enumerate() {
            let (first, count) = ((source as u64) << 40, capacity * percent / 100);
            force(&mut filter, first..first + count);
            items += count;
            match &mut whole {
                None => whole = Some(filter),
                Some(whole) => {
                    // A layer with twice as many items as its capacity is appended only by force.
                    assert_eq!(whole.merge(&[&filter], true, &ANY, UnknownMemory), Ok(true));
                }
            }
            let Some(whole) = &whole else { continue };
            let (layers, _, stats) = whole.stats();
            let error = stats.estimated_items / items as f64 - 1.0;
            let name = format!("{} layers at {percent} %, the last of {name}", layers.len());
            assert!(error.abs() < 0.01, "{name}: {items} items: {stats:?}");
            assert_rate(&name, whole);
        }
    }
}

#[test]
fn the_stats_of_layers_merged_bit_by_bit_give_their_items_and_error_rate() {
    for capacity in [100_000, 1_000_000] {
        let mut into = plain(saturating(0.01, capacity));
        for source in 0..4u64 {
            let mut other = plain(saturating(0.01, capacity));
            // A tenth of the items of the previous filter are also in this one.
            let first = source * capacity * 9 / 10;
            force(&mut other, first..first + capacity);
            assert!(into.add_bytes(0, 0, other.layers()[0].bits().bytes()));
            let items = first + capacity;
            let (_, _, stats) = into.stats();
            let error = stats.estimated_items / items as f64 - 1.0;
            assert!(error.abs() < 0.01, "{items} items: {stats:?}");
            assert_rate(&format!("{items} items for {capacity}"), &into);
        }
    }
}
