//! The option bits of a RedisBloom filter, as it writes them down.

use crate::bloom::hash::murmur2::Murmur2;

/// Which rules a filter was made by and grows by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options(u8);

/// Sizes are not rounded up to a power of two.
const NO_ROUND: u8 = 1;
/// The capacity asked for is the binary logarithm of the bits. No command sets it.
const CAPACITY_IS_BITS: u8 = 2;
/// Items are hashed with 64 bits.
const WIDE_HASH: u8 = 4;
/// The filter does not grow.
const FIXED: u8 = 8;
const KNOWN: u8 = NO_ROUND | CAPACITY_IS_BITS | WIDE_HASH | FIXED;

impl Options {
    /// Of a filter that a command makes and that grows.
    pub const SCALING: Self = Self(NO_ROUND | WIDE_HASH);
    /// Of a filter that a command makes with NONSCALING.
    pub const FIXED: Self = Self(NO_ROUND | WIDE_HASH | FIXED);
    /// Of filters from before options were written down (RedisBloom 1.0).
    pub const OLDEST: Self = Self(0);

    /// The options that a number stands for, or nothing if it has a bit that no release knows.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Self> {
        u8::try_from(bits).ok().filter(|bits| bits & !KNOWN == 0).map(Self)
    }

    /// The number that stands for the options.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// How a layer's bits follow from its capacity.
    #[must_use]
    pub const fn rounding(self) -> Rounding {
        if self.0 & CAPACITY_IS_BITS != 0 {
            Rounding::CapacityIsBits
        } else if self.0 & NO_ROUND != 0 {
            Rounding::None
        } else {
            Rounding::PowerOfTwo
        }
    }

    /// Returns the hash of items, as releases since 2.0 compute it.
    #[must_use]
    pub const fn hash(self) -> Murmur2 {
        if self.has_wide_hash() { Murmur2::Wide } else { Murmur2::Narrow }
    }

    /// Returns whether items are hashed with 64 bits, otherwise with 32.
    #[must_use]
    pub const fn has_wide_hash(self) -> bool {
        self.0 & WIDE_HASH != 0
    }

    /// Whether the filter refuses items when it is full.
    #[must_use]
    pub const fn is_fixed(self) -> bool {
        self.0 & FIXED != 0
    }
}

/// How the bits of a layer follow from its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// As many as the formula says; since RedisBloom 2.2.
    None,
    /// The next power of two, and the capacity grows with it; before RedisBloom 2.2.
    PowerOfTwo,
    /// Two to the power of the capacity asked for.
    CapacityIsBits,
}
