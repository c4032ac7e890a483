//! How probes look at an array and set its bits: by words, for here speed decides.

use std::ops::Range;

use super::array::Bits;
use super::load::PAGE_WORDS;
use crate::bloom::group::ItemSet;
use crate::bloom::prefetch::Prefetch;

impl Bits {
    /// The array for many reads in a row.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        Reader(self.words())
    }

    /// The whole pages of the array.
    #[must_use]
    pub(in crate::bloom) fn pages(&self) -> &[[u64; PAGE_WORDS]] {
        self.words().as_chunks().0
    }

    /// Sets the bits at `positions`, all of them inside the array, as many times [`set`](Self::set); answers
    /// how many were clear before.
    #[inline(always)]
    pub fn set_all(&mut self, positions: impl Iterator<Item = u64> + Clone) -> u32 {
        let new_bits = set_in(self.words_mut(), positions);
        self.count.add(new_bits.into());
        new_bits
    }

    /// [`set_all`](Self::set_all) for each item of a group; answers those that had a clear bit.
    #[inline(always)]
    pub(in crate::bloom) fn set_each<P: Iterator<Item = u64> + Clone>(
        &mut self,
        items: impl Iterator<Item = P>,
    ) -> ItemSet {
        let words = self.words_mut();
        let (mut new, mut new_bits) = (0, 0u64);
        for (index, positions) in (0u32..).zip(items) {
            let bits = set_in(words, positions);
            new |= ItemSet::from(bits != 0).wrapping_shl(index);
            new_bits = new_bits.wrapping_add(bits.into());
        }
        self.count.add(new_bits);
        new
    }

    /// Lets `update` set bits of whole pages, and count those that were clear.
    pub(in crate::bloom) fn update_pages<N>(
        &mut self,
        update: impl FnOnce(&mut [[u64; PAGE_WORDS]]) -> N,
    ) -> N
    where
        N: Copy + Into<u64>,
    {
        let new_bits = update(self.words_mut().as_chunks_mut().0);
        self.count.add(new_bits.into());
        new_bits
    }

    /// Asks for the memory of those of the `positions` that have an index in `part`.
    pub(in crate::bloom) fn prefetch_each(
        &self,
        mut positions: impl Iterator<Item = u64>,
        part: Range<u32>,
        prefetch: impl Prefetch,
    ) {
        // By hand: `skip` would ask for every element whether it is still to be skipped.
        for _ in 0..part.start {
            let _ = positions.next();
        }
        let words = self.words();
        positions.take(part.len()).for_each(|position| {
            if let Some(word) = words.get(word_index(position)) {
                prefetch.prefetch(word);
            }
        });
    }
}

/// Sets the bits at `positions`; answers how many were clear before.
///
/// Whether a bit of a half-full array is set is a coin toss, and a branch on it is mispredicted every other time: so
/// some are looked at before the first branch, and if one is clear all are set without asking.
#[inline(always)]
fn set_in(words: &mut [u64], positions: impl Iterator<Item = u64> + Clone) -> u32 {
    let (reader, mut seen) = (Reader(words), positions.clone());
    if reader.all_set_at_hand(seen.by_ref().take(TELLING_PROBES)) && reader.all_set_at_hand(seen) {
        return 0;
    }
    // The bits that were set already cost less to count than those that were clear. Of at most a few thousand probes.
    let (mut probes, mut known_bits) = (0u32, 0u64);
    for position in positions {
        debug_assert!(word_index(position) < words.len(), "position {position} of {} words", words.len());
        if let Some(word) = words.get_mut(word_index(position)) {
            known_bits = known_bits.wrapping_add(*word >> (position % 64) & 1);
            *word |= 1 << (position % 64);
            probes = probes.wrapping_add(1);
        }
    }
    probes.saturating_sub(u32::try_from(known_bits).unwrap_or(probes))
}

/// The words of a bit array, found once for many reads.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u64]);

/// Bits that tell most new items: in a full array seven of eight.
const TELLING_PROBES: usize = 3;

impl Reader<'_> {
    /// As [`Bits::get`]: bits beyond the end of the last word are clear.
    #[must_use]
    pub fn get(self, position: u64) -> bool {
        self.bit(position) & 1 == 1
    }

    /// Whether the bits at `positions` are all set. Ends at the first that is not, so it waits for no more
    /// memory than it needs.
    #[must_use]
    pub fn all_set(self, mut positions: impl Iterator<Item = u64>) -> bool {
        positions.all(|position| self.get(position))
    }

    /// As [`all_set`](Self::all_set), for a few dozen bits at most that are in the caches or on their way
    /// there: then a branch per bit, mispredicted as often as the filter is full, costs more than looking at
    /// all of them.
    #[must_use]
    pub fn all_set_at_hand(self, positions: impl Iterator<Item = u64>) -> bool {
        positions.fold(1, |set, position| set & self.bit(position)) & 1 == 1
    }

    /// The bit in the lowest place, others above it.
    fn bit(self, position: u64) -> u64 {
        self.0.get(word_index(position)).map_or(0, |word| word >> (position % 64))
    }
}

/// Index of the word that holds the bit; beyond every array for a position that no array of this machine has.
fn word_index(position: u64) -> usize {
    usize::try_from(position / 64).unwrap_or(usize::MAX)
}
