//! The layout axis: the positions of an item's probes.
//!
//! The cells of a layer are one or more *regions*. All probes of an item are in one region, in a few *spots*: single
//! positions, or whole lines of 64 bytes with several probes each. Every layout is part of the format: add, never
//! edit.

mod modulo;
#[cfg_attr(baseline, path = "../../../benches/baseline/modulus.rs")]
mod modulus;
mod paged;
mod prime;
mod scattered;
mod scheme;

use super::cells::Cell;

pub use modulo::{LayerParameters, Modulo, WrittenBits};
pub use modulus::Modulus;
pub use paged::{LINE_BITS, LINE_PROBES_MAX, LINES_MAX, Line, PAGE_BITS, PAGE_LINES, Page, Paged};
pub(in crate::bloom) use paged::{page_index, with_per_line};
pub use prime::Prime;
pub use scattered::Scattered;
pub use scheme::SchemeLayout;

/// A layout: computes the positions of an item's probes from the digest of its hash.
pub trait Probing<D>: Copy {
    /// A place that is read at once.
    type Spot: Spot;

    /// Spots that an insert reads before its first branch. For most new items one of them is clear: with three single
    /// positions, in seven of eight cases in a full layer.
    const TELLING_SPOTS: usize = 3;

    /// Spots of each layer that a lookup in several layers reads before it branches. In a full layer, three positions
    /// of an absent item are all set in one of eight cases.
    const CHAIN_SPOTS: u32 = 3;

    /// Returns the index of the item's region, below `regions`.
    #[inline(always)]
    fn region(self, _digest: D, _regions: usize) -> usize {
        0
    }

    /// Returns the first `count` spots of the item in a region of `positions`, in order. `count` is at most
    /// [`spot_count`](Self::spot_count).
    fn first_spots(self, digest: D, positions: u64, count: u32) -> impl Iterator<Item = Self::Spot> + Clone;

    /// Returns the spots of the item in a region of `positions`, in order.
    #[inline(always)]
    fn spots(self, digest: D, positions: u64) -> impl Iterator<Item = Self::Spot> + Clone {
        self.first_spots(digest, positions, self.spot_count())
    }

    /// Returns the number of spots of an item.
    fn spot_count(self) -> u32;
}

/// A place in a region that is read at once: one position, or a line of a page.
pub trait Spot: Copy {
    /// The type of a region.
    type Region<C: Cell>: ?Sized;

    /// Returns the number of regions in these words.
    fn regions<C: Cell>(words: &[u64]) -> usize;

    /// Returns a region; `None` past the last.
    fn region<C: Cell>(words: &[u64], index: usize) -> Option<&Self::Region<C>>;

    /// Returns a mutable region; `None` past the last.
    fn region_mut<C: Cell>(words: &mut [u64], index: usize) -> Option<&mut Self::Region<C>>;

    /// Returns the mutable words of a region; `None` past the last.
    fn region_words<C: Cell>(words: &mut [u64], index: usize) -> Option<&mut [u64]>;
}

/// A single position. The whole layer is one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(pub u64);

impl Spot for Position {
    type Region<C: Cell> = [u64];

    #[inline(always)]
    fn regions<C: Cell>(_words: &[u64]) -> usize {
        1
    }

    #[inline(always)]
    fn region<C: Cell>(words: &[u64], _index: usize) -> Option<&[u64]> {
        Some(words)
    }

    #[inline(always)]
    fn region_mut<C: Cell>(words: &mut [u64], _index: usize) -> Option<&mut [u64]> {
        Some(words)
    }

    #[inline(always)]
    fn region_words<C: Cell>(words: &mut [u64], _index: usize) -> Option<&mut [u64]> {
        Some(words)
    }
}
