//! Where the probes of an item fall in a layer.

use crate::bloom::bits::Bits;
use crate::bloom::estimate::{error_rate_now, fill, items_met};
use crate::bloom::everbloom::hash128;
use crate::bloom::modulus::Modulus;
use crate::bloom::placement::{Positions, Probes};

/// Most probes of a layer. The smallest error rate that a double tells from zero asks for 1022, and for a few
/// more where a small array is rounded up to whole bytes.
pub const PROBES_MAX: u32 = 2_048;

/// Largest capacity, in items: it is kept as a signed number of 64 bits.
pub(super) const CAPACITY_MAX_ITEMS: u64 = i64::MAX.unsigned_abs();

/// The modulus of the positions after the second: the largest prime below 2^64.
const PRIME: u64 = 0xFFFF_FFFF_FFFF_FFC5;

/// The two hashes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SipPair {
    /// The hash with the first half of the seed: the first probe.
    pub h0: u64,
    /// The hash with the second half: the second probe, and the distance of the later ones.
    pub h1: u64,
}

/// How a layer of `size_bits` bits places its probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SipProbing {
    probes: u32,
    modulus: Modulus,
    /// Whether the two hashes of every item are equal, as a seed of two equal halves makes them.
    has_equal_hashes: bool,
}

/// Probes that the error rate is measured by where the hashes are equal. Among some thousand absent items are enough false
/// positives: even at a promised rate of 1e-6 a full layer has 5 in a thousand.
const MEASURING_PROBES: u32 = 1 << 14;

impl SipProbing {
    /// The placement of `probes` probes, 1 to [`PROBES_MAX`], in `size_bits` bits. `None` for any other
    /// number of probes and for no bits.
    #[must_use]
    pub fn new(probes: u32, size_bits: u64) -> Option<Self> {
        let modulus = Modulus::new(size_bits)?;
        let has_equal_hashes = false;
        (1..=PROBES_MAX).contains(&probes).then_some(Self { probes, modulus, has_equal_hashes })
    }

    /// Returns the same placement for items whose two hashes are equal, or not.
    #[must_use]
    pub const fn with_equal_hashes(self, has_equal_hashes: bool) -> Self {
        Self { has_equal_hashes, ..self }
    }

    /// Returns the share of items that are taken for present, of items that look random and are the same each time.
    /// O([`MEASURING_PROBES`]).
    fn measured_rate(self, bits: &Bits) -> f64 {
        let reader = bits.reader();
        let (mut items, mut found, mut probes) = (0u32, 0u32, 0u32);
        while probes < MEASURING_PROBES {
            let hash = hash128(&items.to_le_bytes()).h1;
            let mut positions = self.positions(SipPair { h0: hash, h1: hash });
            let first_clear = positions.by_ref().position(|position| !reader.get(position));
            found += u32::from(first_clear.is_none());
            probes += first_clear.map_or(self.probes, |index| u32::try_from(index + 1).unwrap_or(u32::MAX));
            items += 1;
        }
        f64::from(found) / f64::from(items)
    }
}

impl SipProbing {
    /// Checks that a layer with that placement can have an array of `array_bits` bits and that capacity. The formula gives
    /// fewer probes than bits whatever the error rate.
    ///
    /// # Errors
    /// What breaks a rule.
    pub fn check(&self, array_bits: u64, capacity_items: u64) -> Result<(), &'static str> {
        if !array_bits.is_multiple_of(8) || self.modulus.divisor() != array_bits {
            return Err("size in bits");
        }
        if u64::from(self.probes) > array_bits {
            return Err("probes");
        }
        if (1..=CAPACITY_MAX_ITEMS).contains(&capacity_items) { Ok(()) } else { Err("capacity") }
    }
}

impl Probes for SipProbing {
    type Storage = Bits;

    fn probes(&self) -> u32 {
        self.probes
    }

    /// Layers of other modules have any capacity; decoders refuse counts above this.
    fn most_items(&self, bits: &Bits) -> u64 {
        bits.len()
    }

    /// Of equal hashes the first two probes are one.
    fn estimated_items(&self, bits: &Bits) -> f64 {
        let probes = self.probes.saturating_sub(self.has_equal_hashes.into());
        items_met(bits.set_bits(), self.cells(bits), probes)
    }

    /// Equal hashes depend on each other in ways that the fill does not tell, so their rate is measured.
    fn error_rate_now(&self, bits: &Bits) -> f64 {
        if self.has_equal_hashes && bits.set_bits() > 0 {
            return self.measured_rate(bits);
        }
        error_rate_now(fill(bits.set_bits(), self.cells(bits)), self.probes)
    }
}

impl Positions<SipPair> for SipProbing {
    /// The bit positions of an item, in valkey-bloom's order: `h0`, `h1`, then `h0 + i * h1` modulo 2^64 and
    /// modulo the largest prime below that, each modulo the number of bits.
    fn positions(&self, item: SipPair) -> impl Iterator<Item = u64> + Clone {
        let Self { probes, modulus, .. } = *self;
        let SipPair { h0, h1 } = item;
        // The next two words, so that no probe has to ask which one it is.
        let (mut next, mut after, mut sum) = (h0, h1, h0.wrapping_add(h1));
        (0..probes).map(move |_| {
            sum = sum.wrapping_add(h1);
            let word = next;
            (next, after) = (after, below_prime(sum));
            modulus.remainder(word)
        })
    }
}

/// `word` modulo [`PRIME`]: the prime is above 2^63, so it goes in at most once.
const fn below_prime(word: u64) -> u64 {
    if word >= PRIME { word.wrapping_sub(PRIME) } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_goes_below_the_prime_at_once() {
        for word in [0, 1, PRIME - 1, PRIME, PRIME + 1, u64::MAX] {
            assert_eq!(below_prime(word), word % PRIME);
        }
    }

    #[test]
    fn only_possible_placements_are_made() {
        assert_eq!(SipProbing::new(0, 8), None);
        assert_eq!(SipProbing::new(PROBES_MAX + 1, 8), None);
        assert_eq!(SipProbing::new(1, 0), None);
        assert_eq!(SipProbing::new(PROBES_MAX, 8).map(|placement| placement.probes()), Some(PROBES_MAX));
    }
}
