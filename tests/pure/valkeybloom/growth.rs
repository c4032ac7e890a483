//! How loaded filters grow.

use everbloom::bloom::filter::policy::ValkeyBloom;
use everbloom::bloom::filter::policy::valkeybloom::ProbeRounding;
use everbloom::bloom::filter::size::validate_scale_to;
use everbloom::bloom::hash::siphash::Seed;
use everbloom::bloom::limits::PROBES_TOTAL_MAX;
use everbloom::bloom::{AddError, Growth, Hash, Policy, ReserveError, ScaleError};

use super::oracle::probe_count;
use super::{assert_same, loaded, new_item, reserved};
use crate::recorded::recorded;
use crate::support::make::{ANY, add, grow};
use crate::support::saved::saved;

/// Returns the seed of the filters.
fn seed() -> Seed {
    Seed::new([9; 32])
}

/// Returns whether such a filter can grow to this number of items within a limit.
fn validate(policy: ValkeyBloom, target_items: u64, limit_bytes: u64) -> Result<(), ScaleError> {
    let (policy, hash) = (Policy::ValkeyBloom(Box::new(policy)), Hash::ValkeyBloom(seed()));
    validate_scale_to(&policy, hash, target_items, limit_bytes)
}

#[test]
fn a_filter_of_0_1_0_grows_the_same_after_it_was_saved_as_one_of_1_0() {
    let mut rounded_up = 0;
    for (case, _, mut chain) in recorded("valkey-bloom-0.1.0") {
        let mut copy = loaded(&saved(&chain), 1, ANY).unwrap();
        let layers = chain.layer_count();
        for number in 0..chain.capacity_items() * 2 {
            let item = new_item(number);
            let results = (add(&mut chain, &item), add(&mut copy, &item));
            assert_eq!(results.0, results.1, "{}", case.key);
        }
        assert_same(&chain, &copy);
        rounded_up += chain.layers()[layers..]
            .iter()
            .filter(|layer| {
                let (size_bits, capacity) = (layer.bits().size_bits(), layer.capacity_items());
                layer.layout().probes() != probe_count(size_bits, capacity, ProbeRounding::Nearest)
            })
            .count();
    }
    assert!(rounded_up > 0, "some layer shows which rounding it was made with");
}

#[test]
fn growth_ends_as_in_valkey_bloom() {
    let parameters = ValkeyBloom {
        error_rate: 0.5,
        tightening_ratio: 1e-200,
        capacity_items: 1,
        growth: Growth::Scaling { expansion: 1 },
    };
    let mut chain = reserved(parameters, seed());
    let error = (0..100).find_map(|number| add(&mut chain, &new_item(number)).err());
    assert_eq!(error, Some(AddError::CannotGrow(ReserveError::ErrorRateVanishes)));
    assert_eq!((chain.layer_count(), chain.items()), (2, 2));
    assert_same(&loaded(&saved(&chain), 1, ANY).unwrap(), &chain);

    let mut fast = reserved(
        ValkeyBloom {
            error_rate: 1.0 - f64::EPSILON,
            tightening_ratio: 0.5,
            capacity_items: 1 << 33,
            growth: Growth::Scaling { expansion: u32::MAX },
        },
        seed(),
    );
    fast.layers_mut()[0].set_items(1 << 33);
    assert_eq!(add(&mut fast, b"one more"), Err(AddError::CannotGrow(ReserveError::TooLong)));
}

#[test]
fn validation_and_growth_agree_on_every_byte_of_the_limit() {
    for (error_rate, tightening_ratio, capacity_items, expansion) in
        [(0.01, 0.5, 100, 2), (0.3, 0.9, 7, 1), (1e-9, 0.01, 1000, 3), (0.9, 0.5, 50, 4)]
    {
        let growth = Growth::from_expansion(expansion);
        let parameters = ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth };
        let mut chain = reserved(parameters, seed());
        for _ in 0..6 {
            let (target_items, size_bytes) = (chain.capacity_items(), chain.size_bytes());
            let validate = |target_items, limit| validate(parameters, target_items, limit);
            assert_eq!(validate(target_items, size_bytes), Ok(()));
            assert_eq!(validate(target_items, size_bytes - 1), Err(ScaleError::TooLarge));
            assert_eq!(validate(target_items + 1, size_bytes), Err(ScaleError::TooLarge));
            let refused = grow(&mut chain, size_bytes);
            let Err(ReserveError::TooLarge { needed_bytes, limit }) = refused else { panic!("{refused:?}") };
            assert_eq!(limit, size_bytes.into());
            assert!(grow(&mut chain, needed_bytes - 1).is_err());
            assert_eq!(grow(&mut chain, needed_bytes), Ok(()));
            assert_eq!(chain.size_bytes(), needed_bytes);
        }
    }
}

#[test]
fn growth_ends_at_the_limit_of_probes() {
    let parameters = ValkeyBloom {
        error_rate: 1e-300,
        tightening_ratio: 1.0 - f64::EPSILON,
        capacity_items: 1,
        growth: Growth::Scaling { expansion: 1 },
    };
    let mut chain = reserved(parameters, seed());
    let probes = u64::from(chain.layers()[0].layout().probes());
    let most_layers = PROBES_TOTAL_MAX / probes;
    while (chain.layer_count() as u64) < most_layers {
        grow(&mut chain, ANY).unwrap();
    }
    assert!(chain.layers().iter().all(|layer| u64::from(layer.layout().probes()) == probes));
    assert_eq!(grow(&mut chain, ANY), Err(ReserveError::TooLong));
    assert_eq!(validate(parameters, most_layers, ANY), Ok(()));
    assert_eq!(validate(parameters, most_layers + 1, ANY), Err(ScaleError::TooLong));
    assert_same(&loaded(&saved(&chain), 1, ANY).unwrap(), &chain);
}
