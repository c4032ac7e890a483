//! How large a filter is, and how far it can grow, as valkey-bloom reports it.

use super::{ValkeyBloom, sizing};
use crate::bloom::limits::LAYERS_MAX;

/// Bytes that valkey-bloom counts for a filter beside its layers.
const FILTER_BYTES: u64 = 48;
/// Bytes that it counts for a layer beside its bits.
const LAYER_BYTES: u64 = 208;
/// Bytes of a place in its array of layers.
const PLACE_BYTES: u64 = 8;

/// Returns the size of a filter in bytes as valkey-bloom 1.0 reports it, from the bytes of each layer's bits: `Size` of
/// BF.INFO.
///
/// It stands for what that program allocates, not for what this one does;
/// [`Filter::size_bytes`](crate::bloom::Filter::size_bytes) is ours. Like its own it includes the places that its array of
/// layers has: 1, then 4, 8, 16 and so on (only right after its BF.LOAD it is the exact number).
/// O(layers).
#[must_use]
pub fn size_bytes(layers_bytes: impl IntoIterator<Item = u64>) -> u64 {
    let (mut count, mut sum) = (0u64, FILTER_BYTES);
    for layer_bytes in layers_bytes {
        count = count.saturating_add(1);
        sum = sum.saturating_add(LAYER_BYTES).saturating_add(layer_bytes);
    }
    sum.saturating_add(places_bytes(count))
}

/// Returns the bytes of an array that grew to `count` places one by one.
fn places_bytes(count: u64) -> u64 {
    let places = if count <= 1 { count } else { count.checked_next_power_of_two().unwrap_or(count).max(4) };
    places.saturating_mul(PLACE_BYTES)
}

/// Returns the items that a scaling filter of valkey-bloom 1.0 holds when it has grown as far as `limit_bytes` there,
/// its error rate and our number of layers let it: `Max scaled capacity` of BF.INFO. For a fixed filter its
/// capacity. The parameters must be valid. O(layers), at most [`LAYERS_MAX`].
#[must_use]
pub fn max_scaled_capacity(parameters: &ValkeyBloom, limit_bytes: u64) -> u64 {
    let layers = if parameters.growth.is_fixed_size() { 1 } else { LAYERS_MAX };
    let (mut total_items, mut layers_bytes, mut before) = (0u64, FILTER_BYTES, None);
    for (index, count) in (0..layers).zip(1u64..) {
        let Ok((capacity_items, error_rate)) = parameters.layer_parameters(index, before) else { break };
        layers_bytes = layers_bytes
            .saturating_add(LAYER_BYTES)
            .saturating_add(sizing::layer_size_bytes(capacity_items, error_rate));
        if layers_bytes.saturating_add(places_bytes(count)) > limit_bytes {
            break;
        }
        total_items = total_items.saturating_add(capacity_items);
        before = Some(capacity_items);
    }
    total_items
}

#[cfg(test)]
mod tests {
    use super::super::TIGHTENING_RATIO_DEFAULT;
    use super::*;
    use crate::bloom::cells::CellType;
    use crate::bloom::growth::Growth;
    use crate::bloom::hash::Hash;
    use crate::bloom::hash::siphash::Seed;
    use crate::bloom::policy::Policy;
    use crate::bloom::scale::{ScaleError, validate_scale_to as validate};

    /// Default of valkey-bloom's `bloom-memory-usage-limit`.
    const LIMIT_BYTES: u64 = 128 << 20;

    fn parameters(error_rate: f64, capacity_items: u64, expansion: u32) -> ValkeyBloom {
        let growth = Growth::from_expansion(expansion);
        let tightening_ratio = TIGHTENING_RATIO_DEFAULT;
        ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth }
    }

    fn validate_scale_to(parameters: &ValkeyBloom, target_items: u64, limit: u64) -> Result<(), ScaleError> {
        let policy = Policy::ValkeyBloom(Box::new(*parameters));
        validate(&policy, Hash::ValkeyBloom(Seed::FIXED), CellType::Bits, target_items, limit)
    }

    #[test]
    fn the_largest_capacity_is_the_one_valkey_bloom_reports() {
        // As valkey-bloom 1.0.1 replies at its default limit.
        for (error_rate, capacity, expansion, expected) in [
            (0.01, 100, 2, 26_214_300),
            (0.1, 1, 2, 16_777_215),
            (0.01, 500, 2, 32_767_500),
            (0.02, 50, 4, 17_476_250),
            (0.03, 40, 1, 40_680),
            (0.000_001, 1000, 2, 16_383_000),
        ] {
            let parameters = parameters(error_rate, capacity, expansion);
            assert_eq!(max_scaled_capacity(&parameters, LIMIT_BYTES), expected);
            assert_eq!(validate_scale_to(&parameters, expected, LIMIT_BYTES), Ok(()));
            let beyond = validate_scale_to(&parameters, expected + 1, LIMIT_BYTES);
            let reason = if expansion == 1 { ScaleError::ErrorRateVanishes } else { ScaleError::TooLarge };
            assert_eq!(beyond, Err(reason));
        }
    }

    #[test]
    fn the_edges_of_growing_are_distinguished() {
        assert_eq!(validate_scale_to(&parameters(0.01, 100, 0), 1, LIMIT_BYTES), Err(ScaleError::Fixed));
        assert_eq!(max_scaled_capacity(&parameters(0.01, 100, 0), LIMIT_BYTES), 100);
        assert_eq!(max_scaled_capacity(&parameters(0.01, 100, 2), 384), 100);
        assert_eq!(max_scaled_capacity(&parameters(0.01, 100, 2), 383), 0);
        let validated = |parameters| validate_scale_to(&parameters, u64::MAX, u64::MAX);
        assert_eq!(validated(parameters(0.01, 1 << 62, 2)), Err(ScaleError::TooLarge));
        assert_eq!(validated(parameters(1.0 - f64::EPSILON, 1 << 33, u32::MAX)), Err(ScaleError::TooLong));
        let endless = ValkeyBloom { tightening_ratio: 0.999_999_999, ..parameters(0.01, 1, 1) };
        assert_eq!(max_scaled_capacity(&endless, u64::MAX), LAYERS_MAX as u64);
        assert_eq!(validate_scale_to(&endless, LAYERS_MAX as u64, u64::MAX), Ok(()));
        assert_eq!(validate_scale_to(&endless, 1 + LAYERS_MAX as u64, u64::MAX), Err(ScaleError::TooLong));
    }

    #[test]
    fn the_size_counts_the_places_for_layers() {
        // As recorded: one layer of 120 bytes, and eight layers, each a place of eight.
        assert_eq!(size_bytes([120]), 384);
        assert_eq!(size_bytes([0; 2]), 48 + 4 * 8 + 2 * 208);
        assert_eq!(size_bytes([0; 5]), 48 + 8 * 8 + 5 * 208);
        assert_eq!(size_bytes([u64::MAX, 1]), u64::MAX);
    }
}
