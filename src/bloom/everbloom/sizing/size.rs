//! What comes of sizing.

use crate::bloom::everbloom::layout::Layout;

/// Layout, probes and bits of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How probes are placed.
    pub layout: Layout,
    /// Probes per item, 1 to [`PROBES_MAX`](crate::bloom::limits::PROBES_MAX).
    pub probes: u32,
    /// Bits of the array, a multiple of 64, for a paged layer of
    /// [`PAGE_BITS`](crate::bloom::everbloom::layout::PAGE_BITS).
    pub size_bits: u64,
}
