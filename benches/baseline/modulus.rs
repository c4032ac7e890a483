//! Computes remainders as RedisBloom does: with a division for every probe. Replaces src/bloom/modulus.rs in the
//! baseline.

/// A divisor from 1 to 2^63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modulus {
    divisor: u64,
    /// Makes a layer as large as in the module.
    _unused: u64,
}

impl Modulus {
    /// Largest divisor.
    pub const MAX: u64 = 1 << 63;

    /// Returns the modulus of a divisor; `None` if the divisor is 0 or above [`Modulus::MAX`].
    #[must_use]
    pub const fn new(divisor: u64) -> Option<Self> {
        if divisor == 0 || divisor > Self::MAX { None } else { Some(Self { divisor, _unused: 0 }) }
    }

    /// Returns the divisor.
    #[must_use]
    pub const fn divisor(self) -> u64 {
        self.divisor
    }

    /// Returns `number % divisor`.
    #[must_use]
    pub const fn remainder(self, number: u64) -> u64 {
        number % self.divisor
    }
}
