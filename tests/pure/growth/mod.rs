//! Compares filters of everbloom's own format with a `HashSet` while they grow: no added item is missing, counts are
//! correct, the parts are those that the parameters ask for, and a refusal changes nothing.

mod blocks;
mod limits;

use std::collections::HashSet;

use everbloom_filter::filter::size::validate_scale_to;
use everbloom_filter::{
    AddError, Added, Filter, FilterSpec, Growth, Hash, Policy, Promise, ReserveError, ScaleError,
    UnknownMemory, Validation,
};
use proptest::prelude::*;

use crate::support::effort;
use crate::support::make::{add, add_within, contains, plain, promise, saturating, set_bits};
use crate::support::saved::digested;

/// Returns promises of fixed, scaling and unreserved filters. At the lowest rate, a filter has no false positives in a
/// test's few thousand lookups.
fn parameters() -> impl Strategy<Value = Promise> {
    let error_rate = prop_oneof![Just(0.5), Just(0.01), Just(1e-3), Just(1e-12)];
    let growths = [Growth::Fixed, Growth::default(), Growth::default().unreserved()];
    (error_rate, 1..60u64, proptest::sample::select(growths.to_vec()))
        .prop_map(|(error_rate, capacity_items, growth)| Promise { error_rate, capacity_items, growth })
}

/// Returns items with repetitions, including the empty item and items with long common prefixes.
fn items() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let item = prop_oneof![
        (0..400u32).prop_map(|number| format!("a common prefix of thirty-two bytes {number}").into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(item, 0..600)
}

/// Returns a new filter, unless it exceeds the limit.
fn reserve(parameters: Promise, limit_bytes: u64) -> Result<Filter, ReserveError> {
    let spec = FilterSpec { policy: Policy::Everbloom(parameters), hash: Hash::Murmur3 };
    Filter::reserve(spec, &limit_bytes)
}

/// Returns whether such a filter can grow to this number of items within a limit.
fn validate(parameters: Promise, target_items: u64, limit_bytes: u64) -> Result<(), ScaleError> {
    validate_scale_to(&Policy::Everbloom(parameters), Hash::Murmur3, target_items, &limit_bytes)
}

/// Adds numbers until the filter has `items` items. Returns the error of the first that is refused.
fn fill(filter: &mut Filter, items: u64, limit_bytes: u64) -> Result<(), AddError> {
    let mut next = filter.items();
    while filter.items() < items {
        add_within(filter, &next.to_le_bytes(), limit_bytes)?;
        next += 1;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(effort(100, 300)) })]

    #[test]
    fn a_filter_agrees_with_a_set(parameters in parameters(), items in items()) {
        let mut filter = plain(parameters);
        let mut oracle = HashSet::new();
        let mut counted = 0;
        for item in &items {
            let known = contains(&filter, item);
            prop_assert!(known || !oracle.contains(item), "an added item is missed");
            let before = digested(&filter);
            match add(&mut filter, item) {
                Ok(Added::New) => {
                    prop_assert!(!known);
                    counted += 1;
                    oracle.insert(item.clone());
                }
                Ok(Added::Again) => prop_assert!(false, "counted without counts"),
                Ok(Added::Present) => {
                    prop_assert!(known && before == digested(&filter));
                    if parameters.error_rate < 1e-9 {
                        prop_assert!(oracle.contains(item), "a false positive at 1e-12");
                    }
                    oracle.insert(item.clone());
                }
                Err(error) => {
                    prop_assert_eq!((error, parameters.growth), (AddError::Full, Growth::Fixed));
                    prop_assert!(filter.items() == parameters.capacity_items && before == digested(&filter));
                }
            }
            prop_assert_eq!(filter.items(), counted);
            prop_assert_eq!(filter.internal_validate(Validation::Parts), Ok(()));
        }
        prop_assert_eq!(filter.internal_validate(Validation::Contents), Ok(()));
        if parameters.error_rate < 1e-9 {
            prop_assert_eq!(counted, oracle.len() as u64);
        }
        let copy = filter.try_clone(UnknownMemory).unwrap();
        prop_assert_eq!(digested(&copy), digested(&filter));
        for item in &oracle {
            prop_assert!(contains(&filter, item) && contains(&copy, item));
        }
        let capacity_items = parameters.capacity_items;
        let outgrown = counted > capacity_items;
        let parts = (filter.layer_count(), filter.table().is_some());
        let expected = match parameters.growth {
            Growth::Unreserved { .. } => (0, true),
            _ => (1, outgrown),
        };
        prop_assert_eq!(parts, expected, "a table was added before the layer was full, or for nothing");
        if outgrown {
            prop_assert!(filter.capacity_items() >= counted.max(capacity_items + 1));
        } else {
            prop_assert_eq!(filter.capacity_items(), capacity_items);
        }
    }

    #[test]
    fn a_validated_filter_grows_within_its_limit(
        error_rate in 1e-9..0.9f64,
        capacity_items in 1..5_000u64,
        is_unreserved in any::<bool>(),
        target_items in 1..20_000u64,
    ) {
        let growth = Growth::default();
        let growth = if is_unreserved { growth.unreserved() } else { growth };
        let parameters = Promise { error_rate, capacity_items, growth };
        let mut filter = plain(parameters);
        fill(&mut filter, target_items, u64::MAX).unwrap();
        // Search for the smallest limit that passes validation.
        let (mut least, mut most) = (0, 1 << 24);
        while least + 1 < most {
            let middle = u64::midpoint(least, most);
            let is_enough = validate(parameters, target_items, middle).is_ok();
            *if is_enough { &mut most } else { &mut least } = middle;
        }
        prop_assert_eq!(validate(parameters, target_items, most - 1), Err(ScaleError::TooLarge));
        // Validation computes an expected size of the table, which is not exact. A small table grows by some hundred
        // bytes at once.
        let limit = most + most / 32 + 512;
        let mut again = reserve(parameters, limit).unwrap();
        prop_assert_eq!(fill(&mut again, target_items, limit), Ok(()), "{} and {}", most, filter.size_bytes());
        let real = filter.size_bytes();
        prop_assert!(most < real + real / 3 + 200, "{} for {}", most, real);
    }

    #[test]
    fn growth_above_the_limit_is_refused_and_changes_nothing(
        capacity_items in 1..2_000u64,
        spare in 0..4_000u64,
        is_unreserved in any::<bool>(),
    ) {
        let parameters = Promise { capacity_items, ..Promise::default() };
        let growth = if is_unreserved { parameters.growth.unreserved() } else { parameters.growth };
        let mut filter = plain(Promise { growth, ..parameters });
        let limit_bytes = filter.size_bytes() + spare;
        let (mut offered, mut refused) = (0u64, None);
        while refused.is_none() && offered < 20_000 {
            let before = digested(&filter);
            refused = add_within(&mut filter, &offered.to_le_bytes(), limit_bytes).err();
            prop_assert!(refused.is_none() || before == digested(&filter));
            offered += 1;
        }
        prop_assert_eq!(filter.internal_validate(Validation::Contents), Ok(()));
        prop_assert!(filter.size_bytes() <= limit_bytes);
        let Some(AddError::CannotGrow(ReserveError::TooLarge { needed_bytes, limit })) = refused else {
            panic!("{refused:?}");
        };
        prop_assert!(needed_bytes > limit_bytes && limit == limit_bytes.into());
        prop_assert!((0..offered - 1).all(|item| contains(&filter, &item.to_le_bytes())));
    }
}

