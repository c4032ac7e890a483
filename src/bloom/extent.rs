//! How large a filter may be. One rule, for filters that are made, that grow, that could grow, and that are
//! loaded.

use super::filter::Filter;
use super::layer::Layer;
use super::limits::{LAYER_MAX_BYTES, LAYERS_MAX, PROBES_TOTAL_MAX};
use super::outcome::{ByteLimit, ReserveError};

/// What the layers of a filter take together, the filter being there or not.
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
    /// Returns the extent of layers that are there. O(layers).
    #[must_use]
    pub fn of(layers: &[Layer]) -> Self {
        let and_layer = |extent: Self, layer: &Layer| {
            extent.and_layer(layer.cells().size_bytes(), layer.layout().probes())
        };
        layers.iter().fold(Self::default(), and_layer)
    }

    /// Returns the extent with one more layer, of so many bytes and so many probes per item.
    #[must_use]
    pub fn and_layer(self, size_bytes: u64, probes: u32) -> Self {
        Self {
            layers: self.layers.saturating_add(1),
            probes: self.probes.saturating_add(probes.into()),
            cell_bytes: self.cell_bytes.saturating_add(size_bytes),
            largest_bytes: self.largest_bytes.max(size_bytes),
        }
    }

    /// Returns whether a filter may have so many layers and probes.
    #[must_use]
    pub const fn is_countable(&self) -> bool {
        self.layers <= LAYERS_MAX && self.probes <= PROBES_TOTAL_MAX
    }

    /// Returns the memory in bytes of such a filter: its struct, its layers and their cells. The only layer lies in the struct.
    #[must_use]
    pub const fn needed_bytes(&self) -> u64 {
        let structs =
            if self.layers > 1 { self.layers * size_of::<Layer>() } else { 0 } + size_of::<Filter>();
        self.cell_bytes.saturating_add(structs as u64)
    }

    /// Checks that there may be such a filter.
    ///
    /// # Errors
    /// [`ReserveError::TooLong`] or [`ReserveError::TooLarge`].
    pub fn check(&self, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        if !self.is_countable() {
            return Err(ReserveError::TooLong);
        }
        let needed_bytes = self.needed_bytes();
        let too_large = |limit_bytes| ReserveError::TooLarge { needed_bytes, limit_bytes };
        limit.permits(needed_bytes).map_err(too_large)?;
        if self.largest_bytes > LAYER_MAX_BYTES { Err(too_large(LAYER_MAX_BYTES)) } else { Ok(()) }
    }
}
