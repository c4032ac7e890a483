//! How large a filter may be. One rule, for filters that are made, that grow, that could grow, and that are
//! loaded.

use super::chain::Chain;
use super::family::Family;
use super::layer::Layer;
use super::limits::{LAYER_MAX_BYTES, LAYERS_MAX, PROBES_TOTAL_MAX};
use super::outcome::{ByteLimit, ReserveError};
use super::placement::Probes;
use super::storage::Storage;

/// What the layers of a filter take together, the filter being there or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    layers: usize,
    /// Probes of an item over all layers.
    probes: u64,
    /// Bytes of all storages.
    array_bytes: u64,
    /// Bytes of the largest of them.
    largest_bytes: u64,
}

impl Extent {
    /// Of layers that are there. O(layers).
    #[must_use]
    pub fn of<F: Family>(layers: &[Layer<F::Placement>]) -> Self {
        let and_layer = |extent: Self, layer: &Layer<F::Placement>| {
            extent.and_layer(layer.storage().size_bytes(), layer.placement().probes())
        };
        layers.iter().fold(Self::default(), and_layer)
    }

    /// With one more layer of a storage of so many bytes and so many probes per item.
    #[must_use]
    pub fn and_layer(self, size_bytes: u64, probes: u32) -> Self {
        Self {
            layers: self.layers.saturating_add(1),
            probes: self.probes.saturating_add(probes.into()),
            array_bytes: self.array_bytes.saturating_add(size_bytes),
            largest_bytes: self.largest_bytes.max(size_bytes),
        }
    }

    /// Whether a filter may have so many layers and probes.
    #[must_use]
    pub const fn is_countable(&self) -> bool {
        self.layers <= LAYERS_MAX && self.probes <= PROBES_TOTAL_MAX
    }

    /// Checks that there may be such a filter of kind `F`.
    ///
    /// # Errors
    /// [`ReserveError::TooLong`] or [`ReserveError::TooLarge`].
    pub fn check<F: Family>(&self, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        if !self.is_countable() {
            return Err(ReserveError::TooLong);
        }
        let needed_bytes = Chain::<F>::needed_bytes(self.layers, self.array_bytes);
        let too_large = |limit_bytes| ReserveError::TooLarge { needed_bytes, limit_bytes };
        limit.permits(needed_bytes).map_err(too_large)?;
        if self.largest_bytes > LAYER_MAX_BYTES { Err(too_large(LAYER_MAX_BYTES)) } else { Ok(()) }
    }
}
