//! The layout axis: the positions of an item's probes.
//!
//! The bits of a layer are one or more *regions*. All probes of an item are in one region, in a few *spots*: single
//! positions, or whole lines of 64 bytes with several probes each. Every layout is part of the format: add, never
//! edit.

mod modulo;
mod modulus;
mod paged;
mod prime;
mod scattered;
mod scheme;

pub use modulo::{LayerParameters, MODULO_PROBES_MAX, Modulo, WrittenBits, probes_for};
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
    const SPOTS_BEFORE_BRANCH: usize = 3;

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
    type Region: ?Sized;

    /// Returns the number of regions in these words.
    fn regions(words: &[u64]) -> usize;

    /// Returns a region; `None` past the last.
    fn region(words: &[u64], index: usize) -> Option<&Self::Region>;

    /// Returns a mutable region; `None` past the last.
    fn region_mut(words: &mut [u64], index: usize) -> Option<&mut Self::Region>;

    /// Returns in the lowest bit whether all probes of the spot are set. The other bits have no meaning.
    fn look(self, region: &Self::Region) -> u64;

    /// Sets the probes of the spot. Returns how many of them were clear.
    fn set(self, region: &mut Self::Region) -> u32;

    /// Returns the first word of the spot.
    fn word(self, region: &Self::Region) -> Option<&u64>;
}

/// A single position. The whole layer is one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(pub u64);

impl Position {
    /// Returns the index of the word with the bit. A position that no array of this machine can have gives an index
    /// beyond every array.
    #[inline(always)]
    fn index(self) -> usize {
        usize::try_from(self.0 / 64).unwrap_or(usize::MAX)
    }
}

impl Spot for Position {
    type Region = [u64];

    #[inline(always)]
    fn regions(_words: &[u64]) -> usize {
        1
    }

    #[inline(always)]
    fn region(words: &[u64], _index: usize) -> Option<&[u64]> {
        Some(words)
    }

    #[inline(always)]
    fn region_mut(words: &mut [u64], _index: usize) -> Option<&mut [u64]> {
        Some(words)
    }

    #[inline(always)]
    fn look(self, words: &[u64]) -> u64 {
        if let Some(word) = words.get(self.index()) { word >> (self.0 % 64) } else { 0 }
    }

    #[inline(always)]
    fn set(self, words: &mut [u64]) -> u32 {
        if let Some(word) = words.get_mut(self.index()) { set_bit(word, self.0 % 64) } else { 0 }
    }

    #[inline(always)]
    fn word(self, words: &[u64]) -> Option<&u64> {
        words.get(self.index())
    }
}

/// Sets a bit. Returns 1 if it was clear, else 0.
#[inline(always)]
fn set_bit(word: &mut u64, bit: u64) -> u32 {
    let is_clear = (!*word >> bit & 1) as u32;
    *word |= 1 << bit;
    is_clear
}
