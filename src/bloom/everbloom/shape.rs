//! What never changes about a layer of everbloom's own kind.

use super::layout::{LINE_PROBES_MAX, LINES_MAX, Layout, PAGE_BITS};
use super::sizing;
use crate::bloom::limits::{CAPACITY_MAX_ITEMS, LAYER_MAX_BYTES, PROBES_MAX};

/// What never changes about a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// How probes are placed.
    pub layout: Layout,
    /// Probes per item.
    pub probes: u32,
    /// Bits of the array.
    pub size_bits: u64,
    /// Items the layer takes before it is full.
    pub capacity_items: u64,
}

impl LayerShape {
    /// The smallest shape that holds `capacity_items` at `error_rate`.
    #[must_use]
    pub fn sized(capacity_items: u64, error_rate: f64) -> Self {
        let sizing::Size { layout, probes, size_bits } = sizing::size_for(capacity_items, error_rate);
        Self { layout, probes, size_bits, capacity_items }
    }

    /// Bytes of the bit array.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bits / 8
    }

    /// The first rule that the shape breaks, if it breaks one. Every decoder asks before it allocates.
    ///
    /// # Errors
    /// The name of the field that is out of its range.
    pub fn validate(&self) -> Result<(), &'static str> {
        let per_line = match self.layout {
            Layout::Scattered => PROBES_MAX,
            Layout::Paged { lines } if (1..=LINES_MAX).contains(&lines) => u32::from(lines) * LINE_PROBES_MAX,
            Layout::Paged { .. } => return Err("lines"),
        };
        if self.probes == 0 || self.probes > PROBES_MAX.min(per_line) {
            return Err("probes");
        }
        let unit_bits = if self.layout == Layout::Scattered { 64 } else { PAGE_BITS };
        if self.size_bits == 0
            || !self.size_bits.is_multiple_of(unit_bits)
            || self.size_bytes() > LAYER_MAX_BYTES
        {
            return Err("size in bits");
        }
        // Each item sets a bit that was clear, so no array is sized for more items than it has bits.
        if self.capacity_items == 0 || self.capacity_items > CAPACITY_MAX_ITEMS.min(self.size_bits) {
            return Err("capacity");
        }
        Ok(())
    }
}
