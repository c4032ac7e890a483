//! Positions anywhere in the layer: layers below 2 MiB.
//!
//! Part of the format; docs/formats.md specifies it.

use super::{Position, Probing};
use crate::bloom::hash::ItemHash;
use crate::bloom::hash::murmur3::{GOLDEN, multiply_high};

/// Position i is the high half of `x * G^i * positions`, with `x = h1 ^ rotl(h2, 29) ^ G`.
///
/// This is a chain of multiplications instead of double hashing, which has only about positions^2 different probe
/// sets and exceeds the promised error rate on small filters (Dillinger and Manolios, "Bloom Filters in Probabilistic
/// Verification", 2004).
///
/// `PROBES` is the number of probes if the compiler should know it, which saves an eighth of the instructions;
/// otherwise 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scattered<const PROBES: u32 = 0> {
    probes: u8,
}

impl Scattered {
    /// Returns the layout of `probes` probes per item.
    #[must_use]
    pub const fn new(probes: u8) -> Self {
        Self { probes }
    }

    /// Returns the same layout for a number of probes that the compiler knows.
    #[inline(always)]
    pub(in crate::bloom) const fn with<const PROBES: u32>(self) -> Scattered<PROBES> {
        Scattered { probes: self.probes }
    }
}

impl<const PROBES: u32> Scattered<PROBES> {
    /// Returns the number of probes per item.
    #[must_use]
    #[inline(always)]
    pub const fn probes(self) -> u32 {
        if PROBES > 0 { PROBES } else { self.probes as u32 }
    }
}

impl<const PROBES: u32> Probing<ItemHash> for Scattered<PROBES> {
    type Spot = Position;

    /// Uniform over any number of positions, not only powers of two.
    #[inline(always)]
    fn first_spots(
        self,
        item: ItemHash,
        positions: u64,
        count: u32,
    ) -> impl Iterator<Item = Position> + Clone {
        // The hash of the empty item is 0, which multiplication does not mix. Without the last term its positions
        // would all be 0, and it would be a false positive in every other filter.
        Positions { word: item.h1 ^ item.h2.rotate_left(29) ^ GOLDEN, positions, left: count }
    }

    #[inline(always)]
    fn spot_count(self) -> u32 {
        self.probes()
    }
}

/// An iterator over the positions of an item.
#[derive(Clone, Copy, Debug)]
struct Positions {
    word: u64,
    /// Positions of the layer.
    positions: u64,
    left: u32,
}

impl Iterator for Positions {
    type Item = Position;

    #[inline(always)]
    fn next(&mut self) -> Option<Position> {
        self.left = self.left.checked_sub(1)?;
        let position = multiply_high(self.word, self.positions);
        self.word = self.word.wrapping_mul(GOLDEN);
        Some(Position(position))
    }
}
