//! The public library: sizes in advance, times of items, digests.

use std::time::Duration;

use everbloom::{
    BloomFilter, CreateError, Format, Growth, ItemLife, ItemTime, LayerSize, Loader, NearError, NearFilter,
    NearOptions, Options, ReserveError, Steps, WithinError, counting_size, filter_size, window_size,
};
use everbloom_filter::filter::policy::window::MomentError;
use everbloom_filter::generation::WindowLength;
use everbloom_filter::{Promise, UnknownMemory, Window};

use crate::support::make::{START_MS, add, counting, set_time, window, windowed};
use crate::support::saved::chunks;
use crate::support::slices;

/// Returns `count` items, each of them twice, in scattered order.
fn items(count: u64) -> Vec<[u8; 8]> {
    (0..2 * count).map(|number| (number.wrapping_mul(0x9E37_79B1) % count).to_le_bytes()).collect()
}

/// Asserts that the expected size differs from the real one by at most the share `part` of the real one.
fn assert_close(expected: u64, real: u64, part: f64, what: &str) {
    let off = expected as f64 / real as f64 - 1.0;
    assert!(off.abs() <= part, "{what}: {expected} bytes expected, {real} taken");
}

#[test]
fn computed_sizes_are_those_of_the_filter() {
    for (error_rate, capacity_items, growth, count) in [
        (0.01, 100, Growth::Scaling { expansion: 2 }, 5000),
        (0.0001, 10, Growth::Scaling { expansion: 4 }, 5000),
        (0.2, 5000, Growth::Fixed, 1000),
        (0.01, 2_000_000, Growth::Scaling { expansion: 1 }, 1000),
        (0.01, 100_000, Growth::default(), 400_000),
        (0.01, 100, Growth::default().unreserved(), 300_000),
    ] {
        let options = Options { error_rate, capacity_items, growth };
        let items = items(count);
        let mut filter = BloomFilter::new(options).unwrap();
        filter.add_many(&slices(&items));
        assert_eq!(filter.internal_validate(), Ok(()));
        let size = filter_size(Format::Everbloom, options, filter.items()).unwrap();
        let bits: Vec<u64> = filter.layers().iter().map(|layer| layer.size_bits).collect();
        assert_eq!(size.layers.iter().map(|layer| layer.size_bits).collect::<Vec<_>>(), bits);
        assert!(size.layers.iter().all(|LayerSize { probes, lines, .. }| 0 < *lines && lines <= probes));
        // The computed sizes do not count the struct of the filter, which has 112 bytes.
        let of_bits = bits.iter().sum::<u64>();
        let of_table = filter.size_bytes() - of_bits / 8 - 112;
        assert!((size.table_bytes == 0) == (of_table == 0), "{options:?}: {size:?}");
        if of_table > 0 {
            assert_close(size.table_bytes, of_table, 0.08, &format!("{options:?}"));
        }
        let set: u64 = filter.layers().iter().map(|layer| layer.set_bits).sum();
        assert!((filter.fill() - set as f64 / of_bits.max(1) as f64).abs() < 1e-12);
    }
}

/// Compares at many numbers of items, because the size of a table goes up in steps.
#[test]
fn computed_sizes_of_tables_are_within_a_few_percent() {
    for error_rate in [0.05, 0.01, 0.001, 1e-6] {
        let options = Options { error_rate, ..Options::unreserved() };
        let Options { capacity_items, growth, .. } = options;
        let mut filter = BloomFilter::new(options).unwrap();
        let mut counted = counting(Promise { error_rate, capacity_items, growth: growth.reserved() });
        let (mut sums, mut worst, mut checked) = ([0.0; 2], 0.0f64, 0u32);
        let mut next = 2_000;
        for item in 1..=200_000u64 {
            let _ = filter.add(&item.to_le_bytes()).unwrap();
            let _ = add(&mut counted, &item.to_le_bytes()).unwrap();
            if item != next {
                continue;
            }
            next += next / 24;
            let expected = filter_size(Format::Everbloom, options, filter.items()).unwrap().size_bits() / 8;
            let of_counted = counting_size(options, counted.distinct_items()).unwrap().size_bits() / 8;
            let real = [filter.size_bytes() - 112, counted.table().unwrap().size_bytes()];
            for ((sum, expected), real) in sums.iter_mut().zip([expected, of_counted]).zip(real) {
                let off = expected as f64 / real as f64 - 1.0;
                (*sum, worst) = (*sum + off, worst.max(off.abs()));
            }
            checked += 1;
        }
        let means = sums.map(|sum| sum / f64::from(checked));
        println!("{error_rate}: off by {means:?} on average, at most {worst:.3}");
        assert!(
            means.iter().all(|mean| mean.abs() < 0.03) && worst < 0.12,
            "{error_rate}: {means:?} {worst}"
        );
    }
}

