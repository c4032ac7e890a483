//! The layout of valkey-bloom's filters, and the division that it and RedisBloom's need.

use super::probing::{Position, Positions, Probing};
use crate::hash::ItemHash;

/// The modulus of the positions after the second: the largest prime below 2^64.
const PRIME: u64 = 0xFFFF_FFFF_FFFF_FFC5;

/// Double hashing over a prime. The first two positions are `h1` and `h2`. Position `i` from 2 on is `h1 + i * h2`
/// modulo 2^64, and that modulo the largest prime below 2^64. Each is reduced modulo the number of bits.
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

    /// Checks that a layer of `size_bits` bits can have this layout. valkey-bloom's formula gives no more probes than
    /// bits for any error rate.
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
    type Line = Position;

    #[inline(always)]
    fn first_lines(self, item: ItemHash, _: u64, left: u32) -> impl Iterator<Item = Position> + Clone {
        let ItemHash { h1, h2 } = item;
        // The closure keeps the next two words, so that no probe has to test whether it is one of the first two.
        let (mut word, mut after, mut sum) = (h1, h2, h1.wrapping_add(h2));
        let next = move || {
            let position = self.modulus.remainder(word);
            sum = sum.wrapping_add(h2);
            (word, after) = (after, below_prime(sum));
            position
        };
        Positions { left, next }
    }

    #[inline(always)]
    fn line_count(self) -> u32 {
        self.probes
    }
}

/// Returns `word` modulo [`PRIME`]. The prime is above 2^63, so at most one subtraction is needed.
const fn below_prime(word: u64) -> u64 {
    if word >= PRIME { word.wrapping_sub(PRIME) } else { word }
}

/// A divisor from 1 to 2^63 and its reciprocal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modulus {
    divisor: u64,
    reciprocal: u64,
}

impl Modulus {
    /// Largest divisor.
    pub const MAX: u64 = 1 << 63;

    /// Returns the modulus of a divisor; `None` for 0 and for more than [`Modulus::MAX`].
    #[must_use]
    pub const fn new(divisor: u64) -> Option<Self> {
        if divisor > Self::MAX {
            return None;
        }
        match u64::MAX.checked_div(divisor) {
            Some(reciprocal) => Some(Self { divisor, reciprocal }),
            None => None,
        }
    }

    /// Returns the divisor.
    #[must_use]
    pub const fn divisor(self) -> u64 {
        self.divisor
    }

    /// Returns `number % divisor`. It takes two multiplications and a subtraction, less than half the time of a
    /// division.
    ///
    /// With M the divisor and r = floor((2^64 - 1) / M), 2^64 / M - 1 <= r <= 2^64 / M. So number / M - 1 < number *
    /// r / 2^64 <= number / M: the estimated quotient is correct or one too small. The remainder is therefore below
    /// 2M, which fits into 64 bits, and needs at most one subtraction of M.
    #[must_use]
    pub const fn remainder(self, number: u64) -> u64 {
        let quotient = ((number as u128 * self.reciprocal as u128) >> 64) as u64;
        let rest = number.wrapping_sub(quotient.wrapping_mul(self.divisor));
        // If the remainder is below the divisor, the difference wraps and is the larger number.
        let less = rest.wrapping_sub(self.divisor);
        if less < rest { less } else { rest }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn invalid_divisors_are_refused() {
        assert_eq!(Modulus::new(0), None);
        assert_eq!(Modulus::new(Modulus::MAX + 1), None);
        assert_eq!(Modulus::new(Modulus::MAX).map(Modulus::divisor), Some(1 << 63));
    }

    #[test]
    fn edge_values_have_the_remainder_of_a_division() {
        let near = |n: u64| [n.wrapping_sub(2), n.wrapping_sub(1), n, n.wrapping_add(1), n.wrapping_add(2)];
        let edges: Vec<u64> = (0..64).flat_map(|power| near(1 << power)).collect();
        for divisor in edges.iter().copied().filter(|divisor| (1..=Modulus::MAX).contains(divisor)) {
            let modulus = Modulus::new(divisor).unwrap();
            let multiples = edges.iter().flat_map(|factor| near(factor.wrapping_mul(divisor)));
            for number in edges.iter().copied().chain(multiples).chain(near(u64::MAX / divisor * divisor)) {
                assert_eq!(modulus.remainder(number), number % divisor, "{number} % {divisor}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100_000))]

        #[test]
        fn any_number_has_the_remainder_of_a_division(
            number in any::<u64>(), divisor in 1..=Modulus::MAX, shift in 0u32..63, factor in any::<u64>(),
        ) {
            // The divisor is shifted so that every magnitude occurs. The numbers include a multiple and its
            // predecessor, for which an estimate could be off by one.
            let divisor = (divisor >> shift).max(1);
            let modulus = Modulus::new(divisor).unwrap();
            let multiple = factor % (u64::MAX / divisor).max(1) * divisor;
            for number in [number, multiple, multiple.wrapping_sub(1)] {
                prop_assert_eq!(modulus.remainder(number), number % divisor);
            }
        }
    }
}
