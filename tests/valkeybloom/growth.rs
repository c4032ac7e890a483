//! How filters that were loaded go on.

use std::collections::HashSet;

use everbloom::bloom::Positions;
use everbloom::bloom::valkeybloom::{Seed, ValkeyBloom, sizing::Rounding};
use everbloom::bloom::{AddError, Added, Growth, ReserveError};

use crate::fixtures::cases;
use crate::oracle::{assert_layers_are_as_computed, probe_count};
use crate::{ANY, assert_same, loaded, new_item, reserved, saved};

#[test]
fn loaded_filters_take_items_through_two_more_layers_without_a_false_negative() {
    for case in cases() {
        let mut chain = case.chain();
        let layers = chain.layers().len();
        let mut added = HashSet::new();
        for number in 0.. {
            let item = new_item(number);
            match chain.add(chain.digest(&item), &ANY) {
                Ok(Added::New | Added::Present) => added.insert(item),
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
