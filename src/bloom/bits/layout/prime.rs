//! The layout of valkey-bloom's filters.

use super::{Modulus, Position, Probing};
use crate::bloom::hash::ItemHash;

/// The modulus of the positions after the second: the largest prime below 2^64.
const PRIME: u64 = 0xFFFF_FFFF_FFFF_FFC5;

/// Double hashing over a prime. The positions are `h1`, `h2`, then `h1 + i * h2` modulo 2^64 and modulo the largest
/// prime below that, each modulo the number of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prime {
    probes: u32,
    modulus: Modulus,
}

impl Prime {
    /// Most probes of a layer. The smallest error rate that a normal double can represent needs 1022, and a few more
    /// if a small array is rounded up to whole bytes.
    pub const PROBES_MAX: u32 = 2_048;

    /// Returns the layout of `probes` probes, 1 to [`PROBES_MAX`](Self::PROBES_MAX), in `size_bits` bits, at least
    /// one; `None` for other numbers.
    #[must_use]
    pub fn new(probes: u32, size_bits: u64) -> Option<Self> {
        let modulus = Modulus::new(size_bits)?;
        (1..=Self::PROBES_MAX).contains(&probes).then_some(Self { probes, modulus })
    }

    /// Returns the number of probes per item.
    #[must_use]
    pub const fn probes(self) -> u32 {
        self.probes
    }

    /// Checks that a layer of `size_bits` bits can have this layout. The formula gives fewer probes than bits for any
    /// error rate.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(&self, size_bits: u64) -> Result<(), &'static str> {
        if !size_bits.is_multiple_of(8) || self.modulus.divisor() != size_bits {
            return Err("size in bits");
        }
        if u64::from(self.probes) > size_bits { Err("probes") } else { Ok(()) }
    }
}

impl Probing<ItemHash> for Prime {
    type Spot = Position;

    #[inline(always)]
    fn first_spots(
        self,
        item: ItemHash,
        _positions: u64,
        count: u32,
    ) -> impl Iterator<Item = Position> + Clone {
        let ItemHash { h1, h2 } = item;
        Positions {
            modulus: self.modulus,
            next: h1,
            after: h2,
            sum: h1.wrapping_add(h2),
            step: h2,
            left: count,
        }
    }

    #[inline(always)]
    fn spot_count(self) -> u32 {
        self.probes
    }
}

/// An iterator over the positions of an item.
#[derive(Clone, Copy, Debug)]
struct Positions {
    modulus: Modulus,
    /// The next two words, so that no probe has to test which one it is.
    next: u64,
    after: u64,
    sum: u64,
    step: u64,
    left: u32,
}

impl Iterator for Positions {
    type Item = Position;

    #[inline(always)]
    fn next(&mut self) -> Option<Position> {
        self.left = self.left.checked_sub(1)?;
        self.sum = self.sum.wrapping_add(self.step);
        let word = self.next;
        (self.next, self.after) = (self.after, below_prime(self.sum));
        Some(Position(self.modulus.remainder(word)))
    }
}

/// Returns `word` modulo [`PRIME`]. The prime is above 2^63, so at most one subtraction is needed.
const fn below_prime(word: u64) -> u64 {
    if word >= PRIME { word.wrapping_sub(PRIME) } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_reduced_by_the_prime() {
        for word in [0, 1, PRIME - 1, PRIME, PRIME + 1, u64::MAX] {
            assert_eq!(below_prime(word), word % PRIME);
        }
    }

    #[test]
    fn invalid_parameters_are_refused() {
        assert_eq!(Prime::new(0, 8), None);
        assert_eq!(Prime::new(Prime::PROBES_MAX + 1, 8), None);
        assert_eq!(Prime::new(1, 0), None);
        assert_eq!(Prime::new(Prime::PROBES_MAX, 8).map(Prime::probes), Some(Prime::PROBES_MAX));
    }
}
