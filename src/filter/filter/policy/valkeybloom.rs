//! The policy of valkey-bloom's filters: its sizes and growth, bit for bit.
//!
//! Two releases differ. 0.1.0 (2024) keeps the error rate in single precision, always hashes with its fixed seed and
//! rounds the probes up. 1.0 (2025) keeps it in double precision, seeds every filter at random by default, and rounds
//! the probes to the nearest number.

use std::f64::consts::LN_2;

use super::promise::{Growth, Promise};
use crate::bits::layout::Prime;
use crate::bits::{Layer, LayerSpec, Layout, Placement};
use crate::hash::Hash;
use crate::limits::{LAYER_MAX_BYTES, LAYERS_MAX, VALKEYBLOOM_CAPACITY_MAX_ITEMS};
use crate::number::truncate;
use crate::outcome::{Limit, ReserveError};

/// Tightening ratio of a filter that is created without one (`bloom-tightening-ratio`), and of every filter of 0.1.0.
pub const TIGHTENING_RATIO_DEFAULT: f64 = 0.5;

/// The parameters of a filter of valkey-bloom's format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValkeyBloom {
    /// Error rate of the first layer; strictly between 0 and 1.
    pub error_rate: f64,
    /// Factor from the error rate of one layer to that of the next; strictly between 0 and 1.
    pub tightening_ratio: f64,
    /// Capacity of the first layer, 1 to `i64::MAX`.
    pub capacity_items: u64,
    /// What happens when the last layer is full. The expansion may be any number.
    pub growth: Growth,
}

impl ValkeyBloom {
    /// Returns the filter that BF.RESERVE creates with these parameters.
    #[must_use]
    pub fn of_promise(promise: Promise, tightening_ratio: f64) -> Self {
        let Promise { error_rate, capacity_items, growth } = promise;
        Self { error_rate, tightening_ratio, capacity_items, growth: growth.reserved() }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The name of the first field that is out of range.
    pub fn validate(&self) -> Result<(), &'static str> {
        // These comparisons are false for NaN.
        if !(self.error_rate > 0.0 && self.error_rate < 1.0) {
            return Err("error rate");
        }
        if !(self.tightening_ratio > 0.0 && self.tightening_ratio < 1.0) {
            return Err("tightening ratio");
        }
        if !(1..=VALKEYBLOOM_CAPACITY_MAX_ITEMS).contains(&self.capacity_items) {
            return Err("capacity");
        }
        // The format can save no other growth.
        if self.growth == Growth::Saturating || self.growth.is_unreserved() {
            return Err("growth");
        }
        Ok(())
    }

    /// Checks the layers of a filter.
    pub(super) fn validate_layers(&self, layers: &[Layer]) -> Result<(), &'static str> {
        let hash = layers.first().map(Layer::hash);
        let has_head = |layer: &Layer| layer.bits().has_head() && Some(layer.hash()) == hash;
        if !layers.iter().all(has_head) || !matches!(hash, Some(Hash::ValkeyBloom(_))) {
            return Err("layers");
        }
        // The format saves only the capacity of the first layer.
        if layers.first().map(Layer::capacity_items) != Some(self.capacity_items) {
            return Err("capacity");
        }
        // The format does not save the items of older layers, which are full.
        if layers.iter().rev().skip(1).all(Layer::is_full) { Ok(()) } else { Err("items") }
    }

    /// Returns the capacity of the first layer, or of the layer after one with a capacity of `before` items.
    fn layer_capacity(&self, before: Option<u64>) -> Result<u64, ReserveError> {
        let capacity_items = match before {
            None => Some(self.capacity_items),
            Some(capacity_items) => capacity_items.checked_mul(self.growth.expansion().into()),
        };
        let is_possible = |capacity_items: &u64| *capacity_items <= VALKEYBLOOM_CAPACITY_MAX_ITEMS;
        capacity_items.filter(is_possible).ok_or(ReserveError::TooLong)
    }

    /// Returns the error rate of layer `index` (0 is the first, which is not tightened); `None` if it is not above the
    /// smallest normal double.
    #[must_use]
    pub fn layer_error_rate(&self, index: usize) -> Option<f64> {
        let layer_rate = self.error_rate * self.tightening_ratio.powi(i32::try_from(index).ok()?);
        (layer_rate > f64::MIN_POSITIVE).then_some(layer_rate)
    }

    /// Returns the next layer after `layers`.
    pub(super) fn next_layer(&self, layers: &[Layer], hash: Hash) -> Result<LayerSpec, ReserveError> {
        let before = layers.last().map(Layer::capacity_items);
        self.layer(layers.len(), before, rounding_of(layers), hash)
    }

    /// Returns layer `index`, after one with a capacity of `before` items.
    pub(super) fn layer(
        &self,
        index: usize,
        before: Option<u64>,
        rounding: ProbeRounding,
        hash: Hash,
    ) -> Result<LayerSpec, ReserveError> {
        let capacity_items = self.layer_capacity(before)?;
        let error_rate = self.layer_error_rate(index).ok_or(ReserveError::ErrorRateVanishes)?;
        let size_bytes = layer_size_bytes(capacity_items, error_rate);
        // No layer may be larger.
        if size_bytes > LAYER_MAX_BYTES {
            return Err(ReserveError::TooLarge { needed_bytes: size_bytes, limit: Limit::LAYER });
        }
        let size_bits = size_bytes.saturating_mul(8);
        let probes = probes(size_bits, capacity_items, rounding);
        // Only invalid parameters give more probes than the layout supports.
        let layout = Prime::new(probes, size_bits).ok_or(ReserveError::ErrorRateVanishes)?;
        let placement = Placement::new(hash, Layout::Prime(layout));
        Ok(LayerSpec { placement, size_bits, capacity_items, has_head: true })
    }
}

