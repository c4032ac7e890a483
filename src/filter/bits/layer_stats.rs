//! The statistics of a layer, for operators.

use super::layer::Layer;
use super::layout::Layout;
use super::sizing::double_hashing::collision_rate;
use super::sizing::estimate;
use crate::hash::murmur2::Murmur2;
use crate::hash::murmur3::hash128;
use crate::hash::{Digest, Hash, ItemHash};
use crate::prefetch::NoPrefetch;

/// The statistics of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BitsStats {
    /// The number of bits.
    pub size_bits: u64,
    /// The number of bytes of the bits.
    pub size_bytes: u64,
    /// Probes per item.
    pub probes: u32,
    /// Its capacity.
    pub capacity_items: u64,
    /// Counted items: those that were new to the filter when they were added.
    pub items: u64,
    /// Distinct added items, estimated from its fill.
    pub estimated_items: f64,
    /// Bits that the layer's probes can reach.
    pub positions: u64,
    /// Set bits among the positions.
    pub set_bits: u64,
    /// Its expected current error rate.
    pub error_rate: f64,
}

impl Layer {
    /// Returns the estimated number of distinct added items, from the set bits. O(probes).
    #[must_use]
    pub fn estimated_items(&self) -> f64 {
        let set_bits = self.counts().set_bits;
        match self.shape() {
            Some(shape) => shape.estimated_items(set_bits),
            None => {
                // With equal hashes the first two probes coincide.
                let probes = self.layout().probes().saturating_sub(self.has_equal_hashes().into());
                estimate::estimated_items(set_bits, self.positions(), probes)
            }
        }
    }

    /// Returns the expected current error rate; for double hashing an upper bound. O(probes); a few microseconds in a paged
    /// layout.
    #[must_use]
    pub fn error_rate_now(&self) -> f64 {
        let set_bits = self.counts().set_bits;
        // With equal hashes the rate does not follow from the fill, so it is measured.
        if self.has_equal_hashes() && set_bits > 0 {
            return self.measured_rate();
        }
        let of_fill = self.error_rate_at(set_bits);
        of_fill + (1.0 - of_fill) * self.collision_rate()
    }

    /// Returns an upper bound of the share of absent items that double hashing finds besides those that the fill
    /// predicts; 0 for layers whose probes do not follow from a start and a step. O(probes).
    fn collision_rate(&self) -> f64 {
        match self.layout() {
            Layout::Modulo(_) | Layout::Prime(_) => {
                let (positions, probes) = (self.positions(), self.layout().probes());
                let fill = estimate::fill(self.counts().set_bits, positions);
                let wraps = !matches!(self.hash(), Hash::RedisBloom(Murmur2::Narrow));
                collision_rate(fill, positions, probes, self.estimated_items(), wraps)
            }
            Layout::Scattered(_) | Layout::Paged(_) | Layout::Scheme(_) => 0.0,
        }
    }

    /// Returns whether the two hashes of every item are equal.
    fn has_equal_hashes(&self) -> bool {
        matches!(self.hash(), Hash::ValkeyBloom(seed) if seed.has_equal_halves())
    }

    /// Returns the share of pseudo-random items that are found. The items are always the same.
    /// O([`MEASURED_PROBES`]).
    fn measured_rate(&self) -> f64 {
        let probes = u64::from(self.layout().probes());
        let items = (MEASURED_PROBES / probes.max(1)).max(1);
        let is_found = |number: &u64| {
            let h1 = hash128(&number.to_le_bytes()).h1;
            self.contains(Digest::Pair(ItemHash { h1, h2: h1 }), NoPrefetch)
        };
        (0..items).filter(is_found).count() as f64 / items as f64
    }

    /// Returns the statistics. O(1); a few microseconds in a paged layout.
    #[must_use]
    pub fn stats(&self) -> BitsStats {
        let (counts, bits) = (self.counts(), self.bits());
        BitsStats {
            size_bits: bits.size_bits(),
            size_bytes: bits.size_bytes(),
            probes: self.layout().probes(),
            capacity_items: self.capacity_items(),
            items: counts.items,
            estimated_items: self.estimated_items(),
            positions: self.positions(),
            set_bits: counts.set_bits,
            error_rate: self.error_rate_now(),
        }
    }
}

/// The number of probes by which the error rate is measured if the two hashes of every item are equal. They suffice for
/// a few thousand absent items, which give enough false positives: a full layer with a promised rate of 1e-6 finds 5 in
/// a thousand.
const MEASURED_PROBES: u64 = 1 << 16;
