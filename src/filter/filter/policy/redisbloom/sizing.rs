//! The sizes of RedisBloom's layers: its formulas in its order of operations, in doubles, with its rounded constants.

use super::option_bits::{CAPACITY_IS_BITS, NO_ROUND, RedisBloomOptions};
use crate::bits::layout::Modulo;
use crate::bits::{LayerSpec, Layout, Placement};
use crate::hash::Hash;
use crate::number::truncate;

/// The square of the natural logarithm of 2, with RedisBloom's digits.
const LN2_SQUARED: f64 = 0.480453013918201;

/// Returns the bits per item of a layer with an error rate strictly between 0 and 1.
#[must_use]
pub fn bits_per_item(error_rate: f64) -> f64 {
    (error_rate.ln() / LN2_SQUARED).abs()
}

/// Returns the bits of `capacity_items` before rounding, truncated; at most `u64::MAX`.
#[must_use]
pub fn unrounded_bits(capacity_items: u64, bits_per_item: f64) -> u64 {
    truncate(capacity_items as f64 * bits_per_item)
}

/// Arrays are rounded up to whole words of 64 bits.
const WORD_BITS: u64 = 64;

/// Returns the layer for `capacity_items` at `error_rate`; `None` if RedisBloom refuses it or overflows: a capacity
/// of 0, an error rate not strictly between 0 and 1, more than 2^63 bits.
#[must_use]
pub fn layer_spec(
    capacity_items: u64,
    error_rate: f64,
    options: RedisBloomOptions,
    hash: Hash,
) -> Option<LayerSpec> {
    if capacity_items == 0 || !(error_rate > 0.0 && error_rate < 1.0) {
        return None;
    }
    let bits_per_item = bits_per_item(error_rate);
    let (least_bits, exponent, capacity_items) = if options.has(CAPACITY_IS_BITS) {
        let exponent = u8::try_from(capacity_items).ok()?;
        let bits = 1u64.checked_shl(exponent.into())?;
        (bits, exponent, truncate(bits as f64 / bits_per_item))
    } else if options.has(NO_ROUND) {
        (unrounded_bits(capacity_items, bits_per_item).max(1), 0, capacity_items)
    } else {
        power_of_two(capacity_items, bits_per_item)?
    };
    if least_bits > 1 << 63 || !(1..=Modulo::ITEMS_MAX).contains(&capacity_items) {
        return None;
    }
    let size_bits = least_bits.next_multiple_of(WORD_BITS);
    let layout = Modulo::of_new_layer(error_rate, bits_per_item, exponent, size_bits)?;
    let placement = Placement::new(hash, Layout::Modulo(layout));
    Some(LayerSpec { placement, size_bits, capacity_items, has_head: false })
}

/// Returns the power of two above the bits of `capacity_items`, its exponent, and the resulting capacity.
fn power_of_two(capacity_items: u64, bits_per_item: f64) -> Option<(u64, u8, u64)> {
    let asked_bits = capacity_items as f64 * bits_per_item;
    let exponent = u8::try_from(binary_exponent(asked_bits)? + 1).ok()?;
    let bits = 1u64.checked_shl(exponent.into())?;
    let spare_bits = truncate(bits as f64 - asked_bits);
    let spare_items = truncate(spare_bits as f64 / bits_per_item);
    Some((bits, exponent, capacity_items.checked_add(spare_items)?))
}

