//! Statistics compared with the truth: the number of distinct items and the error rate.

use everbloom_filter::encoding::ItemEncoding;
use everbloom_filter::filter::policy::redisbloom::RedisBloomOptions;
use everbloom_filter::hash::scheme::{Scheme, SchemeParameters};
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::{Added, Filter, Growth, UnknownMemory};

use crate::support::effort;
use crate::support::make::{
    ANY, START_MS, add, client, contains, counting, keyed, plain, promise, redisbloom, remove, saturating,
    set_time, unreserved, valkey, window,
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
        ("one line", 1_800_000, fixed(0.1, 1_800_000)),
        ("two lines", 850_000, fixed(0.01, 850_000)),
        ("three lines", 600_000, fixed(0.001, 600_000)),
        ("eight lines", 200_000, fixed(1e-9, 200_000)),
        ("keyed", 100_000, keyed(promise(0.01, 100_000, 0))),
        ("keyed in pages", 850_000, keyed(promise(0.01, 850_000, 0))),
        ("redisbloom", 400_000, redisbloom(0.01, 400_000, RedisBloomOptions::FIXED, 2)),
        ("valkey-bloom", 400_000, valkey(promise(0.01, 400_000, 0))),
        ("imported", 400_000, client(parameters, 400_000, Growth::Fixed)),
    ]
}

