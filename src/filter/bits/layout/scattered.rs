//! Positions anywhere in a layer.

use super::probing::{Position, Positions, Probing};
use crate::hash::ItemHash;
use crate::hash::murmur3::{GOLDEN, multiply_high};

/// The layout of everbloom's own small layers; docs/formats.md specifies it. Position i of an item is the high
/// half of `x * G^i * positions`, with `x = h1 ^ rotl(h2, 29) ^ G`.
///
/// The positions are a chain of multiplications. Double hashing has only about positions^2 different probe sets, and so
/// exceeds the promised error rate on small filters (Dillinger and Manolios, "Bloom Filters in Probabilistic
/// Verification", 2004).
///
/// `PROBES` is the number of probes if it is a constant, which saves an eighth of the instructions; otherwise 0.
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

    /// Returns the same layout with its number of probes as the constant `PROBES`.
    #[inline(always)]
    pub(crate) const fn with<const PROBES: u32>(self) -> Scattered<PROBES> {
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
    type Line = Position;

    /// Each position is uniform over all positions, whose number need not be a power of two.
    #[inline(always)]
    fn first_lines(
        self,
        item: ItemHash,
        positions: u64,
        left: u32,
    ) -> impl Iterator<Item = Position> + Clone {
        // The hash of the empty item is 0, which multiplication does not mix. Without the last term its positions would
        // all be 0, and it would be a false positive in about half of all full filters.
        let mut word = item.h1 ^ item.h2.rotate_left(29) ^ GOLDEN;
        let next = move || {
            let position = multiply_high(word, positions);
            word = word.wrapping_mul(GOLDEN);
            position
        };
        Positions { left, next }
    }

    #[inline(always)]
    fn line_count(self) -> u32 {
        self.probes()
    }
}
