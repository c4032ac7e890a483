//! The layout of RedisBloom's filters, and the parameters that RedisBloom saves for a layer.

use super::prime::Modulus;
use super::probing::{Position, Positions, Probing};
use crate::hash::ItemHash;
use crate::limits::LAYER_MAX_BYTES;
use crate::number::truncate;

/// Double hashing: position `i` is `(h1 + i * h2) mod 2^64 mod M`, where M is the modulus.
///
/// Besides M the struct keeps parameters that must be saved as they were loaded. They cannot be computed: releases
/// before 2.2 tightened the error rate and rounded the bits differently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modulo {
    modulus: Modulus,
    error_rate: f64,
    bits_per_item: f64,
    probes: u16,
    /// Binary logarithm of M if that is saved, else 0.
    exponent: u8,
    written_bits: WrittenBits,
}

/// Most probes per item. RedisBloom's constants give 1075 for the smallest error rate of a double, 2^-1074.
pub const MODULO_PROBES_MAX: u16 = 2048;

/// The natural logarithm of 2, with RedisBloom's digits.
#[expect(clippy::approx_constant, reason = "RedisBloom's constant has fewer digits than there are")]
const LN2: f64 = 0.693147180559945;

/// Returns the number of probes that RedisBloom gives a layer with this number of bits per item; `None` if it is 0 or
/// above [`MODULO_PROBES_MAX`].
#[must_use]
pub fn probes_for(bits_per_item: f64) -> Option<u16> {
    let probes = u16::try_from(truncate((LN2 * bits_per_item).ceil())).ok()?;
    (1..=MODULO_PROBES_MAX).contains(&probes).then_some(probes)
}

/// The value that is saved as the bits of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenBits {
    /// The modulus M.
    Modulus,
    /// The number of bits of the array. M is a power of two and may be smaller.
    Array,
    /// 0: releases before 2.2 omitted the field for powers of two.
    Zero,
}

impl Modulo {
    /// Largest number of items and largest capacity: the largest integer of a reply.
    pub const ITEMS_MAX: u64 = u64::MAX >> 1;

    /// Returns the layout of a new layer whose array has `array_bits` bits; `None` if the modulus or the number of
    /// probes would be invalid.
    pub(crate) fn of_new_layer(
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

    /// Returns the error rate that the layer was sized for.
    #[must_use]
    pub fn error_rate(&self) -> f64 {
        self.error_rate
    }

    /// Returns the binary logarithm of the modulus if that is saved, else 0.
    #[must_use]
    pub fn exponent(&self) -> u8 {
        self.exponent
    }

    /// Returns the modulus of the positions, at most the bits of the array.
    #[must_use]
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// Returns the number of probes per item.
    #[must_use]
    pub fn probes(&self) -> u32 {
        self.probes.into()
    }
}

impl Probing<ItemHash> for Modulo {
    type Line = Position;

    #[inline(always)]
    fn first_lines(self, item: ItemHash, _: u64, left: u32) -> impl Iterator<Item = Position> + Clone {
        let (mut number, modulus) = (item.h1, self.modulus);
        let next = move || {
            let position = modulus.remainder(number);
            number = number.wrapping_add(item.h2);
            position
        };
        Positions { left, next }
    }

    #[inline(always)]
    fn line_count(self) -> u32 {
        self.probes.into()
    }
}

/// The parameters that RedisBloom saves for a layer besides its items and its array. BF.DEBUG shows them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerParameters {
    /// The capacity.
    pub capacity_items: u64,
    /// The error rate that the layer was sized for.
    pub error_rate: f64,
    /// Probes per item.
    pub probes: u64,
    /// Bits per item before any rounding.
    pub bits_per_item: f64,
    /// Bits of the array; 0 in filters from before RedisBloom 2.2 that have an `exponent` instead.
    pub size_bits: u64,
    /// Binary logarithm of the modulus, or 0 if `size_bits` is the modulus.
    pub exponent: u64,
}

impl LayerParameters {
    /// Returns the parameters of a layer with this layout in an array of `array_bits` bits.
    #[must_use]
    pub fn of(probing: &Modulo, array_bits: u64, capacity_items: u64) -> Self {
        let size_bits = match probing.written_bits {
            WrittenBits::Modulus => probing.modulus.divisor(),
            WrittenBits::Array => array_bits,
            WrittenBits::Zero => 0,
        };
        Self {
            capacity_items,
            error_rate: probing.error_rate,
            probes: probing.probes.into(),
            bits_per_item: probing.bits_per_item,
            size_bits,
            exponent: probing.exponent.into(),
        }
    }

