//! Limits on the size of a filter. The same rule holds for filters that are created, grow, could grow, or are loaded.

use thiserror::Error;

use super::cells::CellType;
use super::filter::Filter;
use super::hash::Hash;
use super::layer::{Layer, LayerSpec};
use super::limits::{LAYER_MAX_BYTES, LAYERS_MAX, PROBES_TOTAL_MAX};
use super::outcome::{ByteLimit, Limit, ReserveError};
use super::policy::Policy;

/// The size of all layers of a filter together, existing or planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    layers: usize,
    /// Probes of an item over all layers.
    probes: u64,
    /// Bytes of all cells.
    cell_bytes: u64,
    /// Bytes of the largest layer.
    largest_bytes: u64,
}

impl Extent {
    /// Returns the extent of layers. O(layers).
    #[must_use]
    pub fn of(layers: &[Layer]) -> Self {
        layers.iter().fold(Self::default(), Self::with_layer)
    }

    /// Returns the extent with another layer.
    #[must_use]
    pub fn with_layer(self, layer: &Layer) -> Self {
        self.and_layer(layer.cells().size_bytes(), layer.layout().probes())
    }

    /// Returns the extent with another planned layer.
    #[must_use]
    pub fn with_spec(self, spec: &LayerSpec) -> Self {
        self.and_layer(spec.size_bits.div_ceil(8), spec.placement.layout().probes())
    }

    /// Returns the extent with another layer of this size and this number of probes per item.
    #[must_use]
    pub fn and_layer(self, size_bytes: u64, probes: u32) -> Self {
        Self {
            layers: self.layers.saturating_add(1),
            probes: self.probes.saturating_add(probes.into()),
            cell_bytes: self.cell_bytes.saturating_add(size_bytes),
            largest_bytes: self.largest_bytes.max(size_bytes),
        }
    }

    /// Returns whether a filter may have this number of layers and probes.
    #[must_use]
    pub const fn is_countable(&self) -> bool {
        self.layers <= LAYERS_MAX && self.probes <= PROBES_TOTAL_MAX
    }

    /// Returns the memory in bytes of such a filter: its struct, its layers and their cells. A single layer is part
    /// of the struct.
    #[must_use]
    pub const fn needed_bytes(&self) -> u64 {
        let structs =
            if self.layers > 1 { self.layers * size_of::<Layer>() } else { 0 } + size_of::<Filter>();
        self.cell_bytes.saturating_add(structs as u64)
    }

    /// Checks that a filter may have this extent.
    ///
    /// # Errors
    /// [`ReserveError::TooLong`] or [`ReserveError::TooLarge`].
    pub fn check(&self, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        if !self.is_countable() {
            return Err(ReserveError::TooLong);
        }
        let needed_bytes = self.needed_bytes();
        let too_large = |limit| ReserveError::TooLarge { needed_bytes, limit };
        limit.permits(needed_bytes).map_err(too_large)?;
        if self.largest_bytes > LAYER_MAX_BYTES { Err(too_large(Limit::LAYER)) } else { Ok(()) }
    }
}

/// Why a filter cannot grow to a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScaleError {
    /// The filter is fixed.
    #[error("the filter is fixed")]
    Fixed,
    /// The filter would take more bytes than the limit.
    #[error("the filter would take more bytes than it may")]
    TooLarge,
    /// The error rate of a layer would be too small: it would round to 0.
    #[error("the error rate of a layer would be too small: it would round to 0")]
    ErrorRateVanishes,
    /// The filter would have more layers, probes, or items in a layer, than allowed.
    #[error("the filter would have too many layers, probes, or items in one layer")]
    TooLong,
}

impl From<ReserveError> for ScaleError {
    fn from(error: ReserveError) -> Self {
        match error {
            ReserveError::TooLarge { .. } | ReserveError::OutOfMemory => Self::TooLarge,
            ReserveError::TooLong => Self::TooLong,
            ReserveError::ErrorRateVanishes => Self::ErrorRateVanishes,
        }
    }
}

/// Checks whether a filter can grow to `target_items` within `limit_bytes`; the result is the same as that of real
/// growth, except that filters of everbloom's own format with an expansion of 1 and more than [`EXACT_LAYERS`] layers
/// must have room for up to two percent more. The policy must be valid. O(layers), at most [`LAYERS_MAX`]; at most
/// about sixty layers are sized.
///
/// # Errors
/// The reason that stops the growth.
pub fn validate_scale_to(
    policy: &Policy,
    hash: Hash,
    cells: CellType,
    target_items: u64,
    limit_bytes: u64,
) -> Result<(), ScaleError> {
    let size = |parameters| policy.sized_layer(parameters, hash, cells);
    validate_with(policy, target_items, limit_bytes, size)
}

