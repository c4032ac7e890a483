//! One array taken into another of the same length: which bits are new, and setting them.

use super::array::Bits;
use super::load::PAGE_WORDS;
use crate::bloom::memory::Memory;
use crate::bloom::occupancy::{BLOCK_WORDS, Occupancy};

impl Bits {
    /// Sets the bits that are set in `other`, an array of as many bits; of another length nothing is set. Memory
    /// behind clear pages of `other` is not touched. O(bytes that may be set, as far as is known).
    pub fn unite(&mut self, other: &Self, memory: impl Memory) {
        if self.len() != other.len() {
            return;
        }
        let mut new_bits = 0;
        let occupancy = Occupancy::of(other, memory);
        let blocks = other.words().chunks(BLOCK_WORDS);
        for (number, (to, from)) in self.words_mut().chunks_mut(BLOCK_WORDS).zip(blocks).enumerate() {
            if occupancy.is_clear_block(number) {
                continue;
            }
            for (to, from) in to.chunks_mut(PAGE_WORDS).zip(from.chunks(PAGE_WORDS)) {
                // Also tells whether there is something to write: a page that is written to is copied for a child
                // that saves, and one that never was takes memory from then on.
                let page_bits = beyond(to, from);
                if page_bits > 0 {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
                    new_bits += page_bits;
                }
            }
        }
        self.count.add(new_bits);
    }

    /// How many bits are set in `other`, of as many bits, and not here. O(bytes).
    #[must_use]
    pub fn count_beyond(&self, other: &Self) -> u64 {
        let pages = self.words().chunks(PAGE_WORDS).zip(other.words().chunks(PAGE_WORDS));
        pages.map(|(to, from)| beyond(to, from)).sum()
    }

    /// Whether every bit that is set in `other`, of as many bits, is set here. Ends at the first that is not.
    /// O(bytes).
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.len() == other.len()
            && other.set_bits() <= self.set_bits()
            && self.words().iter().zip(other.words()).all(|(to, from)| from & !to == 0)
    }
}

/// How many bits of `from`, a page, are not in `to`.
fn beyond(to: &[u64], from: &[u64]) -> u64 {
    to.iter().zip(from).map(|(to, from)| u64::from((from & !to).count_ones())).sum()
}