    /// Returns the number of bits that BF.DEBUG shows for the layer: `size_bits`, or 2^exponent if that is 0.
    #[must_use]
    pub fn shown_bits(&self) -> u64 {
        let modulus = u32::try_from(self.exponent).ok().and_then(|exponent| 1u64.checked_shl(exponent));
        if self.size_bits == 0 { modulus.unwrap_or(0) } else { self.size_bits }
    }

    /// Returns the fewest bytes that the array of a layer with these parameters can have. Checks everything that can
    /// be checked without the array.
    ///
    /// # Errors
    /// The name of the first field that is out of range or contradicts another.
    pub fn least_bytes(&self) -> Result<u64, &'static str> {
        self.probing().map(|(_, least_bits)| least_bits.div_ceil(8))
    }

    /// Returns the layout with these parameters in an array of `size_bytes`.
    ///
    /// # Errors
    /// The name of the first field that is out of range or contradicts another.
    pub fn layout(&self, size_bytes: u64) -> Result<Modulo, &'static str> {
        let (layout, least_bits) = self.probing()?;
        let least_bytes = least_bits.div_ceil(8);
        let fits = match layout.written_bits {
            WrittenBits::Modulus | WrittenBits::Array => size_bytes == least_bytes,
            WrittenBits::Zero => size_bytes >= least_bytes,
        };
        if !fits || size_bytes > LAYER_MAX_BYTES {
            return Err("size of the bit array");
        }
        Ok(layout)
    }

    /// Returns the layout, and the fewest bits of its array.
    fn probing(&self) -> Result<(Modulo, u64), &'static str> {
        if !(1..=Modulo::ITEMS_MAX).contains(&self.capacity_items) {
            return Err("capacity");
        }
        if !(self.error_rate > 0.0 && self.error_rate < 1.0) {
            return Err("error rate");
        }
        let probes = probes_for(self.bits_per_item).ok_or("bits per item")?;
        if u64::from(probes) != self.probes {
            return Err("probes");
        }
        let (modulus_bits, least_bits, written_bits) = match (self.size_bits, self.exponent) {
            (0, 0) => return Err("size in bits"),
            (bits, 0) => (bits, bits, WrittenBits::Modulus),
            (_, 64..) => return Err("binary logarithm of the bits"),
            (0, exponent) => (1 << exponent, 1 << exponent, WrittenBits::Zero),
            (bits, exponent) if bits.is_multiple_of(8) && bits >= 1 << exponent => {
                (1 << exponent, bits, WrittenBits::Array)
            }
            _ => return Err("size in bits"),
        };
        let probing = Modulo {
            modulus: Modulus::new(modulus_bits).ok_or("size in bits")?,
            error_rate: self.error_rate,
            bits_per_item: self.bits_per_item,
            probes,
            exponent: u8::try_from(self.exponent).map_err(|_| "binary logarithm of the bits")?,
            written_bits,
        };
        Ok((probing, least_bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::murmur2::Murmur2;

    #[test]
    fn known_positions_of_redisbloom() {
        // BF.RESERVE with 0.01 and 100: eight probes in 1152 bits.
        let bits_per_item = 11.027_753_418_256_411;
        let probing = Modulo::of_new_layer(0.005, bits_per_item, 0, 1152).unwrap();
        let answers: [(&str, [u64; 8]); 3] = [
            ("", [366, 1077, 764, 451, 138, 849, 536, 223]),
            ("foo", [269, 847, 145, 723, 21, 599, 25, 475]),
            ("The quick brown fox jumps over the lazy dog", [214, 640, 1066, 340, 766, 40, 466, 892]),
        ];
        for (item, positions) in answers {
            let pair = Murmur2::Wide.pair(item.as_bytes());
            let spots: Vec<u64> = probing.lines_of(pair, 0).map(|Position(position)| position).collect();
            assert_eq!(spots, positions, "{item}");
        }
    }

    #[test]
    fn the_struct_of_a_layer_has_40_bytes() {
        assert_eq!(size_of::<Modulo>(), 40);
    }
}
