//! How filters that were loaded go on.

use std::collections::HashSet;

use everbloom::bloom::limits::PROBES_TOTAL_MAX;
use everbloom::bloom::valkeybloom::{Seed, ValkeyBloom, sizing::Rounding, validate_scale_to};
use everbloom::bloom::{AddError, Added, Growth, Probes, ReserveError, ScaleError};
use everbloom::format::valkeybloom::ValkeyChain;

use super::fixtures::cases;
use super::oracle::{assert_layers_are_as_computed, probe_count};
use super::{ANY, assert_same, loaded, new_item, reserved, saved};

/// Fills the last layer, on paper, and adds one more item.
fn grow(chain: &mut ValkeyChain, limit_bytes: u64) -> Result<(), ReserveError> {
    let layers = chain.layers().len();
    let last = chain.layers_mut().last_mut().unwrap();
    last.set_items(last.capacity_items());
    let new = (0..).map(new_item).find(|item| !chain.contains(chain.digest(item))).unwrap();
    match chain.add(chain.digest(&new), &limit_bytes) {
        Err(AddError::CannotGrow(error)) => Err(error),
        outcome => {
            assert_eq!((outcome, chain.layers().len()), (Ok(Added::New), layers + 1));
            Ok(())
        }
    }
}

#[test]
fn loaded_filters_take_items_through_two_more_layers_without_a_false_negative() {
    for case in cases() {
        let mut chain = case.chain();
        let layers = chain.layers().len();
        let mut added = HashSet::new();
        for number in 0.. {
            let item = new_item(number);
            match chain.add(chain.digest(&item), &ANY) {
                Ok(Added::New | Added::Again | Added::Present) => added.insert(item),
                Err(error) => {
                    assert_eq!((error, chain.family().growth), (AddError::Full, Growth::Fixed));
                    assert_eq!(chain.items(), chain.capacity_items());
                    break;
                }
            };
            if chain.layers().len() == layers + 2 {
                break;
            }
        }
        let filled = chain.layers().len() == layers + 2 || chain.family().growth == Growth::Fixed;
        assert!(filled, "{}", case.name);
        for item in case.items.iter().chain(&added) {
            assert!(chain.contains(chain.digest(item)), "{} lost {item:?}", case.name);
        }
        let rounding = if case.generation == 0 { Rounding::Up } else { Rounding::Nearest };
        assert_layers_are_as_computed(&chain, rounding);
        assert_same(&loaded(&saved(&chain), 1, ANY).unwrap(), &chain);
    }
}

#[test]
fn a_filter_of_0_1_0_grows_the_same_after_it_was_saved_as_one_of_1_0() {
    let mut rounded_up = 0;
    for case in cases().into_iter().filter(|case| case.generation == 0) {
        let mut chain = case.chain();
        let mut copy = loaded(&saved(&chain), 1, ANY).unwrap();
        let layers = chain.layers().len();
        for number in 0..chain.capacity_items() * 2 {
            let item = new_item(number);
            let results = (chain.add(chain.digest(&item), &ANY), copy.add(copy.digest(&item), &ANY));
            assert_eq!(results.0, results.1, "{}", case.name);
        }
        assert_same(&chain, &copy);
        rounded_up += chain.layers()[layers..]
            .iter()
            .filter(|layer| {
                let (size_bits, capacity) = (layer.bits().len(), layer.capacity_items());
                layer.placement().probes() != probe_count(size_bits, capacity, Rounding::Nearest)
            })
            .count();
    }
    assert!(rounded_up > 0, "some layer shows which rounding it was made with");
}

#[test]
fn growth_ends_where_valkey_bloom_ends_it() {
    let parameters = ValkeyBloom {
        error_rate: 0.5,
        tightening_ratio: 1e-200,
        capacity_items: 1,
        growth: Growth::Scaling { expansion: 1 },
        seed: Seed::new([9; 32]),
    };
    let mut chain = reserved(parameters);
    let error = (0..100).find_map(|number| chain.add(chain.digest(&new_item(number)), &ANY).err());
    assert_eq!(error, Some(AddError::CannotGrow(ReserveError::ErrorRateVanishes)));
    assert_eq!((chain.layers().len(), chain.items()), (2, 2));
    assert_same(&loaded(&saved(&chain), 1, ANY).unwrap(), &chain);

    let mut fast = reserved(ValkeyBloom {
        error_rate: 1.0 - f64::EPSILON,
        tightening_ratio: 0.5,
        capacity_items: 1 << 33,
        growth: Growth::Scaling { expansion: u32::MAX },
        ..parameters
    });
    fast.layers_mut()[0].set_items(1 << 33);
    let item = fast.digest(b"one more");
    assert_eq!(fast.add(item, &ANY), Err(AddError::CannotGrow(ReserveError::TooLong)));
}

#[test]
fn validation_and_growth_agree_on_every_byte_of_the_limit() {
    for (error_rate, tightening_ratio, capacity_items, expansion) in
        [(0.01, 0.5, 100, 2), (0.3, 0.9, 7, 1), (1e-9, 0.01, 1000, 3), (0.9, 0.5, 50, 4)]
    {
        let growth = Growth::from_expansion(expansion);
        let seed = Seed::new([9; 32]);
        let parameters = ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth, seed };
        let mut chain = reserved(parameters);
        for _ in 0..6 {
            let (target_items, size_bytes) = (chain.capacity_items(), chain.size_bytes());
            let validate = |target_items, limit| validate_scale_to(&parameters, target_items, limit);
            assert_eq!(validate(target_items, size_bytes), Ok(()));
            assert_eq!(validate(target_items, size_bytes - 1), Err(ScaleError::TooLarge));
            assert_eq!(validate(target_items + 1, size_bytes), Err(ScaleError::TooLarge));
            let refused = grow(&mut chain, size_bytes);
            let Err(ReserveError::TooLarge { needed_bytes, limit_bytes }) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!(limit_bytes, size_bytes);
            assert!(grow(&mut chain, needed_bytes - 1).is_err());
            assert_eq!(grow(&mut chain, needed_bytes), Ok(()));
            assert_eq!(chain.size_bytes(), needed_bytes);
        }
    }
}

#[test]
fn growth_ends_with_the_probes_that_a_filter_may_have() {
    let parameters = ValkeyBloom {
        error_rate: 1e-300,
        tightening_ratio: 1.0 - f64::EPSILON,
        capacity_items: 1,
        growth: Growth::Scaling { expansion: 1 },
        seed: Seed::new([9; 32]),
    };
    let mut chain = reserved(parameters);
    let probes = u64::from(chain.layers()[0].placement().probes());
    let most_layers = PROBES_TOTAL_MAX / probes;
    while (chain.layers().len() as u64) < most_layers {
        grow(&mut chain, ANY).unwrap();
    }
    assert!(chain.layers().iter().all(|layer| u64::from(layer.placement().probes()) == probes));
    assert_eq!(grow(&mut chain, ANY), Err(ReserveError::TooLong));
    assert_eq!(validate_scale_to(&parameters, most_layers, ANY), Ok(()));
    assert_eq!(validate_scale_to(&parameters, most_layers + 1, ANY), Err(ScaleError::TooLong));
    assert_same(&loaded(&saved(&chain), 1, ANY).unwrap(), &chain);
}
