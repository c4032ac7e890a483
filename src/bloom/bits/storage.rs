//! Bits as the storage of a layer.

use super::array::{Bits, cut};
use super::load::PAGE_WORDS;
use crate::bloom::memory::{Memory, OutOfMemory};
use crate::bloom::occupancy::{BLOCK_WORDS, Occupancy};
use crate::bloom::storage::Storage;

impl Storage for Bits {
    fn try_empty(size_bits: u64, has_head: bool) -> Result<Self, OutOfMemory> {
        Self::try_zeroed_behind(size_bits, has_head)
    }

    /// Like the original, the copy has no memory behind pages that are all zero. O(bytes that may be set, as
    /// far as is known).
    fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        let mut copy = Self::try_zeroed_behind(self.len(), self.count.has_head())?;
        let occupancy = Occupancy::of(self, memory);
        let blocks = self.words().chunks(BLOCK_WORDS);
        for (number, (to, from)) in copy.words_mut().chunks_mut(BLOCK_WORDS).zip(blocks).enumerate() {
            if occupancy.is_clear_block(number) {
                continue;
            }
            for (to, from) in to.chunks_mut(PAGE_WORDS).zip(from.chunks(PAGE_WORDS)) {
                if from.iter().any(|word| *word != 0) {
                    to.copy_from_slice(from);
                }
            }
        }
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
