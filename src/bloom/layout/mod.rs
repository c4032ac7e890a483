//! The layout axis: where the probes of an item lie.
//!
//! The cells of a layer are one or more *regions*. An item lies in one of them, and there in a few *spots*: single positions,
//! or whole lines of 64 bytes with several probes each. Every layout is part of the format: add, never edit.

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

/// Where the probes of an item lie, for the digest of its hash.
pub trait Probing<D>: Copy {
    /// A place that is looked at in one go.
    type Spot: Spot;

    /// Spots that an insert reads before its first branch. Most new items have a clear one among them: with three single
    /// positions, seven of eight in a full layer.
    const TELLING_SPOTS: usize = 3;

    /// Spots of each layer that a lookup in several layers reads before it branches. An absent item has three set positions in
    /// one of eight full layers.
    const CHAIN_SPOTS: u32 = 3;

    /// Returns the index of the region that holds the item, below `regions`.
    #[inline(always)]
    fn region(self, _digest: D, _regions: usize) -> usize {
        0
    }

    /// Returns the first `count` of the item's spots in a region of `positions`, in order; `count` is at most
    /// [`spot_count`](Self::spot_count).
    fn first_spots(self, digest: D, positions: u64, count: u32) -> impl Iterator<Item = Self::Spot> + Clone;

    /// Returns the item's spots in a region of `positions`, in order.
    #[inline(always)]
    fn spots(self, digest: D, positions: u64) -> impl Iterator<Item = Self::Spot> + Clone {
        self.first_spots(digest, positions, self.spot_count())
    }

    /// Returns the number of spots of an item.
    fn spot_count(self) -> u32;
}

/// A place in a region that is looked at in one go: one position, or a line of a page.
pub trait Spot: Copy {
    /// A region, as the spot is found in it.
    type Region<C: Cell>: ?Sized;

    /// Returns the number of regions in so many words.
    fn regions<C: Cell>(words: &[u64]) -> usize;

    /// Returns a region; nothing past the last.
    fn region<C: Cell>(words: &[u64], index: usize) -> Option<&Self::Region<C>>;

    /// Returns a region, to be changed; nothing past the last.
    fn region_mut<C: Cell>(words: &mut [u64], index: usize) -> Option<&mut Self::Region<C>>;

    /// Returns the words of a region, to be changed; nothing past the last.
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
