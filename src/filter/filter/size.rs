//! Limits on the size of a filter. The same rule holds for filters that are created, grow, could grow, or are loaded.

use thiserror::Error;

use super::policy::{PartSpec, Policy};
use crate::bits::{Layer, LayerSpec};
use crate::growth_budget::GrowthBudget;
use crate::hash::Hash;
use crate::limits::{LAYER_MAX_BYTES, LAYERS_MAX, PROBES_TOTAL_MAX};
use crate::outcome::{ByteLimit, Limit, ReserveError};

/// Bytes of a [`Filter`](super::Filter). A server may have millions of small filters.
pub(super) const FILTER_BYTES: usize = 112;

/// The size of all parts of a filter together, existing or planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    layers: usize,
    /// Probes of an item over all layers.
    probes: u64,
    /// Bytes of all bits.
    bits_bytes: u64,
    /// Bytes of the table.
    table_bytes: u64,
    /// Bytes of the largest layer.
    largest_bytes: u64,
}

impl Footprint {
    /// Returns the footprint of layers. O(layers).
    #[must_use]
    pub fn of(layers: &[Layer]) -> Self {
        layers.iter().fold(Self::default(), Self::with_layer)
    }

    /// Returns the footprint with another layer.
    #[must_use]
    pub fn with_layer(self, layer: &Layer) -> Self {
        self.and_layer(layer.bits().size_bytes(), layer.layout().probes())
    }

    /// Returns the footprint with another planned layer.
    #[must_use]
    pub fn with_layer_spec(self, spec: &LayerSpec) -> Self {
        self.and_layer(spec.size_bits.div_ceil(8), spec.placement.layout().probes())
    }

    /// Returns the footprint with another layer of this size and this number of probes per item.
    #[must_use]
    pub fn and_layer(self, size_bytes: u64, probes: u32) -> Self {
        Self {
            layers: self.layers.saturating_add(1),
            probes: self.probes.saturating_add(probes.into()),
            bits_bytes: self.bits_bytes.saturating_add(size_bytes),
            largest_bytes: self.largest_bytes.max(size_bytes),
            ..self
        }
    }

    /// Returns the footprint with a table of this size.
    #[must_use]
    pub const fn with_table(self, table_bytes: u64) -> Self {
        Self { table_bytes, ..self }
    }

    /// Returns whether a filter may have this number of layers and probes.
    #[must_use]
    pub const fn is_countable(&self) -> bool {
        self.layers <= LAYERS_MAX && self.probes <= PROBES_TOTAL_MAX
    }

    /// Returns the memory in bytes of such a filter: its struct, its layers and their bits, and its table. A single
    /// layer or a table alone is part of the struct.
    #[must_use]
    pub const fn needed_bytes(&self) -> u64 {
        let of_layers = if self.layers > 1 { self.layers * size_of::<Layer>() } else { 0 };
        let structs = of_layers + FILTER_BYTES;
        self.bits_bytes.saturating_add(self.table_bytes).saturating_add(structs as u64)
    }

    /// Checks that a filter may have this footprint.
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
    #[error(
        "the filter would have more than {LAYERS_MAX} layers or {PROBES_TOTAL_MAX} probes, or too many items in one layer"
    )]
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

/// A table may exceed its expected bytes by one part in this many.
const TABLE_SPARE: u64 = 8;

/// Checks whether a filter can grow to `target_items` within the limit. In other formats, checks the layers that
/// the filter would get while it grows. For a table, checks that an eighth more than its expected bytes fits. The
/// policy must be valid. O(layers), at most [`LAYERS_MAX`].
///
/// # Errors
/// The reason that stops the growth.
pub fn validate_scale_to(
    policy: &Policy,
    hash: Hash,
    target_items: u64,
    limit: &dyn ByteLimit,
) -> Result<(), ScaleError> {
    if policy.growth().is_fixed_size() {
        return Err(ScaleError::Fixed);
    }
    let (room, mut footprint) = (GrowthBudget::new(limit), Footprint::default());
    if policy.promise().is_some() {
        let mut table_items = target_items;
        if let PartSpec::Layer(layer) = policy.first_part(hash)? {
            footprint = footprint.with_layer_spec(&layer);
            table_items = target_items.saturating_sub(layer.capacity_items);
        }
        if table_items > 0 {
            let expected = policy.table().expected_bytes(table_items);
            footprint = footprint.with_table(expected.saturating_add(expected / TABLE_SPARE));
        }
        return Ok(footprint.check(&room)?);
    }
    let mut total_items = 0u64;
    for layer in policy.layers(hash) {
        let layer = layer?;
        footprint = footprint.with_layer_spec(&layer);
        footprint.check(&room)?;
        total_items = total_items.saturating_add(layer.capacity_items);
        if total_items >= target_items {
            break;
        }
    }
    Ok(())
}