/// Returns the rounding of the release that created the layers, from their probes: up if the probes of one layer fit no
/// other rounding. For most error rates both roundings give the same probes, and the result is the rounding of the
/// newer release.
///
/// The encoding has no field for the rounding. The rule depends only on saved values. So a filter of 0.1.0 grows alike
/// on a primary that loaded the old encoding and on a replica that got the new one, and a filter of 1.0 is never
/// affected.
fn rounding_of(layers: &[Layer]) -> ProbeRounding {
    let is_rounded_up = |layer: &Layer| {
        let probes_by = |rounding| probes(layer.bits().size_bits(), layer.capacity_items(), rounding);
        let probes = layer.layout().probes();
        probes == probes_by(ProbeRounding::Up) && probes != probes_by(ProbeRounding::Nearest)
    };
    if layers.iter().any(is_rounded_up) { ProbeRounding::Up } else { ProbeRounding::Nearest }
}

/// How the number of probes is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeRounding {
    /// To the nearest: valkey-bloom 1.0.
    Nearest,
    /// Up: valkey-bloom 0.1.0.
    Up,
}

/// Returns the bytes of the array of a layer for `capacity_items` at `error_rate`, strictly between 0 and 1: the
/// classic `-n ln p / (ln 2)^2` bits, rounded up to whole bytes. Saturates at `u64::MAX`.
#[must_use]
pub fn layer_size_bytes(capacity_items: u64, error_rate: f64) -> u64 {
    truncate((capacity_items as f64 * error_rate.ln() / (-8.0 * (LN_2 * LN_2))).ceil())
}

/// Returns the probes per item of a layer, at least 1: the classic `m / n * ln 2`. Saturates at `u32::MAX`.
#[must_use]
pub fn probes(size_bits: u64, capacity_items: u64, rounding: ProbeRounding) -> u32 {
    let probes = size_bits as f64 / capacity_items.max(1) as f64 * LN_2;
    let probes = match rounding {
        ProbeRounding::Nearest => probes.round(),
        ProbeRounding::Up => probes.ceil(),
    };
    u32::try_from(truncate(probes)).unwrap_or(u32::MAX).max(1)
}

/// Bytes that valkey-bloom counts for a filter besides its layers.
const FILTER_BYTES: u64 = 48;
/// Bytes that valkey-bloom counts for a layer besides its bits.
const LAYER_BYTES: u64 = 208;
/// Bytes of a slot in valkey-bloom's array of layers.
const SLOT_BYTES: u64 = 8;

/// Returns the size of a filter in bytes as valkey-bloom 1.0 reports it, from the bytes of each layer's bits: `Size`
/// of BF.INFO.
///
/// This is the memory that valkey-bloom allocates, not the memory of everbloom, which is
/// [`Filter::size_bytes`](crate::Filter::size_bytes). It includes the slots of valkey-bloom's array of layers:
/// 1, then 4, 8, 16 and so on (directly after its BF.LOAD, the number of layers). O(layers).
#[must_use]
pub fn size_bytes(layers_bytes: impl IntoIterator<Item = u64>) -> u64 {
    let (mut count, mut sum) = (0u64, FILTER_BYTES);
    for layer_bytes in layers_bytes {
        count = count.saturating_add(1);
        sum = sum.saturating_add(LAYER_BYTES).saturating_add(layer_bytes);
    }
    sum.saturating_add(slots_bytes(count))
}

/// Returns the bytes of valkey-bloom's array of layers after it grew to `count` layers one by one.
fn slots_bytes(count: u64) -> u64 {
    let slots = if count <= 1 { count } else { count.checked_next_power_of_two().unwrap_or(count).max(4) };
    slots.saturating_mul(SLOT_BYTES)
}