/// Returns the largest integer `e` with `2^e <= number`, as C's `logb` does; `None` for a number that is not normal
/// or not positive.
fn binary_exponent(number: f64) -> Option<i16> {
    if !number.is_normal() || number < 0.0 {
        return None;
    }
    let biased = i16::try_from(number.to_bits() >> (f64::MANTISSA_DIGITS - 1)).ok()?;
    Some(biased - 1023)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::layout::LayerParameters;
    use crate::bits::layout::modulo::probes_for;
    use crate::hash::murmur2::Murmur2;

    fn made(capacity_items: u64, error_rate: f64, options: RedisBloomOptions) -> Option<LayerSpec> {
        layer_spec(capacity_items, error_rate, options, Hash::RedisBloom(Murmur2::Wide))
    }

    fn parameters(spec: &LayerSpec) -> LayerParameters {
        let Layout::Modulo(layout) = spec.placement.layout() else { panic!("{spec:?}") };
        LayerParameters::of(&layout, spec.size_bits, spec.capacity_items)
    }

    #[test]
    fn sizes_of_layers_equal_those_of_redisbloom() {
        // Each entry: error rate of the layer, capacity; probes, bits before rounding, bytes.
        let expected: [(f64, u64, u16, u64, u64); 8] = [
            (0.005, 100, 8, 1102, 144),
            (0.025, 1000, 6, 7677, 960),
            (0.0005, 100, 11, 1582, 200),
            (0.0005, 50_000, 11, 791_014, 98_880),
            (0.01, 3, 7, 28, 8),
            (5e-7, 300_000_000, 21, 9_059_361_051, 1_132_420_136),
            (0.005, 1 << 30, 8, 11_840_960_069, 1_480_120_016),
            (0.125, 1, 4, 4, 8),
        ];
        for (error_rate, capacity_items, probes, bits, size_bytes) in expected {
            let bits_per_item = bits_per_item(error_rate);
            assert_eq!(probes_for(bits_per_item), Some(probes));
            assert_eq!(unrounded_bits(capacity_items, bits_per_item), bits);
            let plan = made(capacity_items, error_rate, RedisBloomOptions::SCALING).unwrap();
            assert_eq!((plan.size_bits, plan.capacity_items), (size_bytes * 8, capacity_items));
        }
    }

    #[test]
    fn sizes_of_old_layers_equal_those_of_old_releases() {
        // These are real filters of RedisBloom 1.0.3, with 8 bits where later releases have at least 64.
        for (error_rate, asked, exponent, capacity_items) in
            [(0.01, 100, 10, 106), (0.1, 1, 3, 1), (0.01, 500, 13, 854), (1e-6, 1000, 15, 1139)]
        {
            let plan = made(asked, error_rate, RedisBloomOptions::OLDEST).unwrap();
            assert_eq!((plan.capacity_items, plan.size_bits), (capacity_items, (1u64 << exponent).max(64)));
            let parameters = parameters(&plan);
            assert_eq!((parameters.exponent, parameters.size_bits), (exponent, plan.size_bits));
        }
    }

    #[test]
    fn the_capacity_may_be_the_logarithm_of_the_bits() {
        let options = RedisBloomOptions::from_bits(6).unwrap();
        let plan = made(10, 0.01, options).unwrap();
        assert_eq!((plan.size_bits, plan.capacity_items), (1024, 106));
        // Two bits are too few for an item. The other numbers overflow: 2^64 bits and more.
        for capacity_items in [1, 64, 256, u64::MAX] {
            assert_eq!(made(capacity_items, 0.01, options), None);
        }
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        for options in [RedisBloomOptions::SCALING, RedisBloomOptions::OLDEST] {
            for (capacity_items, error_rate) in [
                (0, 0.01),
                (u64::MAX, 0.01),
                (1 << 62, 0.01),
                (1, 0.0),
                (1, 1.0),
                (1, -0.5),
                (1, f64::NAN),
                (1, f64::INFINITY),
            ] {
                assert_eq!(made(capacity_items, error_rate, options), None);
            }
        }
        // Less than half a bit: no integral number of bits is a power of two above it.
        assert_eq!(made(1, 0.9999, RedisBloomOptions::OLDEST), None);
    }

    #[test]
    fn the_smallest_error_rate_has_1075_probes() {
        assert_eq!(probes_for(bits_per_item(f64::from_bits(1))), Some(1075));
        assert_eq!(probes_for(f64::NAN).or(probes_for(f64::INFINITY)).or(probes_for(0.0)), None);
    }

    #[test]
    fn created_layers_can_be_loaded() {
        for options in (0..16).filter_map(RedisBloomOptions::from_bits) {
            for capacity_items in (0..40).map(|i| 1 << i).chain(1..64) {
                for error_rate in [0.9999, 0.9, 0.5, 0.25, 0.1, 0.01, 1e-3, 1e-6, 1e-12, 1e-300, 5e-324] {
                    let Some(plan) = made(capacity_items, error_rate, options) else { continue };
                    if plan.size_bits > 1 << 24 {
                        continue;
                    }
                    let read = parameters(&plan).layout(plan.size_bits / 8).map(Layout::Modulo);
                    assert_eq!(read, Ok(plan.placement.layout()));
                }
            }
        }
    }
}
