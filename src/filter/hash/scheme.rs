//! The hash schemes of clients that keep filters in plain strings of the server, under frozen ids.
//!
//! The items of such a filter cannot be recovered from its bits and hashed again, so an imported filter keeps the
//! scheme of its client. Schemes and encodings are part of the format: **add, never edit**. tests/pure/schemes
//! compares every scheme with recordings of the clients' own code.

use thiserror::Error;

use crate::encoding::ItemEncoding;
use crate::limits::LAYER_MAX_BYTES;

/// How a client computes bit positions from the bytes of an item.
///
/// The number of each variant is its id in the format. Below, `m` are the bits and `k` the probes of
/// [`SchemeParameters`], `murmur` is MurmurHash3 x64_128 with seed 0 and halves `(h1, h2)`, `|` joins bytes, and
/// arithmetic wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Scheme {
    /// Position i is `murmur(item | byte(i)).h1 % m` for i = 0..k; the byte wraps at 256. A published Go
    /// design on spaolacci/murmur3, of which go-zero is one instance.
    Murmur3Salted = 1,
    /// [`Murmur3Salted`](Self::Murmur3Salted) with the 14 probes that go-zero's `core/bloom` fixes.
    GoZero = 2,
    /// Position i is `fnv1a32(item | byte(i)) % m` for i = 0..k. Only the last byte differs between the hashes of an
    /// item, and FNV-1a hardly mixes its last byte: the measured error rate is 21 % instead of 0.8 %.
    Fnv32aSalted = 3,
    /// Guava's `MURMUR128_MITZ_32`, the form of the widely copied `BloomFilterHelper`: `c = low32(h1) + i *
    /// high32(h1)` for i = 1..=k in 32 bits, complemented when negative, `% m`.
    GuavaMitz32 = 4,
    /// Guava's `MURMUR128_MITZ_64`: `((h1 + i * h2) & (2^63 - 1)) % m` for i = 0..k.
    GuavaMitz64 = 5,
    /// The loop of [`GuavaMitz64`](Self::GuavaMitz64) over MurmurHash3 x86_128: EventHorizon.BloomFilter on .NET Core
    /// and .NET 5 or later, whose hash library uses the x86 form on every processor.
    Murmur3X86Mitz64 = 6,
    /// The positions of [`GuavaMitz64`](Self::GuavaMitz64) within .NET's `int` range:
    /// EventHorizon.BloomFilter on the 64-bit .NET Framework.
    CsharpNetfxMitz64 = 7,
    /// BKDRHash, JSHash and SDBMHash of a published PHP design, each `% m`, in PHP's arithmetic with doubles. Three
    /// probes, whole KiB.
    PhpBkdrJsSdbm = 8,
    /// Redisson's `RBloomFilter` since 3.6.0: HighwayHash-128 of the codec's bytes, whose halves are added
    /// alternately.
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

    /// Returns the id in the format, never 0.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// Returns the scheme with an id.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.id() == id)
    }

    /// Returns the probes per item if the client's code fixes them.
    #[must_use]
    pub const fn fixed_probes(self) -> Option<u32> {
        match self {
            Self::GoZero => Some(14),
            Self::PhpBkdrJsSdbm => Some(3),
            _ => None,
        }
    }

    /// Returns the largest number of probes per item.
    #[must_use]
    pub const fn max_probes(self) -> u32 {
        match self {
            // Guava's own encoding has one unsigned byte for the number, and its constructor checks that.
            Self::GuavaMitz32 | Self::GuavaMitz64 => 255,
            _ => CLIENT_PROBES_MAX,
        }
    }

    /// Returns the largest number of bits that the client's code accepts.
    #[must_use]
    pub const fn max_size_bits(self) -> u64 {
        match self {
            // The client stores the size in an int32 or an int.
            Self::Murmur3Salted | Self::Murmur3X86Mitz64 | Self::CsharpNetfxMitz64 => (1 << 31) - 1,
            // Redisson's own check, 2 * Integer.MAX_VALUE.
            Self::Redisson => 4_294_967_294,
            _ => LAYER_MAX_BYTES * 8,
        }
    }

    /// Returns the number of positions that the hash can reach before the reduction to the size of the filter.
    pub(crate) const fn reach_bits(self) -> u64 {
        match self {
            Self::GuavaMitz32 => 1 << 31,
            Self::Fnv32aSalted | Self::PhpBkdrJsSdbm => 1 << 32,
            _ => u64::MAX,
        }
    }

    /// Returns the largest [`SchemeParameters::shift`].
    #[must_use]
    pub const fn max_shift(self) -> u8 {
        match self {
            Self::GuavaMitz32 | Self::GuavaMitz64 => SHIFT_MAX,
            _ => 0,
        }
    }
}

/// Most probes per item of a client's filter: far more than any sizing rule gives, and too few for an attack.
pub const CLIENT_PROBES_MAX: u32 = 1024;
/// Largest shift of positions. The only known value is 6, from a client that applies `LongMath`'s log2(64) twice.
pub const SHIFT_MAX: u8 = 16;
/// The sizes of the PHP scheme are multiples of this: 1 KiB in bits.
pub const PHP_UNIT_BITS: u64 = 8192;

/// The parameters of a client's filter, which are needed to interpret its bits. Each field is one field of the
/// format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeParameters {
    /// The hash scheme, from bytes to positions; its id is one byte.
    pub scheme: Scheme,
    /// The encoding, from items to bytes; its id is one byte.
    pub encoding: ItemEncoding,
    /// Positions are divided by 2^shift: 0 to [`Scheme::max_shift`]. A published port of Guava needs 6: its `>>> 6`
    /// uses only one bit in 64.
    pub shift: u8,
    /// Probes per item: 1 to [`Scheme::max_probes`], or exactly [`Scheme::fixed_probes`].
    pub probes: u32,
    /// The modulus of the client's positions: 1 to [`Scheme::max_size_bits`]; for the PHP scheme whole KiB.
    pub size_bits: u64,
}

/// Why parameters are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SchemeError {
    /// The bits are out of the scheme's range.
    #[error("the scheme takes 1 to {max} bits, got {got}")]
    SizeBits {
        /// The given bits.
        got: u64,
        /// The most bits of the scheme.
        max: u64,
    },
    /// The bits of the PHP scheme are not whole KiB.
    #[error("the scheme takes a multiple of {PHP_UNIT_BITS} bits, got {got}")]
    SizeUnit {
        /// The given bits.
        got: u64,
    },
    /// The probes are out of the scheme's range.
    #[error("the scheme {} hashes, got {got}", probes_range(*min, *max))]
    Probes {
        /// The given probes.
        got: u32,
        /// The fewest probes of the scheme.
        min: u32,
        /// The most probes of the scheme.
        max: u32,
    },
    /// The shift is out of the scheme's range.
    #[error("the scheme takes {}, got {got}", shift_range(*max))]
    Shift {
        /// The given shift.
        got: u8,
        /// The largest shift of the scheme.
        max: u8,
    },
}

fn probes_range(min: u32, max: u32) -> String {
    if min == max { format!("has {max}") } else { format!("takes {min} to {max}") }
}

fn shift_range(max: u8) -> String {
    if max == 0 { "no shift".into() } else { format!("a shift of 0 to {max}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_schemes_never_change() {
        for (id, scheme) in (1..).zip(Scheme::ALL) {
            assert_eq!((scheme.id(), Scheme::from_id(id)), (id, Some(scheme)));
        }
        assert_eq!((Scheme::ALL.len(), Scheme::from_id(0), Scheme::from_id(10)), (9, None, None));
    }
}
