//! Compares filters of everbloom's own format with a `HashSet`: no added item is missing, counts are correct, growth
//! follows the reserved parameters, and a refusal changes nothing.

mod blocks;
mod limits;
mod saturation;

use std::collections::HashSet;

use everbloom::bloom::extent::validate_scale_to;
use everbloom::bloom::{
    AddError, Added, CellType, Depth, Filter, Growth, Hash, NoPrefetch, Policy, Promise, ReserveError,
    ScaleError, Spec, UnknownMemory,
};
use proptest::prelude::*;

use crate::support::make::{ANY, add, contains, grow, plain, promise};

/// Returns filters of every growth. Those with the lowest rates have no false positives in a test's few thousand
/// lookups.
fn parameters() -> impl Strategy<Value = Promise> {
    let error_rate = prop_oneof![Just(0.5), Just(0.01), Just(1e-3), Just(1e-12)];
    (error_rate, 1..60u64, 0..5u32)
        .prop_map(|(error_rate, capacity_items, expansion)| promise(error_rate, capacity_items, expansion))
}

/// Returns items with repetitions, including the empty item and items with long common prefixes.
fn items() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let item = prop_oneof![
        (0..400u32).prop_map(|number| format!("a common prefix of thirty-two bytes {number}").into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(item, 0..600)
}

/// Returns the capacities of the layers of a filter that was reserved with `parameters`.
fn expected_capacities(parameters: Promise, layers: usize) -> Vec<u64> {
    let expansion = u64::from(parameters.growth.expansion());
    (0..layers)
        .map(|index| parameters.capacity_items * expansion.pow(u32::try_from(index).unwrap()))
        .collect()
}

/// Returns a filter of bits, with a size limit.
fn reserve(parameters: Promise, limit_bytes: u64) -> Result<Filter, ReserveError> {
    let spec = Spec { policy: Policy::Promise(parameters), hash: Hash::Murmur3, cells: CellType::Bits };
    Filter::reserve(spec, &limit_bytes)
}

/// Returns whether such a filter can grow to this number of items within a limit.
fn validate(parameters: Promise, target_items: u64, limit_bytes: u64) -> Result<(), ScaleError> {
    validate_scale_to(&Policy::Promise(parameters), Hash::Murmur3, CellType::Bits, target_items, limit_bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_filter_agrees_with_a_set(parameters in parameters(), items in items()) {
        let mut filter = plain(parameters);
        let mut oracle = HashSet::new();
        let mut counted = 0;
        for item in &items {
            let known = contains(&filter, item);
            prop_assert!(known || !oracle.contains(item), "an added item is missed");
            let before = (filter.items(), filter.layer_count());
            match add(&mut filter, item) {
                Ok(Added::New) => {
                    prop_assert!(!known);
                    counted += 1;
                    oracle.insert(item.clone());
                }
                Ok(Added::Again) => prop_assert!(false, "counted without counters"),
                Ok(Added::Present) => {
                    prop_assert!(known);
                    prop_assert_eq!(before, (filter.items(), filter.layer_count()));
                    if parameters.error_rate < 1e-9 {
                        prop_assert!(oracle.contains(item), "a false positive at 1e-12");
                    }
                    oracle.insert(item.clone());
                }
                Err(error) => {
                    prop_assert_eq!(error, AddError::Full);
                    prop_assert_eq!(parameters.growth, Growth::Fixed);
                    prop_assert_eq!(filter.items(), parameters.capacity_items);
                    prop_assert_eq!(before, (filter.items(), filter.layer_count()));
                }
            }
            prop_assert_eq!(filter.items(), counted);
            prop_assert_eq!(filter.internal_validate(Depth::Layers), Ok(()));
        }
        prop_assert_eq!(filter.internal_validate(Depth::Cells), Ok(()));
        if parameters.error_rate < 1e-9 {
            prop_assert_eq!(counted, oracle.len() as u64);
        }
        let copy = filter.try_clone(UnknownMemory).unwrap();
        for item in &oracle {
            prop_assert!(contains(&filter, item) && contains(&copy, item));
        }
        let layers = filter.layers();
        let capacities: Vec<u64> = layers.iter().map(|layer| layer.capacity_items()).collect();
        prop_assert_eq!(&capacities, &expected_capacities(parameters, layers.len()));
        prop_assert_eq!(filter.capacity_items(), capacities.iter().sum::<u64>());
        let (last, full) = layers.split_last().unwrap();
        prop_assert!(full.iter().all(|layer| layer.is_full()), "a layer was added before the last was full");
        prop_assert!(full.is_empty() || last.counts().items > 0, "a layer was added for nothing");
        prop_assert_eq!(copy.layers().len(), layers.len());
        for (copied, layer) in copy.layers().iter().zip(layers) {
            prop_assert_eq!((copied.shape(), copied.counts()), (layer.shape(), layer.counts()));
            prop_assert_eq!(copied.cells().bytes(), layer.cells().bytes());
        }
    }

    #[test]
    fn validation_and_growth_agree_on_every_byte_of_the_limit(
        error_rate in 1e-9..0.9f64,
        capacity_items in 1..20_000u64,
        expansion in 1..5u32,
        is_unreserved in any::<bool>(),
        layers in 1..8usize,
    ) {
        let growth = Growth::Scaling { expansion };
        let growth = if is_unreserved { growth.unreserved() } else { growth };
        let parameters = Promise { error_rate, capacity_items, growth };
        let mut filter = plain(parameters);
        let (mut size_bytes, mut before_bytes) = (filter.size_bytes(), 0);
        for _ in 1..layers {
            before_bytes = size_bytes;
            prop_assert!(grow(&mut filter, before_bytes).is_err(), "no bytes for another layer");
            grow(&mut filter, ANY).unwrap();
            size_bytes = filter.size_bytes();
        }
        // A limit that the filter exactly meets, and one that is a byte smaller.
        let validate = |target_items, limit_bytes| validate(parameters, target_items, limit_bytes);
        let target_items = filter.capacity_items();
        prop_assert_eq!(validate(target_items, size_bytes), Ok(()));
        prop_assert_eq!(validate(target_items, size_bytes - 1), Err(ScaleError::TooLarge));
        prop_assert_eq!(validate(target_items + 1, size_bytes), Err(ScaleError::TooLarge));
        // Growth gives the same result.
        let mut again = plain(parameters);
        for _ in 2..layers {
            grow(&mut again, before_bytes).unwrap();
        }
        if layers > 1 {
            let limit_bytes = size_bytes - 1;
            let refused = Err(ReserveError::TooLarge { needed_bytes: size_bytes, limit: limit_bytes.into() });
            prop_assert_eq!(grow(&mut again, limit_bytes), refused);
            prop_assert_eq!(grow(&mut again, size_bytes), Ok(()));
            prop_assert_eq!(again.size_bytes(), size_bytes);
        } else {
            prop_assert!(reserve(parameters, size_bytes).is_ok());
            let limit_bytes = size_bytes - 1;
            let refused = reserve(parameters, limit_bytes).unwrap_err();
            prop_assert_eq!(refused, ReserveError::TooLarge { needed_bytes: size_bytes, limit: limit_bytes.into() });
        }
    }

    #[test]
    fn a_layer_above_the_limit_is_refused_and_changes_nothing(capacity_items in 1..2_000u64, spare in 0..400u64) {
        let parameters = Promise { capacity_items, ..Promise::default() };
        let mut filter = plain(parameters);
        let limit = filter.size_bytes() + spare;
        let (mut offered, mut refused) = (0u64, None);
        while refused.is_none() && offered < 20_000 {
            refused = filter.add(&offered.to_le_bytes(), &limit, NoPrefetch).err();
            offered += 1;
        }
        // The second layer takes more than twice the bytes of the first, so it also exceeds the spare bytes of a
        // small one.
        prop_assert_eq!(filter.internal_validate(Depth::Cells), Ok(()));
        if let Some(error) = refused {
            let AddError::CannotGrow(ReserveError::TooLarge { needed_bytes, limit: exceeded }) = error else {
                panic!("{error:?}");
            };
            prop_assert!(needed_bytes > limit && exceeded == limit.into());
            prop_assert!(filter.layers().iter().all(|layer| layer.is_full()));
            prop_assert_eq!(filter.items(), filter.capacity_items());
        } else {
            prop_assert!(filter.size_bytes() <= limit);
            prop_assert!(filter.layer_count() > 1);
        }
        prop_assert!(filter.size_bytes() <= limit);
    }
}
