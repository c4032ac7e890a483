//! The probes of an item anywhere in the array: layers below 2 MiB.
//!
//! Part of the format, as docs/formats.md says it in words.

use super::hash::{GOLDEN, ItemHash, multiply_high};
use crate::bloom::bits::Bits;
use crate::bloom::group::{ItemSet, subset};
use crate::bloom::placement::{Placement, Probes};
use crate::bloom::prefetch::{Part, Prefetch};

/// Anywhere in the array: position i is the high half of `x * G^i * bits`, with `x = h1 ^ rotl(h2, 29) ^ G`.
///
/// A multiply chain instead of double hashing, which has only about bits^2 different probe sets and breaks
/// the promised rate on small filters (Dillinger and Manolios, "Bloom Filters in Probabilistic Verification",
/// 2004).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scattered {
    probes: u8,
}

impl Scattered {
    /// A placement of so many probes per item.
    #[must_use]
    pub const fn new(probes: u8) -> Self {
        Self { probes }
    }
}

impl Probes for Scattered {
    type Storage = Bits;

    fn probes(&self) -> u32 {
        self.probes.into()
    }
}

impl Placement<ItemHash> for Scattered {
    #[inline(always)]
    fn contains(&self, bits: &Bits, item: ItemHash) -> bool {
        bits.reader().all_set(positions(bits.len(), self.probes(), item))
    }

    #[inline(always)]
    fn contains_each(&self, bits: &Bits, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
        contains_each(bits, self.probes(), items, wanted)
    }

    /// The positions are drawn one from the other, so the first of them are those of an item with fewer
    /// probes.
    #[inline(always)]
    fn first_probes_set(&self, bits: &Bits, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
        contains_each(bits, self.probes().min(Part::FIRST), items, wanted)
    }

    #[inline(always)]
    fn insert(&self, bits: &mut Bits, item: ItemHash) -> u32 {
        // The number of probes at 1 %, as a constant: without a loop they take an eighth fewer instructions.
        match self.probes() {
            7 => bits.set_all(positions(bits.len(), 7, item)),
            probes => bits.set_all(positions(bits.len(), probes, item)),
        }
    }

    #[inline(always)]
    fn insert_each(&self, bits: &mut Bits, items: &[ItemHash]) -> ItemSet {
        let size_bits = bits.len();
        match self.probes() {
            7 => bits.set_each(items.iter().map(|item| positions(size_bits, 7, *item))),
            probes => bits.set_each(items.iter().map(|item| positions(size_bits, probes, *item))),
        }
    }

    #[inline(always)]
    fn prefetch(&self, bits: &Bits, item: ItemHash, part: Part, prefetch: impl Prefetch) {
        bits.prefetch_each(positions(bits.len(), self.probes(), item), part.of(self.probes()), prefetch);
    }
}

/// The positions of an item, in order. Uniform over any number of bits, a power of two or not.
pub(in crate::bloom) fn positions(
    size_bits: u64,
    probes: u32,
    item: ItemHash,
) -> impl Iterator<Item = u64> + Clone {
    // The hash of the empty item is 0, which no multiplication spreads: without the last term its positions
    // would all be 0, and it would be a false positive in every other filter.
    let mut word = item.h1 ^ item.h2.rotate_left(29) ^ GOLDEN;
    (0..probes).map(move |_| {
        let position = multiply_high(word, size_bits);
        word = word.wrapping_mul(GOLDEN);
        position
    })
}

fn contains_each(bits: &Bits, probes: u32, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
    let (reader, size_bits) = (bits.reader(), bits.len());
    subset(items, wanted, |item| reader.all_set_at_hand(positions(size_bits, probes, item)))
}
