//! What RedisBloom writes down about a layer.

use super::probing::{ITEMS_MAX, ModuloProbing, WrittenBits};
use super::sizing::probes_for;
use crate::bloom::layer::Layer;
use crate::bloom::limits::LAYER_MAX_BYTES;
use crate::bloom::modulus::Modulus;
use crate::bloom::placement::LayerPlan;

/// What RedisBloom writes down about a layer beside its items and its array; what BF.DEBUG shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerParameters {
    /// Items the layer takes before it is full.
    pub capacity_items: u64,
    /// Share of false positives it was sized for.
    pub error_rate: f64,
    /// Probes per item.
    pub probes: u64,
    /// Bits per item before any rounding.
    pub bits_per_item: f64,
    /// Bits of the array; 0 in filters from before RedisBloom 2.2 whose `exponent` says it.
    pub size_bits: u64,
    /// Binary logarithm of the modulus, or 0 when `size_bits` is the modulus.
    pub exponent: u64,
}

impl LayerParameters {
    /// The parameters of a layer.
    #[must_use]
    pub fn of(layer: &Layer<ModuloProbing>) -> Self {
        Self::of_probing(&layer.placement(), layer.bits().len(), layer.capacity_items())
    }

    /// The parameters of a layer with that placement in an array of so many bits.
    #[must_use]
    pub fn of_probing(probing: &ModuloProbing, array_bits: u64, capacity_items: u64) -> Self {
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

    /// The bits of the layer as BF.DEBUG shows them: of the array, or 2^exponent where it is not written
    /// down.
    #[must_use]
    pub fn shown_bits(&self) -> u64 {
        let modulus = u32::try_from(self.exponent).ok().and_then(|exponent| 1u64.checked_shl(exponent));
        if self.size_bits == 0 { modulus.unwrap_or(0) } else { self.size_bits }
    }

    /// The fewest bytes that an array of a layer with these parameters can have. Checks everything that can
    /// be checked without the array.
    ///
    /// # Errors
    /// The name of the first field that is out of its range or contradicts another.
    pub fn least_bytes(&self) -> Result<u64, &'static str> {
        self.probing().map(|(_, least_bits)| least_bits.div_ceil(8))
    }

    /// The layer with these parameters and an array of `size_bytes`, if there can be one.
    ///
    /// # Errors
    /// The name of the first field that is out of its range or contradicts another.
    pub fn plan(&self, size_bytes: u64) -> Result<LayerPlan<ModuloProbing>, &'static str> {
        let (placement, least_bits) = self.probing()?;
        let least_bytes = least_bits.div_ceil(8);
        let fits = match placement.written_bits {
            WrittenBits::Modulus | WrittenBits::Array => size_bytes == least_bytes,
            WrittenBits::Zero => size_bytes >= least_bytes,
        };
        if !fits || size_bytes > LAYER_MAX_BYTES {
            return Err("size of the bit array");
        }
        Ok(LayerPlan {
            placement,
            size_bits: size_bytes * 8,
            capacity_items: self.capacity_items,
            has_head: false,
        })
    }

    /// Checks that a layer with that placement, array and capacity is one that can be written down.
    ///
    /// # Errors
    /// What breaks a rule.
    pub fn check(probing: &ModuloProbing, array_bits: u64, capacity_items: u64) -> Result<(), &'static str> {
        let plan = Self::of_probing(probing, array_bits, capacity_items).plan(array_bits / 8)?;
        let is_same = plan.placement == *probing && plan.size_bits == array_bits;
        if is_same { Ok(()) } else { Err("size in bits") }
    }

    /// The placement of the layer, and the fewest bits of its array.
    fn probing(&self) -> Result<(ModuloProbing, u64), &'static str> {
        if !(1..=ITEMS_MAX).contains(&self.capacity_items) {
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
        let probing = ModuloProbing {
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