#[test]
fn estimates_of_items_are_within_one_per_cent_and_the_error_rate_is_the_measured_one() {
    for (name, capacity, mut filter) in kinds() {
        let mut items = 0;
        for &percent in effort(&[10, 150][..], &[1, 2, 5, 10, 25, 50, 75, 99, 150, 300, 500]) {
            let next = capacity * percent / 100;
            force(&mut filter, items..next);
            items = next;
            let (layers, _, whole) = filter.stats(filter.now());
            let error = whole.estimated_items / items as f64 - 1.0;
            assert!(error.abs() < 0.01, "{name} at {percent} %: {items}, estimated {whole:?}");
            assert_eq!(whole.set_bits, layers[0].set_bits);
            if effort(&[150][..], &[75, 99, 150, 300, 500]).contains(&percent) {
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
                let (_, table, whole) = filter.stats(filter.now());
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
        let (_, table, whole) = filter.stats(filter.now());
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
            let (layers, _, whole) = filter.stats(filter.now());
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
/// The number of lookups aims at five or ten thousand.
fn assert_rate(name: &str, filter: &Filter) {
    let (_, _, whole) = filter.stats(filter.now());
    let aim = effort(5e3, 1e4);
    let asked = ((aim / whole.error_rate) as u64).clamp(100_000, effort(600_000, 3_000_000));
    if (asked as f64) * whole.error_rate < 4_000.0 {
        return;
    }
    let wrong = (0..asked).filter(|number| filter.contains(&item(number | 1 << 60), NoPrefetch)).count();
    let measured = wrong as f64 / asked as f64;
    let off = (measured / whole.error_rate - 1.0).abs();
    assert!(off < 0.05, "{name}: measured {measured}, reported {}", whole.error_rate);
}

/// In small layers and at low rates double hashing finds more absent items than the fill predicts.
#[test]
fn the_error_rate_of_double_hashing_is_an_upper_bound() {
    let rounds = effort(10u64, 20);
    for (error_rate, items) in [(0.01, 5u64), (0.01, 100), (0.001, 50), (1e-4, 1000), (1e-6, 10), (1e-9, 100)]
    {
        for name in ["redisbloom", "redisbloom, powers of two", "valkey-bloom"] {
            let (mut found, mut reported, mut asked) = (0, 0.0, 0u64);
            for round in 0..rounds {
                let mut filter = match name {
                    "redisbloom" => redisbloom(error_rate, items, RedisBloomOptions::FIXED, 2),
                    "valkey-bloom" => valkey(promise(error_rate, items, 0)),
                    // A hash of 64 bits.
                    _ => redisbloom(error_rate, items, RedisBloomOptions::from_bits(4).unwrap(), 2),
                };
                let (first, other) = (round << 40, (1 << 60) | (round << 40));
                force(&mut filter, first..first + items);
                reported += filter.stats(filter.now()).2.error_rate / rounds as f64;
                let is_found = |number: &u64| filter.contains(&item(*number), NoPrefetch);
                found += (other..other + 100_000).filter(is_found).count();
                asked += 100_000;
            }
            let measured = found as f64 / asked as f64;
            // Three standard deviations of the count, and of the filters.
            let least = measured * 0.9 - 3.0 * (found as f64 + 1.0).sqrt() / asked as f64;
            assert!(
                reported >= least,
                "{name} {items} at {error_rate}: {measured} measured, {reported} reported"
            );
            assert!(
                reported <= 30.0 * measured.max(1e-6),
                "{name} {items} at {error_rate}: {measured}, {reported}"
            );
        }
    }
}

#[test]
fn the_stats_of_united_filters_of_every_kind_give_their_items_and_error_rate() {
    for &percent in effort(&[99][..], &[1, 10, 50, 99, 200]) {
        let (mut whole, mut items) = (None, 0);
        for (source, (name, capacity, mut filter)) in kinds().into_iter().enumerate() {
            let (first, count) = ((source as u64) << 40, capacity * percent / 100);
            force(&mut filter, first..first + count);
            items += count;
            match &mut whole {
                None => whole = Some(filter),
                Some(whole) => {
                    // A layer with twice as many items as its capacity is appended only by force.
                    assert_eq!(whole.merge(&[&filter], u64::MAX, true, &ANY, UnknownMemory), Ok(true));
                }
            }
            let Some(whole) = &whole else { continue };
            let (layers, _, stats) = whole.stats(whole.now());
            let error = stats.estimated_items / items as f64 - 1.0;
            let name = format!("{} layers at {percent} %, the last of {name}", layers.len());
            assert!(error.abs() < 0.01, "{name}: {items} items: {stats:?}");
            assert_rate(&name, whole);
        }
    }
}

#[test]
fn the_stats_of_layers_merged_bit_by_bit_give_their_items_and_error_rate() {
    for capacity in [100_000, effort(300_000, 1_000_000)] {
        let mut into = plain(saturating(0.01, capacity));
        for source in 0..4u64 {
            let mut other = plain(saturating(0.01, capacity));
            // A tenth of the items of the previous filter are also in this one.
            let first = source * capacity * 9 / 10;
            force(&mut other, first..first + capacity);
            assert!(into.add_bytes(0, 0, &other.layers()[0].bits().bytes()).is_some());
            let items = first + capacity;
            let (_, _, stats) = into.stats(into.now());
            let error = stats.estimated_items / items as f64 - 1.0;
            assert!(error.abs() < 0.01, "{items} items: {stats:?}");
            assert_rate(&format!("{items} items for {capacity}"), &into);
        }
    }
}

/// Returns the items of a filter that count towards its capacity, divided by the capacity. Asserts that they are not
/// more.
fn used(filter: &Filter, context: &str) -> f64 {
    let (items, capacity) = (filter.distinct_items(), filter.capacity_items());
    assert!(items <= capacity, "{context}: {items} of {capacity}");
    items as f64 / capacity as f64
}

/// A table doubles again and again. Its capacity is the number of items at which the current doubling ends.
#[test]
fn the_capacity_of_a_table_follows_its_doublings() {
    let items = effort(1_000_000, 10_000_000);
    let new = promise(0.01, 100, 2);
    for (name, mut filter, most_items) in [
        ("unreserved", plain(unreserved(0.01, 100, 2)), items),
        ("50 %", plain(unreserved(0.5, 100, 2)), items / 4),
        ("unreserved counting", counting(unreserved(0.01, 100, 2)), items / 4),
        ("counting", counting(new), items / 4),
        ("keyed", keyed(unreserved(1e-9, 100, 2)), items / 4),
    ] {
        assert_eq!(filter.capacity_items(), 100, "{name}");
        let (mut capacities, mut before, mut next) = (vec![100], 0.0, 1);
        for number in 0..most_items {
            let _ = add(&mut filter, &item(number)).unwrap();
            if number < 1000 || number == next {
                next = number + number / 200 + 1;
                let context = format!("{name}, {number} items");
                let (used, capacity) = (used(&filter, &context), filter.capacity_items());
                let items = filter.distinct_items();
                let last = *capacities.last().unwrap();
                // Copies of void entries, which a table of many short remainders has, are no items.
                if capacity.abs_diff(last) > last / 10 {
                    assert!(before > 0.95, "{context}: {before} of {last}");
                    assert!(capacity > last && used > 0.46, "{context}: {used} of {capacity}");
                    capacities.push(capacity);
                }
                assert!(items <= 100 || used > 0.46, "{context}: {used}");
                before = used;
            }
        }
        let doublings = (filter.distinct_items() as f64 / 112.0).log2().ceil() as usize;
        assert_eq!(capacities.len(), doublings + 2, "{name}: {capacities:?}");
        assert_eq!(capacities[1..6], [112, 179, 358, 716, 1433], "{name}");
    }
}

#[test]
fn the_capacity_of_an_outgrown_filter_includes_its_layers() {
    for reserved in [1, 100, 5000, effort(50_000, 200_000)] {
        for (name, mut filter) in [
            ("own", plain(promise(0.001, reserved, 2))),
            ("keyed", keyed(promise(0.001, reserved, 2))),
            ("counting", counting(promise(0.001, reserved, 2))),
        ] {
            assert_eq!(filter.capacity_items(), reserved);
            for number in 0..reserved * 4 {
                let _ = add(&mut filter, &item(number)).unwrap();
                let (items, context) = (filter.distinct_items(), format!("{name}, {number} of {reserved}"));
                let used = used(&filter, &context);
                if items <= reserved {
                    assert_eq!(filter.capacity_items(), reserved, "{context}");
                } else {
                    assert!(
                        filter.capacity_items() > reserved && used > 0.46 || items < 112,
                        "{context}: {used}"
                    );
                }
            }
            let used = used(&filter, name);
            assert!(used < 0.999 || reserved == 1, "{name}, {reserved}: {used}");
        }
        // Only as many items as are reserved fit. An added item that was found before may count twice.
        for mut filter in [fixed(0.001, reserved), counting(promise(0.001, reserved, 0))] {
            for number in 0..reserved * 2 {
                let _ = add(&mut filter, &item(number));
            }
            let items = filter.distinct_items();
            assert_eq!(filter.capacity_items(), reserved);
            assert!(items >= reserved && items <= reserved + reserved / 500, "{items} of {reserved}");
        }
    }
}

/// An item that is added again takes no capacity. Removals halve the capacity again.
#[test]
fn the_capacity_of_a_counting_filter_follows_its_distinct_items_down() {
    let mut filter = counting(unreserved(0.001, 100, 2));
    let items = 100_000;
    for round in 0..2 {
        for number in 0..items {
            let _ = add(&mut filter, &item(number)).unwrap();
        }
        let used = used(&filter, "all items");
        assert!(used > if round == 0 { 0.46 } else { 0.25 }, "round {round}: {used}");
    }
    for number in 0..items {
        assert_eq!(remove(&mut filter, &item(number)), Ok(true));
    }
    let full = filter.capacity_items();
    let mut capacities = Vec::new();
    for number in 0..items - 200 {
        assert_eq!(remove(&mut filter, &item(number)), Ok(true));
        let left = filter.distinct_items();
        let used = used(&filter, &format!("{left} left"));
        assert!(used > 0.3, "{left} left: {used}");
        let capacity = filter.capacity_items();
        if capacities.last().is_none_or(|last| capacity < last / 4 * 3) {
            capacities.push(capacity);
        }
    }
    assert!(capacities[0] <= full && capacities.len() > 7, "{full}, {capacities:?}");
    (items - 200..items).for_each(|number| assert_eq!(remove(&mut filter, &item(number)), Ok(true)));
    assert_eq!((filter.capacity_items(), filter.items()), (100, 0));
}

/// The capacity of a window is the reserved one. If more items are live, it is their number.
#[test]
fn the_capacity_of_a_window_is_the_reserved_one() {
    let mut filter = window(promise(0.01, 1000, 2), 14_000);
    for number in 0..20_000 {
        set_time(&mut filter, START_MS);
        add(&mut filter, &item(number)).unwrap();
        assert_eq!(filter.capacity_items(), filter.items().max(1000));
    }
    // The totals of INFO do not change with the time.
    assert_eq!((filter.counted_items(), filter.counted_capacity_items()), (0, 1000));
    set_time(&mut filter, START_MS + 15_000);
    assert_eq!((filter.capacity_items(), filter.items(), filter.counted_capacity_items()), (1000, 0, 1000));
}
