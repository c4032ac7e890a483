//! Bits as the storage of a layer.

use std::ops::Range;

use super::array::{Bits, cut};
use crate::bloom::memory::{Memory, OutOfMemory};
use crate::bloom::occupancy::Occupancy;
use crate::bloom::storage::Storage;

impl Storage for Bits {
    fn try_empty(size_bits: u64, has_head: bool) -> Result<Self, OutOfMemory> {
        Self::try_zeroed_behind(size_bits, has_head)
    }

    /// Like the original, the copy has no memory behind pages that are all zero. O(bytes that may be set, as
    /// far as is known).
    fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        let mut copy = Self::try_zeroed_behind(self.len(), self.count.has_head())?;
        Occupancy::of(self, memory).copy(self.words(), copy.words_mut());
        copy.count = self.count;
        Ok(copy)
    }

    fn size_bits(&self) -> u64 {
        self.len()
    }

    fn set_bits(&self) -> u64 {
        self.set_bits()
    }

    /// Bits are only ever added, so as many are the same ones.
    fn state(&self) -> u64 {
        self.set_bits()
    }

    fn state_of(set_bits: u64) -> Option<u64> {
        Some(set_bits)
    }

    fn set_cells_in(&self, words: Range<usize>) -> u64 {
        let words = self.words().get(words).unwrap_or_default();
        words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn add_segment(&mut self, offset: usize, cells: &[u8], stamps: &[u8]) -> bool {
        stamps.is_empty() && self.add_bytes(offset, cells)
    }

    fn broken_rule(&self) -> Option<&'static str> {
        let used_bits = self.len() % 64;
        let last = self.words().last().filter(|_| used_bits != 0);
        last.filter(|last| *last >> used_bits != 0).map(|_| "bits beyond the end of the array")
    }

    fn words(&self) -> &[u64] {
        self.words()
    }

    fn bytes(&self) -> &[u8] {
        self.bytes()
    }

    fn allocation(&self) -> &[u64] {
        self.allocation()
    }

    fn relocate(&mut self, relocate: &mut dyn FnMut(Box<[u64]>) -> Box<[u64]>) {
        let size_bits = self.bits.len();
        let words = std::mem::take(&mut self.bits).into_boxed_slice();
        self.bits = cut(relocate(words), size_bits);
    }
}