#[test]
fn sizes_of_the_other_formats_are_as_those_modules_show_them() {
    // Returns the bytes and the probes of the only layer. The expected numbers are those that servers with RedisBloom
    // and valkey-bloom show.
    let one = |format, error_rate, capacity_items, growth| {
        let options = Options { error_rate, capacity_items, growth };
        let size = filter_size(format, options, capacity_items).unwrap();
        assert_eq!(size.table_bytes, 0);
        let layers = size.layers;
        assert_eq!(layers.len(), 1);
        (layers[0].size_bits / 8, layers[0].probes)
    };
    let growing = Growth::Scaling { expansion: 2 };
    assert_eq!(one(Format::RedisBloom, 0.01, 100, growing), (144, 8));
    assert_eq!(one(Format::RedisBloom, 0.025, 1000, Growth::Fixed), (960, 6));
    assert_eq!(one(Format::ValkeyBloom, 0.001, 1000, growing), (1798, 10));
    assert_eq!(one(Format::ValkeyBloom, 0.25, 100, Growth::Fixed), (37, 2));
    for format in Format::ALL {
        let fixed = Options { error_rate: 0.01, capacity_items: 10, growth: Growth::Fixed };
        let too_many = filter_size(format, fixed, 11);
        assert_eq!(too_many, Err(CreateError::Reserve(ReserveError::TooLong)));
        for (error_rate, capacity_items) in [(0.0, 1), (1.0, 1), (f64::NAN, 1), (0.1, 0)] {
            let wrong = Options { error_rate, capacity_items, growth: growing };
            assert!(filter_size(format, wrong, 1).is_err());
        }
        let one_by_one =
            Options { error_rate: 0.01, capacity_items: 1, growth: Growth::Scaling { expansion: 1 } };
        // Only everbloom's filter can grow to that many items: it gets a table, and chains end.
        assert_eq!(filter_size(format, one_by_one, 1 << 40).is_ok(), format == Format::Everbloom);
        assert!(filter_size(format, one_by_one, u64::MAX).is_ok() == (format == Format::Everbloom));
    }
}

#[test]
fn computed_sizes_of_windows_are_the_mean_of_a_full_window() {
    const DAY_MS: u64 = 86_400_000;
    for (error_rate, capacity_items, items) in [
        (0.01, 20_000, 20_000u64),
        (0.01, 20_000, 60_000),
        (0.001, 50_000, 50_000),
        (0.001, 37_000, 37_000),
        (0.01, 30_000, 30_000),
        (0.01, 11_292, 11_292),
        (0.001, 5_081, 11_292),
    ] {
        let growth = Growth::default();
        let mut filter = window(Promise { error_rate, capacity_items, growth }, DAY_MS);
        let (mut sum, mut count, mut most) = (0.0, 0.0, 0);
        for item in 0..4 * items {
            set_time(&mut filter, START_MS + item * DAY_MS / items);
            add(&mut filter, &item.to_le_bytes()).unwrap();
            if item > 2 * items && item % (items / 100) == 0 {
                let size_bytes = filter.table().unwrap().size_bytes();
                sum += size_bytes as f64;
                count += 1.0;
                most = most.max(size_bytes);
            }
        }
        let options = Options { error_rate, capacity_items, growth };
        let expected = window_size(options, items).unwrap().size_bits() / 8;
        let mean = (sum / count) as u64;
        let what =
            format!("{error_rate}, {capacity_items}, {items}: {expected} bytes, mean {mean}, at most {most}");
        assert!(expected >= mean / 10 * 9 && expected <= mean / 20 * 21, "{what}");
        // VALIDATESCALETO allows an eighth more than the expected size.
        assert!(most <= expected + expected / 8, "{what}");
    }
    let fixed = Options { error_rate: 0.01, capacity_items: 1000, growth: Growth::Fixed };
    for size in [window_size, counting_size] {
        assert!(size(fixed, 1000).is_ok());
        assert_eq!(size(fixed, 1001), Err(CreateError::Reserve(ReserveError::TooLong)));
        assert_eq!(size(Options { error_rate: 0.0, ..fixed }, 5), Err(CreateError::Option("error rate")));
        assert!(size(Options { growth: Growth::default(), ..fixed }, u64::MAX).is_ok());
    }
}

