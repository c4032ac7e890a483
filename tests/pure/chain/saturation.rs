//! Filters that take items past their capacity.

use everbloom::bloom::{Added, Chain, Everbloom, Growth, hash128};

use super::ANY;

#[test]
fn a_saturating_filter_takes_items_until_every_bit_is_set() {
    // The second is paged.
    for (capacity_items, items) in [(50, 5_000u64), (2_000_000, 4_500_000)] {
        let parameters = Everbloom { error_rate: 0.01, capacity_items, growth: Growth::Saturating };
        let mut chain = Chain::reserve(parameters, &ANY).unwrap();
        let fixed = Chain::reserve(Everbloom { growth: Growth::Fixed, ..parameters }, &ANY).unwrap();
        assert_eq!(chain.layers()[0].shape(), fixed.layers()[0].shape());
        let mut counted = 0;
        for item in 0..items {
            let digest = hash128(&item.to_le_bytes());
            let was_there = chain.contains(digest);
            let added = chain.add(digest, &0).unwrap();
            assert_eq!(added == Added::Present, was_there);
            counted += u64::from(added == Added::New);
            assert!(chain.contains(digest), "an added item is missed");
        }
        assert!(counted > capacity_items, "{counted}");
        assert_eq!((chain.items(), chain.layers().len()), (counted, 1));
        assert_eq!(chain.capacity_items(), capacity_items);
        let is_full = chain.set_bits() == chain.layers()[0].bits().len();
        assert_eq!(is_full, capacity_items == 50);
        assert_eq!(chain.contains(hash128(b"absent")), is_full);
    }
}

#[test]
fn a_saturated_filter_errs_as_documented() {
    // docs/commands.md: asked 1 %, 13 % at twice and 60 % at four times the capacity.
    let rate = |given: u64| {
        let (mut hits, filters, probes) = (0u64, 20u64, 20_000u64);
        for seed in 0..filters {
            let growth = Growth::Saturating;
            let parameters = Everbloom { error_rate: 0.01, capacity_items: 1000, growth };
            let mut chain = Chain::reserve(parameters, &ANY).unwrap();
            let item = |index: u64| hash128(&[seed.to_le_bytes(), index.to_le_bytes()].concat());
            (0..given).for_each(|index| _ = chain.add(item(index), &ANY).unwrap());
            hits += (0..probes).filter(|index| chain.contains(item((1 << 40) + index))).count() as u64;
        }
        hits as f64 / (filters * probes) as f64
    };
    for (given, expected) in [(1000, 0.01), (2000, 0.130), (4000, 0.600)] {
        let measured = rate(given);
        assert!((measured / expected - 1.0).abs() < 0.1, "{given} items: {measured}");
    }
}
