//! Filters that accept items above their capacity.

use everbloom::bloom::{Added, NoPrefetch};

use crate::support::make::{add, contains, plain, promise, saturating};

#[test]
fn a_saturating_filter_takes_items_until_every_bit_is_set() {
    // The second filter is paged.
    for (capacity_items, items) in [(50, 5_000u64), (2_000_000, 4_500_000)] {
        let mut filter = plain(saturating(0.01, capacity_items));
        let fixed = plain(promise(0.01, capacity_items, 0));
        assert_eq!(filter.layers()[0].shape(), fixed.layers()[0].shape());
        let mut counted = 0;
        for item in 0..items {
            let item = item.to_le_bytes();
            let was_there = contains(&filter, &item);
            let added = filter.add(&item, &0, NoPrefetch).unwrap();
            assert_eq!(added == Added::Present, was_there);
            counted += u64::from(added == Added::New);
            assert!(contains(&filter, &item), "an added item is missed");
        }
        assert!(counted > capacity_items, "{counted}");
        assert_eq!((filter.items(), filter.layer_count()), (counted, 1));
        assert_eq!(filter.capacity_items(), capacity_items);
        let is_full = filter.set_bits() == filter.layers()[0].bits().size_bits();
        assert_eq!(is_full, capacity_items == 50);
        assert_eq!(contains(&filter, b"absent"), is_full);
    }
}

#[test]
fn a_saturated_filter_has_the_documented_error_rate() {
    // As in docs/commands.md: from 1 % to 13 % at twice and 60 % at four times the capacity.
    let rate = |given: u64| {
        let (mut hits, filters, probes) = (0u64, 20u64, 20_000u64);
        for seed in 0..filters {
            let mut filter = plain(saturating(0.01, 1000));
            let item = |index: u64| [seed.to_le_bytes(), index.to_le_bytes()].concat();
            (0..given).for_each(|index| _ = add(&mut filter, &item(index)).unwrap());
            hits += (0..probes).filter(|index| contains(&filter, &item((1 << 40) + index))).count() as u64;
        }
        hits as f64 / (filters * probes) as f64
    };
    for (given, expected) in [(1000, 0.01), (2000, 0.130), (4000, 0.600)] {
        let measured = rate(given);
        assert!((measured / expected - 1.0).abs() < 0.1, "{given} items: {measured}");
    }
}
