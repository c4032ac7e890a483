//! The options of filters of RedisBloom's format.

use crate::hash::murmur2::Murmur2;

/// Share of the requested error rate for the first layer of a growing filter. Each later layer gets the same share of
/// the rate of the layer before it.
pub(super) const TIGHTENING: f64 = 0.5;

/// The option bits of a filter, as RedisBloom saves them. They select how it is sized, hashed and grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisBloomOptions(u8);

/// Sizes are not rounded up to a power of two.
pub(super) const NO_ROUND: u8 = 1;
/// The requested capacity is the binary logarithm of the bits. No command sets it.
pub(super) const CAPACITY_IS_BITS: u8 = 2;
/// Items are hashed with 64 bits.
const WIDE_HASH: u8 = 4;
/// The filter does not grow.
const FIXED: u8 = 8;
const KNOWN: u8 = NO_ROUND | CAPACITY_IS_BITS | WIDE_HASH | FIXED;

impl RedisBloomOptions {
    /// The options of a growing filter that a command creates.
    pub const SCALING: Self = Self(NO_ROUND | WIDE_HASH);
    /// The options of a filter that a command creates with NONSCALING.
    pub const FIXED: Self = Self(NO_ROUND | WIDE_HASH | FIXED);
    /// The options of filters whose payload has none (RedisBloom 1.0).
    pub const OLDEST: Self = Self(0);

    /// Returns the options of a number; `None` if it has a bit that no release uses.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Self> {
        u8::try_from(bits).ok().filter(|bits| bits & !KNOWN == 0).map(Self)
    }

    /// Returns the number of the options.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns whether one of these option bits is set.
    pub(super) const fn has(self, options: u8) -> bool {
        self.0 & options != 0
    }

    /// Returns the hash of items, as releases since 2.0 compute it.
    #[must_use]
    pub const fn hash(self) -> Murmur2 {
        if self.has_wide_hash() { Murmur2::Wide } else { Murmur2::Narrow }
    }

    /// Returns whether items are hashed with 64 bits instead of 32.
    #[must_use]
    pub const fn has_wide_hash(self) -> bool {
        self.has(WIDE_HASH)
    }

    /// Returns whether the filter refuses items when it is full.
    #[must_use]
    pub const fn is_fixed(self) -> bool {
        self.has(FIXED)
    }

    /// Returns the share of the requested error rate that the first layer gets.
    pub(super) const fn first_share(self) -> f64 {
        if self.is_fixed() { 1.0 } else { TIGHTENING }
    }
}
