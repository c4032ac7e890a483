//! Which of the two placements a layer has, as it is written down, and the measures of pages and lines. Part
//! of the format: a layout never changes, new ones are added.
//!
//! On a large array the cost of a probe is a page walk and a cache miss, not arithmetic, so large layers
//! confine an item to a few lines of one page; small layers spread the probes over the whole array, which
//! keeps the promised error rate from one item up.

use crate::bloom::bits::PAGE_BYTES;

/// Lines of 64 bytes in a page of 4 KiB.
pub const PAGE_LINES: u64 = 64;
/// Bits of a page.
pub const PAGE_BITS: u64 = PAGE_BYTES as u64 * 8;
/// Bits of a line.
pub const LINE_BITS: u64 = 512;
/// Most probes that fall into one line: seven positions of nine bits are cut from one 64-bit word.
pub const LINE_PROBES_MAX: u32 = 7;
/// Most lines of a page that hold probes of one item.
pub const LINES_MAX: u8 = 8;

/// How a layer places the probes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Anywhere in the array: [`Scattered`](super::Scattered).
    Scattered,
    /// In a few lines of one page: [`Paged`](super::Paged).
    Paged {
        /// Lines per item, 1 to [`LINES_MAX`].
        lines: u8,
    },
}
