//! The schemes by which clients place bits, under their frozen ids and names, and what each of them allows.

use crate::bloom::limits::LAYER_MAX_BYTES;

/// A client's way from the bytes of an item to bit positions.
///
/// The number of each variant is its id in the format. Below, `m` are the bits and `k` the probes of
/// [`SchemeParameters`](super::SchemeParameters), `murmur` is MurmurHash3 x64_128 with seed 0 and halves
/// `(h1, h2)`, `|` joins bytes, and arithmetic wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Scheme {
    /// Position i is `murmur(item | byte(i)).h1 % m` for i = 0..k; the byte wraps at 256. A published Go
    /// design on spaolacci/murmur3, of which go-zero is one instance.
    Murmur3Salted = 1,
    /// [`Murmur3Salted`](Self::Murmur3Salted) with the 14 probes that go-zero's `core/bloom` fixes.
    GoZero = 2,
    /// Position i is `fnv1a32(item | byte(i)) % m` for i = 0..k. Only the last byte differs between the
    /// hashes of an item, and FNV-1a hardly spreads its last byte: measured error rate 21 % where 0.8 % was
    /// meant.
    Fnv32aSalted = 3,
    /// Guava's `MURMUR128_MITZ_32`, the form of the widely copied `BloomFilterHelper`: `c = low32(h1) + i *
    /// high32(h1)` for i = 1..=k in 32 bits, complemented when negative, `% m`.
    GuavaMitz32 = 4,
    /// Guava's `MURMUR128_MITZ_64`: `((h1 + i * h2) & (2^63 - 1)) % m` for i = 0..k.
    GuavaMitz64 = 5,
    /// The loop of [`GuavaMitz64`](Self::GuavaMitz64) over MurmurHash3 x86_128: EventHorizon.BloomFilter on
    /// .NET Core and .NET 5 or later, whose hash library takes the x86 form there whatever the processor.
    Murmur3X86Mitz64 = 6,
    /// The positions of [`GuavaMitz64`](Self::GuavaMitz64) within .NET's `int` range:
    /// EventHorizon.BloomFilter on the 64-bit .NET Framework.
    CsharpNetfxMitz64 = 7,
    /// BKDRHash, JSHash and SDBMHash of a published PHP design, each `% m`, in PHP's arithmetic with its
    /// detour over doubles. Three probes, whole KiB.
    PhpBkdrJsSdbm = 8,
    /// Redisson's `RBloomFilter` since 3.6.0: HighwayHash-128 of the codec's bytes, adding its halves in
    /// turn.
    Redisson = 9,
}

impl Scheme {
    /// Every scheme, by id.
    pub const ALL: [Self; 9] = [
        Self::Murmur3Salted,
        Self::GoZero,
        Self::Fnv32aSalted,
        Self::GuavaMitz32,
        Self::GuavaMitz64,
        Self::Murmur3X86Mitz64,
        Self::CsharpNetfxMitz64,
        Self::PhpBkdrJsSdbm,
        Self::Redisson,
    ];

    /// The id in the format, never 0.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The scheme with an id.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.id() == id)
    }

    /// Probes per item where the client's code fixes them.
    #[must_use]
    pub const fn fixed_probes(self) -> Option<u32> {
        match self {
            Self::GoZero => Some(14),
            Self::PhpBkdrJsSdbm => Some(3),
            _ => None,
        }
    }

    /// Most probes per item.
    #[must_use]
    pub const fn max_probes(self) -> u32 {
        match self {
            // One unsigned byte in Guava's own encoding, and checked by its constructor.
            Self::GuavaMitz32 | Self::GuavaMitz64 => 255,
            _ => CLIENT_PROBES_MAX,
        }
    }

    /// Most bits that the client's code can be told.
    #[must_use]
    pub const fn max_size_bits(self) -> u64 {
        match self {
            // An int32 or an int.
            Self::Murmur3Salted | Self::Murmur3X86Mitz64 | Self::CsharpNetfxMitz64 => (1 << 31) - 1,
            // Redisson's own check, 2 * Integer.MAX_VALUE.
            Self::Redisson => 4_294_967_294,
            _ => LAYER_MAX_BYTES * 8,
        }
    }

    /// Number of positions that the hash can reach before it is reduced to the size of the filter.
    pub(in crate::bloom) const fn reach_bits(self) -> u64 {
        match self {
            Self::GuavaMitz32 => 1 << 31,
            Self::Fnv32aSalted | Self::PhpBkdrJsSdbm => 1 << 32,
            _ => u64::MAX,
        }
    }

    /// Largest [`SchemeParameters::shift`](super::SchemeParameters::shift).
    #[must_use]
    pub const fn max_shift(self) -> u8 {
        match self {
            Self::GuavaMitz32 | Self::GuavaMitz64 => SHIFT_MAX,
            _ => 0,
        }
    }
}

/// Most probes per item of a client's filter: far more than any sizing rule gives, few enough to be no
/// attack.
pub const CLIENT_PROBES_MAX: u32 = 1024;
/// Largest shift of positions; 6, the only one seen, is `LongMath`'s log2(64) applied once too often.
pub const SHIFT_MAX: u8 = 16;
/// The sizes of the PHP scheme are multiples of this: 1 KiB in bits.
pub const PHP_UNIT_BITS: u64 = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_frozen_ones_and_find_their_schemes() {
        for (id, scheme) in (1..).zip(Scheme::ALL) {
            assert_eq!((scheme.id(), Scheme::from_id(id)), (id, Some(scheme)));
        }
        assert_eq!((Scheme::ALL.len(), Scheme::from_id(0), Scheme::from_id(10)), (9, None, None));
    }
}
