//! Where a layer places probes.

use super::hash::HashPair;
use super::sizing::probes_for;
use crate::bloom::bits::Bits;
use crate::bloom::modulus::Modulus;
use crate::bloom::placement::{Positions, Probes};

/// Most items of a layer or a filter, and most a layer's capacity: what a reply can carry.
pub const ITEMS_MAX: u64 = u64::MAX >> 1;

/// How one layer places probes: position `i` is `(a + i * b) mod 2^64 mod M`.
///
/// Holds beside M what must be written down again as it was read, for neither follows from the other:
/// releases before 2.2 tightened the error rate and rounded the bits differently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModuloProbing {
    pub(super) modulus: Modulus,
    pub(super) error_rate: f64,
    pub(super) bits_per_item: f64,
    pub(super) probes: u16,
    /// Binary logarithm of M where M is written down as such, else 0.
    pub(super) exponent: u8,
    pub(super) written_bits: WrittenBits,
}

/// What is written down as the bits of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenBits {
    /// M.
    Modulus,
    /// The bits of the array: M is a power of two and may be less.
    Array,
    /// 0: releases before 2.2 left the field out for powers of two.
    Zero,
}

impl ModuloProbing {
    /// The probing of a new layer whose array has `array_bits` bits. Nothing when M would be no modulus.
    pub(super) fn of_new_layer(
        error_rate: f64,
        bits_per_item: f64,
        exponent: u8,
        array_bits: u64,
    ) -> Option<Self> {
        let (divisor, written_bits) = match exponent {
            0 => (array_bits, WrittenBits::Modulus),
            _ => (1u64.checked_shl(exponent.into())?, WrittenBits::Array),
        };
        Some(Self {
            modulus: Modulus::new(divisor)?,
            error_rate,
            bits_per_item,
            probes: probes_for(bits_per_item)?,
            exponent,
            written_bits,
        })
    }

    /// Share of false positives that the layer was sized for.
    #[must_use]
    pub fn error_rate(&self) -> f64 {
        self.error_rate
    }

    /// Binary logarithm of the modulus where it is written down as such, else 0.
    #[must_use]
    pub fn exponent(&self) -> u8 {
        self.exponent
    }

    /// The modulus of the positions, at most the bits of the array.
    #[must_use]
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }
}

impl Probes for ModuloProbing {
    type Storage = Bits;

    fn probes(&self) -> u32 {
        self.probes.into()
    }

    /// Layers of other modules have any capacity; decoders refuse counts above this.
    fn most_items(&self, bits: &Bits) -> u64 {
        bits.len()
    }

    /// Of arrays that were rounded up, or whose modulus is a smaller power of two, the rest is never set.
    fn cells(&self, bits: &Bits) -> u64 {
        self.modulus.divisor().min(bits.len())
    }
}

impl Positions<HashPair> for ModuloProbing {
    fn positions(&self, HashPair { a, b }: HashPair) -> impl Iterator<Item = u64> + Clone {
        let modulus = self.modulus;
        let mut number = a;
        (0..self.probes).map(move |_| {
            let position = modulus.remainder(number);
            number = number.wrapping_add(b);
            position
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash::Hashing;
    use super::*;

    #[test]
    fn known_positions_of_redisbloom() {
        // BF.RESERVE with 0.01 and 100: eight probes in 1152 bits.
        let bits_per_item = 11.027_753_418_256_411;
        let probing = ModuloProbing::of_new_layer(0.005, bits_per_item, 0, 1152).unwrap();
        let answers: [(&str, [u64; 8]); 3] = [
            ("", [366, 1077, 764, 451, 138, 849, 536, 223]),
            ("foo", [269, 847, 145, 723, 21, 599, 25, 475]),
            ("The quick brown fox jumps over the lazy dog", [214, 640, 1066, 340, 766, 40, 466, 892]),
        ];
        for (item, positions) in answers {
            let pair = HashPair::of(item.as_bytes(), Hashing::Wide);
            assert_eq!(probing.positions(pair).collect::<Vec<_>>(), positions, "{item}");
        }
    }

    #[test]
    fn a_layer_takes_little_more_than_what_is_written_about_it() {
        assert_eq!(size_of::<ModuloProbing>(), 40);
    }
}