#[test]
fn item_times_are_accepted_as_by_the_filter() {
    let now_ms = 1_800_000_000_123;
    for window_ms in [100, 101, 1400, 86_400_000] {
        let mut filter = window(Promise::default(), window_ms);
        set_time(&mut filter, now_ms);
        for step in 0..=300 {
            // From one and a half windows ago to the same time ahead.
            let item_ms = now_ms + step * window_ms / 100 - 3 * window_ms / 2;
            let mut filter = filter.try_clone(UnknownMemory).unwrap();
            let expected = match filter.set_event(item_ms) {
                Err(MomentError::Past) => ItemTime::Expired,
                Err(MomentError::Ahead) => ItemTime::Ahead,
                Ok(_) => ItemTime::Live { generation: WindowLength::new(window_ms).generation_at(item_ms) },
            };
            assert_eq!(ItemTime::of(window_ms, item_ms, now_ms), expected, "{window_ms} {item_ms}");
        }
    }
    for (item_ms, now_ms, expected) in [
        (0, u64::MAX, ItemTime::Expired),
        (u64::MAX, 0, ItemTime::Ahead),
        (u64::MAX, u64::MAX, ItemTime::of(100, u64::MAX, u64::MAX)),
    ] {
        assert_eq!(ItemTime::of(0, item_ms, now_ms), expected);
    }
}

/// Returns the filter of these chunks.
fn loaded(chunks: &[(u64, Vec<u8>)]) -> BloomFilter {
    let mut loader = Loader::new(&chunks[0].1).unwrap();
    chunks[1..].iter().for_each(|(iterator, data)| loader.load(*iterator, data).unwrap());
    loader.finish().unwrap()
}

#[test]
fn equal_filters_have_equal_digests() {
    let mut filter = BloomFilter::new(Options { capacity_items: 3000, ..Options::default() }).unwrap();
    filter.add_many(&slices(&items(2000)));
    let chunks: Vec<(u64, Vec<u8>)> = filter.chunks().map(Result::unwrap).collect();
    let mut copy = loaded(&chunks);
    assert_eq!(copy.digest(), filter.digest());
    assert_eq!(filter.try_clone().unwrap().digest(), filter.digest());
    copy.add(b"one more").unwrap();
    assert_ne!(copy.digest(), filter.digest());
}

/// Returns a sliding-window filter, as in a server, with an item of this time.
fn with_window(window_ms: u64, added_ms: u64, item: &[u8]) -> BloomFilter {
    let mut filter = window(Promise::default(), window_ms);
    set_time(&mut filter, added_ms);
    add(&mut filter, item).unwrap();
    loaded(&chunks(&filter, 1))
}

