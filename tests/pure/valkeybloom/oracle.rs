//! Sizes, probes and bits compared with two independent computations: a naive implementation of the formulas, and the
//! library that valkey-bloom uses. And how filters grow, and when they cannot.

use everbloom_filter::filter::policy::ValkeyBloom;
use everbloom_filter::filter::policy::valkeybloom::ProbeRounding;
use everbloom_filter::filter::size::validate_scale_to;
use everbloom_filter::hash::siphash::{FIXED_SEED, Seed};
use everbloom_filter::limits::PROBES_TOTAL_MAX;
use everbloom_filter::{AddError, Filter, Growth, Hash, Policy, ReserveError, ScaleError, Validation};
use everbloom_format::valkeybloom::decode_blob;
use proptest::prelude::*;

use super::{assert_same, encode_blob, loaded, new_item, policy, reserved};
use crate::recorded::recorded;
use crate::support::Field;
use crate::support::make::{ANY, add, grow};
use crate::support::saved::saved;

/// Returns the probes per item by the formula.
pub(crate) fn probe_count(size_bits: u64, capacity_items: u64, rounding: ProbeRounding) -> u32 {
    let exact = size_bits as f64 / capacity_items as f64 * 2f64.ln();
    (if rounding == ProbeRounding::Up { exact.ceil() } else { exact.round() }).max(1.0) as u32
}

/// Checks capacity, bits and probes of every layer.
pub(crate) fn assert_layers_are_as_computed(chain: &Filter, rounding: ProbeRounding) {
    let parameters = policy(chain);
    for (index, layer) in chain.layers().iter().enumerate() {
        let capacity = parameters.capacity_items * u64::from(parameters.growth.expansion()).pow(index as u32);
        let error_rate = parameters.error_rate * parameters.tightening_ratio.powi(index as i32);
        let size_bytes = (capacity as f64 * error_rate.ln() / (-8.0 * 2f64.ln().powi(2))).ceil();
        assert_eq!(layer.capacity_items(), capacity);
        assert_eq!(layer.bits().size_bits(), size_bytes as u64 * 8);
        assert_eq!(layer.layout().probes(), probe_count(size_bytes as u64 * 8, capacity, rounding));
    }
}

/// Returns the bits of a layer with these items, least significant first. Computes every position with the operator
/// `%`.
fn naive_bits(items: &[Vec<u8>], seed: &[u8; 32], size_bytes: u64, probes: u32) -> Vec<u8> {
    let mut bits = vec![0u8; size_bytes as usize];
    for item in items {
        let message = [&(item.len() as u64).to_le_bytes()[..], item].concat();
        let hash =
            |key: &[u8]| siphasher::sip::SipHasher13::new_with_key(key.try_into().unwrap()).hash(&message);
        let (h0, h1) = (hash(&seed[..16]), hash(&seed[16..]));
        for index in 0..u64::from(probes) {
            let position = match index {
                0 => h0 % (size_bytes * 8),
                1 => h1 % (size_bytes * 8),
                _ => h0.wrapping_add(index.wrapping_mul(h1)) % 0xFFFF_FFFF_FFFF_FFC5 % (size_bytes * 8),
            };
            bits[position as usize / 8] |= 1 << (position % 8);
        }
    }
    bits
}

fn parameters() -> impl Strategy<Value = (ValkeyBloom, Seed)> {
    let seed = prop_oneof![Just(FIXED_SEED), any::<[u8; 32]>()];
    (-6.0..-0.046, 0.05..0.99, 0.0..3.5, 0u32..9, seed).prop_map(
        |(rate, ratio, capacity, expansion, seed)| {
            let growth = Growth::from_expansion(expansion);
            let (error_rate, capacity_items) = (10f64.powf(rate), 10f64.powf(capacity) as u64);
            (ValkeyBloom { error_rate, tightening_ratio: ratio, capacity_items, growth }, Seed::new(seed))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_filters_are_bit_for_bit_those_of_the_library((parameters, seed) in parameters()) {
        let mut chain = reserved(parameters, seed);
        let mut stored: Vec<Vec<Vec<u8>>> = Vec::new();
        for number in 0..parameters.capacity_items * 4 + 10 {
            let item = new_item(number);
            if chain.layer_count() > 6 {
                break;
            }
            match add(&mut chain, &item) {
                Ok(everbloom_filter::Added::New) => {
                    stored.resize(chain.layer_count(), Vec::new());
                    stored.last_mut().unwrap().push(item);
                }
                Ok(everbloom_filter::Added::Present) => {}
                Ok(everbloom_filter::Added::Again) => prop_assert!(false, "counted without counters"),
                Err(error) => prop_assert_eq!(error, AddError::Full),
            }
        }
        prop_assert!(!stored.is_empty());
        prop_assert_eq!(chain.internal_validate(Validation::Contents), Ok(()));
        assert_layers_are_as_computed(&chain, ProbeRounding::Nearest);
        let record = saved(&chain);
        let slices = record.0.iter().filter_map(|field| match field {
            Field::Bytes(bytes) => Some(bytes),
            _ => None,
        });
        for (index, slice) in slices.enumerate() {
            let (layer, items) = (&chain.layers()[index], &stored[index]);
            let probes = layer.layout().probes();
            let bits = naive_bits(items, seed.bytes(), layer.bits().size_bytes(), probes);
            prop_assert_eq!(layer.bits().bytes(), bits);
            let mut theirs = bloomfilter::Bloom::<[u8]>::new_for_fp_rate_with_seed(
                layer.capacity_items() as usize,
                parameters.error_rate * parameters.tightening_ratio.powi(index as i32),
                seed.bytes(),
            ).unwrap();
            for item in items {
                theirs.set(item);
            }
            prop_assert_eq!(&theirs.to_bytes(), slice);
        }
        assert_same(&loaded(&record, 1, ANY).unwrap(), &chain);
        assert_same(&decode_blob(&encode_blob(&chain).unwrap(), &ANY).unwrap(), &chain);
    }
}

/// Returns the seed of the filters.
fn seed() -> Seed {
    Seed::new([9; 32])
}

/// Returns whether such a filter can grow to this number of items within a limit.
fn validate(policy: ValkeyBloom, target_items: u64, limit_bytes: u64) -> Result<(), ScaleError> {
    let (policy, hash) = (Policy::ValkeyBloom(Box::new(policy)), Hash::ValkeyBloom(seed()));
    validate_scale_to(&policy, hash, target_items, &limit_bytes)
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
