//! The union of arrays of bits.

use super::array::{BitArray, PAGE_WORDS};
use super::occupancy::{BLOCK_WORDS, Occupancy};
use crate::bloom::memory::Memory;

impl BitArray {
    /// Sets the bits that are set in `other`. An array of another length changes nothing. Does not touch memory for
    /// clear pages of `other`. O(bytes that may be set).
    pub(in crate::bloom) fn unite(&mut self, other: &Self, memory: impl Memory) {
        if self.size_bits() != other.size_bits() {
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
                // First checks whether any bit would be set. Writing to a page copies it while a child saves, and
                // takes memory if the page was never written to.
                let page_bits = beyond(to, from);
                if page_bits > 0 {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
                    new_bits += page_bits;
                }
            }
        }
        self.count_set(new_bits);
    }

    /// Returns how many bits are set in `other` and clear here. `other` must have the same length. O(bytes).
    #[must_use]
    pub(in crate::bloom) fn count_beyond(&self, other: &Self) -> u64 {
        let pages = self.words().chunks(PAGE_WORDS).zip(other.words().chunks(PAGE_WORDS));
        pages.map(|(to, from)| beyond(to, from)).sum()
    }

    /// Returns whether a union with `other` would set nothing. Stops at the first bit that it would set. O(bytes).
    #[must_use]
    pub(in crate::bloom) fn covers(&self, other: &Self) -> bool {
        let mut words = self.words().iter().zip(other.words());
        self.size_bits() == other.size_bits()
            && other.set_bits() <= self.set_bits()
            && words.all(|(to, from)| from & !to == 0)
    }
}

/// Returns how many bits are set in `from` and clear in `to`. O(words).
fn beyond(to: &[u64], from: &[u64]) -> u64 {
    to.iter().zip(from).map(|(to, from)| u64::from((from & !to).count_ones())).sum()
}