#[test]
fn a_window_uses_the_set_time() {
    let (added_ms, window_ms) = (1_800_000_000_000, 86_400_000);
    let mut filter = with_window(window_ms, added_ms, b"alice");
    assert_eq!(filter.window_ms(), Some(window_ms));
    assert!(filter.contains(b"alice"), "as of its newest item");
    for (later_ms, is_in) in [(0, true), (window_ms, true), (window_ms * 15 / 14 + 1, false)] {
        assert_eq!(filter.contains_at(b"alice", added_ms + later_ms), is_in, "{later_ms}");
    }
    // An item that is added before the time is set is of the newest generation.
    assert_eq!(filter.add(b"bob"), Ok(true));
    assert!(filter.contains_at(b"bob", added_ms + window_ms / 2));
    filter.set_time(added_ms + window_ms * 2);
    assert!(!filter.contains(b"alice") && !filter.contains(b"bob"));
    assert_eq!(filter.add(b"carol"), Ok(true));
    assert!(filter.contains_at(b"carol", added_ms + window_ms * 3));
    assert!(!filter.contains_at(b"alice", added_ms), "time never runs back");
    // Other filters have no time.
    let mut plain = BloomFilter::new(Options::default()).unwrap();
    plain.add(b"alice").unwrap();
    plain.set_time(u64::MAX);
    assert!(plain.contains_at(b"alice", u64::MAX) && plain.window_ms().is_none());
}

#[test]
fn a_window_says_what_was_seen_and_how_long_items_live() {
    let (added_ms, window_ms) = (1_800_000_000_000, 86_400_000);
    for steps in Steps::ALL {
        let span = WindowLength::new(window_ms).with_steps(steps);
        let mut filter = windowed(Promise::default(), Window::new(span, false));
        set_time(&mut filter, added_ms);
        add(&mut filter, b"alice").unwrap();
        filter.set_end(added_ms + 3_600_000);
        add(&mut filter, b"token").unwrap();
        let mut filter = loaded(&chunks(&filter, 1));
        assert_eq!(filter.window_steps(), Some(steps));
        let step_ms = window_ms / steps.count() + 1;
        let hour_ms = 3_600_000;
        assert_eq!(filter.seen_within(b"alice", 1, added_ms), Ok(true));
        assert_eq!(filter.seen_within(b"alice", hour_ms, added_ms + hour_ms), Ok(true));
        assert_eq!(filter.seen_within(b"alice", hour_ms, added_ms + hour_ms + step_ms), Ok(false));
        assert_eq!(filter.seen_within(b"alice", window_ms, added_ms + window_ms), Ok(true));
        assert_eq!(filter.seen_within(b"token", hour_ms, added_ms), Ok(false));
        assert_eq!(filter.seen_within(b"alice", window_ms + 1, added_ms), Err(WithinError::BeyondWindow));
        let left = |life: ItemLife| if let ItemLife::Left(ms) = life { ms } else { panic!("{life:?}") };
        let of_token = left(filter.remaining_life(b"token", added_ms));
        assert!((hour_ms..=hour_ms + step_ms).contains(&of_token), "{of_token}");
        let of_alice = left(filter.remaining_life(b"alice", added_ms + hour_ms));
        assert!((window_ms - hour_ms..=window_ms - hour_ms + step_ms).contains(&of_alice), "{of_alice}");
        assert_eq!(filter.remaining_life(b"token", added_ms + of_token), ItemLife::Absent);
        assert_eq!(filter.remaining_life(b"bob", added_ms), ItemLife::Absent);
        filter.set_time(added_ms + 3 * window_ms);
    }
    let mut plain = BloomFilter::new(Options::default()).unwrap();
    plain.add(b"alice").unwrap();
    assert_eq!(plain.remaining_life(b"alice", 0), ItemLife::Endless);
    assert_eq!((plain.seen_within(b"alice", 1, 0), plain.window_steps()), (Err(WithinError::NoWindow), None));
}

#[test]
fn a_near_filter_that_would_rarely_be_fresh_is_refused() {
    let default = NearOptions::default();
    let open = |interval, max_age| {
        let options = NearOptions { interval, max_age, ..default.clone() };
        NearFilter::open("no address", "seen", options).map(drop)
    };
    for interval in [default.max_age, default.max_age * 2] {
        assert_eq!(open(interval, default.max_age), Err(NearError::Interval));
    }
    assert_eq!(open(Duration::ZERO, Duration::ZERO), Err(NearError::Interval));
    assert!(matches!(open(default.interval, default.max_age), Err(NearError::Connection(_))));
}