/// Number of layers that are sized for their own error rate. Later layers of equal capacity are sized for one that is
/// a little lower, the same for many of them: sizing a layer takes up to a hundred microseconds, and there may be
/// thousands.
const EXACT_LAYERS: usize = 16;

/// Does [`validate_scale_to`] with layers from `size`.
fn validate_with(
    policy: &Policy,
    target_items: u64,
    limit_bytes: u64,
    mut size: impl FnMut((u64, f64)) -> Result<LayerSpec, ReserveError>,
) -> Result<(), ScaleError> {
    if policy.growth().is_fixed_size() {
        return Err(ScaleError::Fixed);
    }
    let has_equal_layers = policy.promise().is_some_and(|promise| promise.growth.expansion() == 1);
    let (mut extent, mut total_items, mut before) = (Extent::default(), 0u64, None);
    let mut last: Option<((u64, f64), LayerSpec)> = None;
    for index in 0.. {
        let (capacity_items, error_rate) = policy.layer_parameters(index, before)?;
        let is_exact = index < EXACT_LAYERS || !has_equal_layers;
        let parameters = (capacity_items, if is_exact { error_rate } else { rounded_down(error_rate) });
        let layer = match last {
            Some((sized, layer)) if sized == parameters => layer,
            _ => size(parameters)?,
        };
        extent = extent.with_spec(&layer);
        extent.check(&limit_bytes)?;
        total_items = total_items.saturating_add(layer.capacity_items);
        if total_items >= target_items {
            break;
        }
        before = Some(layer.capacity_items);
        last = Some((parameters, layer));
    }
    Ok(())
}

/// Returns the next lower power of the fourth root of 2.
fn rounded_down(error_rate: f64) -> f64 {
    const STEPS: f64 = 4.0;
    libm::exp2(libm::floor(libm::log2(error_rate) * STEPS) / STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::growth::Growth;
    use crate::bloom::policy::Promise;

    /// Returns whether a filter can grow to `layers` layers within `limit_bytes`, and how many layers were sized.
    fn validated(promise: Promise, layers: u64, limit_bytes: u64) -> (Result<(), ScaleError>, u32) {
        let (policy, mut sized) = (Policy::Promise(promise), 0);
        let target_items = promise.capacity_items * layers;
        let outcome = validate_with(&policy, target_items, limit_bytes, |parameters| {
            sized += 1;
            policy.sized_layer(parameters, Hash::Murmur3, CellType::Bits)
        });
        (outcome, sized)
    }

    #[test]
    fn few_of_thousands_of_layers_are_sized() {
        for capacity_items in [1, 100, 10_000, 1_000_000] {
            for growth in [Growth::Scaling { expansion: 1 }, Growth::Unreserved { expansion: 1 }] {
                let promise = Promise { error_rate: 0.01, capacity_items, growth };
                let (outcome, sized) = validated(promise, LAYERS_MAX as u64, u64::MAX);
                assert_eq!(outcome, Ok(()), "{promise:?}");
                assert!(sized <= 60, "{sized} layers of {promise:?}");
                let (outcome, sized) = validated(promise, LAYERS_MAX as u64 + 1, u64::MAX);
                assert_eq!(outcome, Err(ScaleError::TooLong), "{promise:?}");
                assert!(sized <= 60, "{sized} layers of {promise:?}");
            }
        }
    }

    #[test]
    fn equal_layers_need_at_most_two_percent_more_than_they_take() {
        for capacity_items in [100, 10_000] {
            let promise =
                Promise { error_rate: 0.01, capacity_items, growth: Growth::Scaling { expansion: 1 } };
            let policy = Policy::Promise(promise);
            let mut extent = Extent::default();
            for index in 0..1000 {
                let parameters = policy.layer_parameters(index, Some(capacity_items)).unwrap();
                let layer = policy.sized_layer(parameters, Hash::Murmur3, CellType::Bits).unwrap();
                extent = extent.with_spec(&layer);
            }
            let bytes = extent.needed_bytes();
            assert_eq!(validated(promise, 1000, bytes - 1).0, Err(ScaleError::TooLarge));
            assert_eq!(validated(promise, 1000, bytes + bytes / 50).0, Ok(()));
        }
    }
}
