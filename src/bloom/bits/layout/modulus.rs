//! The remainder of a division by a fixed number, computed without a division.

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
            // The divisor is shifted so that every magnitude occurs. The numbers are multiples, for which an estimate
            // could be off by one.
            let divisor = (divisor >> shift).max(1);
            let modulus = Modulus::new(divisor).unwrap();
            let multiple = factor % (u64::MAX / divisor).max(1) * divisor;
            for number in [number, multiple, multiple.wrapping_sub(1)] {
                prop_assert_eq!(modulus.remainder(number), number % divisor);
            }
        }
    }
}