/// Returns the capacity of a filter that valkey-bloom 1.0 has grown as far as `limit_bytes`, the error rate and
/// [`LAYERS_MAX`] permit: `Max scaled capacity` of BF.INFO. For a fixed filter it is its capacity. The parameters
/// must be valid. O(layers).
#[must_use]
pub fn max_scaled_capacity(parameters: &ValkeyBloom, limit_bytes: u64) -> u64 {
    let layers = if parameters.growth.is_fixed_size() { 1 } else { LAYERS_MAX };
    let (mut total_items, mut bytes, mut before) = (0u64, FILTER_BYTES, None);
    for (index, count) in (0..layers).zip(1u64..) {
        let Ok(capacity_items) = parameters.layer_capacity(before) else { break };
        let Some(error_rate) = parameters.layer_error_rate(index) else { break };
        bytes =
            bytes.saturating_add(LAYER_BYTES).saturating_add(layer_size_bytes(capacity_items, error_rate));
        if bytes.saturating_add(slots_bytes(count)) > limit_bytes {
            break;
        }
        total_items = total_items.saturating_add(capacity_items);
        before = Some(capacity_items);
    }
    total_items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::policy::Policy;
    use crate::filter::size::{ScaleError, validate_scale_to as validate};
    use crate::hash::siphash::Seed;

    /// Default of valkey-bloom's `bloom-memory-usage-limit`.
    const LIMIT_BYTES: u64 = 128 << 20;

    fn parameters(error_rate: f64, capacity_items: u64, expansion: u32) -> ValkeyBloom {
        let growth = Growth::from_expansion(expansion);
        let tightening_ratio = TIGHTENING_RATIO_DEFAULT;
        ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth }
    }

    fn validate_scale_to(parameters: &ValkeyBloom, target_items: u64, limit: u64) -> Result<(), ScaleError> {
        let policy = Policy::ValkeyBloom(Box::new(*parameters));
        validate(&policy, Hash::ValkeyBloom(Seed::FIXED), target_items, &limit)
    }

    #[test]
    fn the_largest_capacity_is_the_one_valkey_bloom_reports() {
        // Replies of valkey-bloom 1.0.1 with its default limit.
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
    fn each_limit_of_growth_has_its_own_error() {
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
    fn the_size_includes_the_slots_of_layers() {
        // Recorded values: one layer of 120 bytes, and eight layers, for which the array has eight slots.
        assert_eq!(size_bytes([120]), 384);
        assert_eq!(size_bytes([0; 2]), 48 + 4 * 8 + 2 * 208);
        assert_eq!(size_bytes([0; 5]), 48 + 8 * 8 + 5 * 208);
        assert_eq!(size_bytes([u64::MAX, 1]), u64::MAX);
    }

    #[test]
    fn sizes_are_those_of_both_releases() {
        // Bytes and probes in payloads of valkey-bloom 1.0.1, and the probes of 0.1.0.
        for (capacity, error_rate, size_bytes, nearest, up) in [
            (10, 0.1, 6, 3, 4),
            (100, 0.01, 120, 7, 7),
            (1000, 0.001, 1798, 10, 10),
            (100, 0.25, 37, 2, 3),
            (1, 0.1, 1, 6, 6),
            (50, 0.02, 51, 6, 6),
            (300, 0.05, 234, 4, 5),
        ] {
            assert_eq!(layer_size_bytes(capacity, error_rate), size_bytes, "{capacity} {error_rate}");
            assert_eq!(probes(size_bytes * 8, capacity, ProbeRounding::Nearest), nearest);
            assert_eq!(probes(size_bytes * 8, capacity, ProbeRounding::Up), up);
        }
    }

    #[test]
    fn extreme_sizes_saturate() {
        assert_eq!(layer_size_bytes(u64::MAX, f64::MIN_POSITIVE), u64::MAX);
        assert_eq!(layer_size_bytes(1, 1.0 - f64::EPSILON), 1);
        assert_eq!(probes(8, i64::MAX.unsigned_abs(), ProbeRounding::Nearest), 1);
        assert_eq!(probes(u64::MAX, 0, ProbeRounding::Up), u32::MAX);
        let smallest = probes(layer_size_bytes(1, 2.3e-308) * 8, 1, ProbeRounding::Up);
        assert!((1022..crate::bits::layout::Prime::PROBES_MAX).contains(&smallest));
    }

    #[test]
    fn the_error_rate_stays_above_the_smallest_normal_double() {
        let layer_error_rate = |error_rate, index| parameters(error_rate, 1, 2).layer_error_rate(index);
        assert_eq!(layer_error_rate(0.01, 0), Some(0.01));
        assert_eq!(layer_error_rate(0.01, 3), Some(0.00125));
        assert_eq!(layer_error_rate(0.03, 1016).map(|rate| rate > 0.0), Some(true));
        assert_eq!(layer_error_rate(0.03, 1017), None);
        assert_eq!(layer_error_rate(f64::MIN_POSITIVE, 0), None);
        assert_eq!(layer_error_rate(0.5, usize::MAX), None);
    }
}