#[test]
fn a_saturating_filter_takes_items_until_every_bit_is_set() {
    // The second filter is paged.
    for (capacity_items, items) in [(50, 5_000u64), (900_000, 2_000_000)] {
        let mut filter = plain(saturating(0.01, capacity_items));
        let fixed = plain(promise(0.01, capacity_items, 0));
        assert_eq!(filter.layers()[0].shape(), fixed.layers()[0].shape());
        let mut counted = 0;
        for item in 0..items {
            let item = item.to_le_bytes();
            let was_there = contains(&filter, &item);
            let added = add_within(&mut filter, &item, 0).unwrap();
            assert_eq!(added == Added::Present, was_there);
            counted += u64::from(added == Added::New);
            assert!(contains(&filter, &item), "an added item is missed");
        }
        assert!(counted > capacity_items, "{counted}");
        assert_eq!((filter.items(), filter.layer_count()), (counted, 1));
        assert_eq!(filter.capacity_items(), capacity_items);
        let is_full = set_bits(&filter) == filter.layers()[0].bits().size_bits();
        assert_eq!(is_full, capacity_items == 50);
        assert_eq!(contains(&filter, b"absent"), is_full);
    }
}

#[test]
fn a_saturated_filter_has_the_documented_error_rate() {
    // As in docs/commands.md: from 1 % to 16 % at twice and 68 % at four times the capacity, and less in a small filter.
    let rate = |capacity_items: u64, given: u64| {
        let (mut hits, filters, probes) = (0u64, 20_000 / capacity_items, 20_000u64);
        for seed in 0..filters {
            let mut filter = plain(saturating(0.01, capacity_items));
            let item = |index: u64| [seed.to_le_bytes(), index.to_le_bytes()].concat();
            (0..given).for_each(|index| _ = add(&mut filter, &item(index)).unwrap());
            hits += (0..probes).filter(|index| contains(&filter, &item((1 << 40) + index))).count() as u64;
        }
        hits as f64 / (filters * probes) as f64
    };
    for (capacity_items, given, expected) in [
        (1000, 1000, 0.01),
        (1000, 2000, 0.13),
        (1000, 4000, 0.6),
        (10_000, 20_000, 0.155),
        (10_000, 40_000, 0.68),
    ] {
        let measured = rate(capacity_items, given);
        let context = format!("{given} items, {capacity_items} reserved: {measured}");
        assert!((measured / expected - 1.0).abs() < 0.1, "{context}");
    }
}
