//! Finds the blocks of a large layer that have a set bit, without touching the others.
//!
//! Memory that was never written to takes no space, but reading it takes a page fault per 4 KiB. Without this module,
//! saving or copying a filter of 10 GB with one item takes seconds. The system knows which memory was written to. Its
//! answer is used only if that memory contains all set bits of the layer.

use std::ops::Range;

use bitvec::prelude::{BitBox, Lsb0};

use super::layout::PAGE_WORDS;
use crate::bloom::memory::Memory;
use crate::bloom::work::count_slots;

/// Largest layer, in words, that is read without a query to the system: 4 MiB take less than a millisecond.
const SMALL_MAX_WORDS: usize = (4 << 20) / 8;
/// Words of a block: 64 KiB. Occupancy is recorded per block.
const BLOCK_WORDS: usize = 8192;
/// Least share of a layer, in percent, that must never have been written to. With less, most blocks have a set bit, and
/// examining them saves little.
const UNTOUCHED_MIN_PERCENT: usize = 25;

/// The blocks of a layer that have a bit set.
#[derive(Debug)]
pub struct Occupancy {
    /// One bit per block, set if the block has a set bit; `None` if nothing is known.
    blocks: Option<BitBox<u64, Lsb0>>,
}

impl Occupancy {
    /// Examines the words of a layer, of which `set_bits` bits are set. O(bytes that were written to), and O(pages) for
    /// the query to the system.
    #[must_use]
    pub fn of(words: &[u64], set_bits: u64, memory: impl Memory) -> Self {
        Self { blocks: occupied_blocks(words, set_bits, memory) }
    }

    /// Calls `act` with each page of `from` that may have a set bit, and the page of `to` at the same place. Does not
    /// touch the memory of other pages. O(bytes that may be set).
    pub(super) fn each_page(&self, to: &mut [u64], from: &[u64], mut act: impl FnMut(&mut [u64], &[u64])) {
        for (number, (to, from)) in to.chunks_mut(BLOCK_WORDS).zip(from.chunks(BLOCK_WORDS)).enumerate() {
            if !self.is_clear_block(number) {
                to.chunks_mut(PAGE_WORDS).zip(from.chunks(PAGE_WORDS)).for_each(|(to, from)| act(to, from));
            }
        }
    }

    fn is_clear_block(&self, number: usize) -> bool {
        let block = self.blocks.as_ref().and_then(|blocks| blocks.get(number));
        block.is_some_and(|is_occupied| !*is_occupied)
    }

    /// Returns whether the bytes are known to be clear; false if nothing is known.
    #[must_use]
    pub fn is_clear(&self, bytes: Range<usize>) -> bool {
        let block_bytes = BLOCK_WORDS * 8;
        let mut blocks = bytes.start / block_bytes..bytes.end.div_ceil(block_bytes);
        blocks.all(|block| self.is_clear_block(block))
    }
}

/// Returns one bit per block that has a set bit; `None` if that is not known or not worth a query.
fn occupied_blocks(words: &[u64], set_bits: u64, memory: impl Memory) -> Option<BitBox<u64, Lsb0>> {
    if words.len() <= SMALL_MAX_WORDS {
        return None;
    }
    let blocks = words.len().div_ceil(BLOCK_WORDS).div_ceil(64);
    let mut blocks = BitBox::from_boxed_slice(bytemuck::try_zeroed_slice_box(blocks).ok()?);
    if set_bits == 0 {
        return Some(blocks);
    }
    let mut written_words = 0;
    memory.written_ranges(words, &mut |part| written_words += part.len());
    if written_words / 100 > words.len() / 100 * (100 - UNTOUCHED_MIN_PERCENT) / 100 {
        return None;
    }
    let mut found_bits = 0;
    memory.written_ranges(words, &mut |part| {
        // Goes block by block, because a part may begin and end anywhere.
        let mut start = part.start;
        while start < part.end {
            let block = start / BLOCK_WORDS;
            let end = part.end.min((block + 1).saturating_mul(BLOCK_WORDS));
            let found = ones(words.get(start..end).unwrap_or_default());
            if found > 0
                && let Some(bit) = blocks.get_mut(block)
            {
                bit.commit(true);
                found_bits += found;
            }
            start = end;
        }
    });
    (found_bits == set_bits).then_some(blocks)
}

/// Returns the number of set bits. O(words).
pub(super) fn ones(words: &[u64]) -> u64 {
    count_slots(|| words.len());
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::memory::UnknownMemory;

    /// A memory of which only these parts were written to.
    #[derive(Clone, Copy)]
    struct WrittenRanges<'p>(&'p [Range<usize>]);

    impl Memory for WrittenRanges<'_> {
        fn written_ranges(self, _: &[u64], visit: &mut dyn FnMut(Range<usize>)) {
            self.0.iter().cloned().for_each(visit);
        }
    }

    const SIZE_BYTES: usize = 5 << 20;
    const WORDS: usize = SIZE_BYTES / 8;

    /// Returns the words of a layer with a set bit in each of the `occupied` words, and the number of set bits.
    fn layer(occupied: &[usize]) -> (Vec<u64>, u64) {
        let mut words = vec![0; WORDS];
        occupied.iter().for_each(|word| words[*word] = 0x20);
        (words, occupied.len() as u64)
    }

    #[test]
    fn blocks_without_set_bits_are_clear_if_the_system_reports_written_memory() {
        let (words, set_bits) = layer(&[0, 3 * BLOCK_WORDS + 7, WORDS - 1]);
        let parts = [0..512, 2 * BLOCK_WORDS..4 * BLOCK_WORDS, WORDS - 512..WORDS];
        let occupancy = Occupancy::of(&words, set_bits, WrittenRanges(&parts));
        let block_bytes = BLOCK_WORDS * 8;
        let clear: Vec<usize> = (0..80)
            .filter(|block| occupancy.is_clear(block * block_bytes..(block + 1) * block_bytes))
            .collect();
        let expected: Vec<usize> = (0..80).filter(|block| ![0, 3, 79].contains(block)).collect();
        assert_eq!(clear, expected);
        assert!(occupancy.is_clear(block_bytes..3 * block_bytes));
        assert!(!occupancy.is_clear(block_bytes..3 * block_bytes + 1));
        assert!(!occupancy.is_clear(SIZE_BYTES - 1..SIZE_BYTES));
    }

    #[test]
    fn an_incomplete_report_of_the_system_is_ignored() {
        let (words, set_bits) = layer(&[0, 3 * BLOCK_WORDS + 7]);
        let first_page = 0..512;
        let occupancy = Occupancy::of(&words, set_bits, WrittenRanges(&[first_page]));
        assert!(!occupancy.is_clear(BLOCK_WORDS * 8..2 * BLOCK_WORDS * 8));
    }

    #[test]
    fn only_an_empty_layer_is_clear_if_written_memory_is_unknown() {
        assert!(!Occupancy::of(&[0; SMALL_MAX_WORDS], 0, WrittenRanges(&[])).is_clear(0..1));
        let (words, set_bits) = layer(&[9]);
        assert!(!Occupancy::of(&words, set_bits, UnknownMemory).is_clear(1 << 20..2 << 20));
        let (words, set_bits) = layer(&[]);
        assert!(Occupancy::of(&words, set_bits, UnknownMemory).is_clear(0..SIZE_BYTES));
    }
}
