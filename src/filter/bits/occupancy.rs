//! Finds the pages of a large layer, or of a large array of a cuckoo filter, that have a set bit, without touching the
//! others.
//!
//! Memory that was never written to takes no space, but reading it takes a page fault per 4 KiB. Without this module,
//! saving or copying a filter of 10 GB with one item takes seconds. The system knows which memory was written to. Its
//! answer is used only if that memory contains all set bits of the layer. A cuckoo filter needs the pages in commands too,
//! for which such a query takes too long. It notes them when it writes to them.

use std::ops::Range;

use bitvec::prelude::{BitSlice, Lsb0};

use super::layout::PAGE_WORDS;
use super::pieces::in_one;
use crate::memory::{Memory, OutOfMemory};
use crate::work::count_slots;

/// Bytes of a page of a layer, which is a page of memory too.
pub const PAGE_BYTES: usize = PAGE_WORDS * 8;

/// Largest layer, in words, that is read without a query to the system: 4 MiB take less than a millisecond.
const SMALL_MAX_WORDS: usize = (4 << 20) / 8;
/// Largest array, in words, whose pages are not noted: 64 KiB.
const UNNOTED_MAX_WORDS: usize = (64 << 10) / 8;
/// Least share of a layer, in percent, that must never have been written to. With less, most pages have a set bit, and
/// examining them saves little.
const UNTOUCHED_MIN_PERCENT: usize = 25;

/// The pages of a layer that may have a set bit.
#[derive(Debug)]
pub struct Occupancy {
    /// One bit per page, clear if the page has no set bit; empty if nothing is known. Plain words, because a `BitBox`
    /// decodes its address and length at every access, and adds to cuckoo filters note their pages.
    pages: Box<[u64]>,
}

impl Occupancy {
    /// Examines the words of a layer in two pieces, the first of which has whole pages or all words, and of which
    /// `set_bits` bits are set. O(bytes that were written to), and O(pages) for the query to the system.
    #[must_use]
    pub fn of(pieces: [&[u64]; 2], set_bits: u64, memory: impl Memory) -> Self {
        Self { pages: occupied_pages(pieces, set_bits, memory).unwrap_or_default() }
    }

    /// Returns the occupancy of clear words. Their owner notes those that it sets. Of a small array nothing is known.
    pub(crate) fn of_clear(words: usize) -> Result<Self, OutOfMemory> {
        let pages = if words > UNNOTED_MAX_WORDS { clear_pages(words)? } else { Box::default() };
        Ok(Self { pages })
    }

    /// Returns the bytes of memory that [`of_clear`](Self::of_clear) takes for so many words.
    pub(crate) const fn noted_bytes(words: u64) -> u64 {
        if words > UNNOTED_MAX_WORDS as u64 { words.div_ceil(64 * PAGE_WORDS as u64) * 8 } else { 0 }
    }

    /// Notes that a word may have a set bit. O(1).
    #[inline(always)]
    pub(crate) fn note(&mut self, word: usize) {
        note_page(&mut self.pages, word / PAGE_WORDS);
    }

    /// Returns the block of the allocator; an empty one if nothing is known.
    pub(crate) fn allocation(&self) -> &[u64] {
        &self.pages
    }

    /// Returns the words from `from` on to the end of their page, of the first page that may have a set bit; `None` at the
    /// end of the `words` words. O(pages / 64).
    pub(crate) fn next_words(&self, from: usize, words: usize) -> Option<Range<usize>> {
        let page = from / PAGE_WORDS;
        let page =
            if self.pages.is_empty() { page } else { page.saturating_add(self.clear_pages_from(page)?) };
        let start = from.max(page.saturating_mul(PAGE_WORDS));
        let end = words.min((page + 1).saturating_mul(PAGE_WORDS));
        (start < end).then_some(start..end)
    }

    /// Returns the pages of words in two pieces that may have a set bit, in order, each with the index of its first word.
    /// Does not touch the memory of other pages. O(words that may be set).
    #[expect(clippy::expect_used, reason = "each piece but the last has whole pages")]
    pub(crate) fn pages<'w>(&'w self, pieces: [&'w [u64]; 2]) -> impl Iterator<Item = (usize, &'w [u64])> {
        let (mut start, words) = (0, word_count(pieces));
        std::iter::from_fn(move || {
            let page = self.next_words(start, words)?;
            start = page.end;
            Some((page.start, in_one(pieces, page).expect("a page in one piece")))
        })
    }

    /// Returns the number of clear pages from one on, before the next page that may have a set bit. O(pages / 64).
    fn clear_pages_from(&self, page: usize) -> Option<usize> {
        let from = self.bits().get(page..)?;
        let clear = from.first_one();
        count_slots(|| clear.unwrap_or(from.len()) / 64);
        clear
    }

    fn bits(&self) -> &BitSlice<u64, Lsb0> {
        BitSlice::from_slice(&self.pages)
    }

    fn is_clear_page(&self, number: usize) -> bool {
        self.bits().get(number).is_some_and(|is_occupied| !*is_occupied)
    }

    /// Returns whether the bytes are known to be clear; false if nothing is known.
    #[must_use]
    pub fn is_clear(&self, bytes: Range<usize>) -> bool {
        let mut pages = bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES);
        pages.all(|page| self.is_clear_page(page))
    }
}

/// Returns one bit per page that has a set bit; `None` if that is not known or not worth a query.
fn occupied_pages(pieces: [&[u64]; 2], set_bits: u64, memory: impl Memory) -> Option<Box<[u64]>> {
    let words = word_count(pieces);
    if words <= SMALL_MAX_WORDS {
        return None;
    }
    let mut pages = clear_pages(words).ok()?;
    if set_bits == 0 {
        return Some(pages);
    }
    let pieces = || pieces.into_iter().filter(|piece| !piece.is_empty());
    let mut written_words = 0;
    pieces().for_each(|piece| memory.written_ranges(piece, &mut |part| written_words += part.len()));
    if written_words / 100 > words / 100 * (100 - UNTOUCHED_MIN_PERCENT) / 100 {
        return None;
    }
    let (mut found_bits, mut first_page) = (0, 0);
    for piece in pieces() {
        memory.written_ranges(piece, &mut |part| {
            // Goes page by page, because a part may begin and end anywhere.
            let mut start = part.start;
            while start < part.end {
                let page = start / PAGE_WORDS;
                let end = part.end.min((page + 1).saturating_mul(PAGE_WORDS));
                let found = ones(piece.get(start..end).unwrap_or_default());
                if found > 0 {
                    note_page(&mut pages, first_page + page);
                    found_bits += found;
                }
                start = end;
            }
        });
        first_page += piece.len() / PAGE_WORDS;
    }
    (found_bits == set_bits).then_some(pages)
}

fn word_count(pieces: [&[u64]; 2]) -> usize {
    pieces.into_iter().map(<[u64]>::len).sum()
}

/// Returns one clear bit for each page of so many words, and more up to a whole word.
fn clear_pages(words: usize) -> Result<Box<[u64]>, OutOfMemory> {
    let words = words.div_ceil(PAGE_WORDS).div_ceil(64);
    bytemuck::try_zeroed_slice_box(words).map_err(|()| OutOfMemory)
}

/// Sets the bit of a page, if there is one.
#[inline(always)]
fn note_page(pages: &mut [u64], page: usize) {
    if let Some(word) = pages.get_mut(page / 64) {
        *word |= 1 << (page % 64);
    }
}

/// Returns the number of set bits. O(words).
pub(super) fn ones(words: &[u64]) -> u64 {
    count_slots(|| words.len());
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::UnknownMemory;

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
    fn pages_without_set_bits_are_clear_if_the_system_reports_written_memory() {
        let (words, set_bits) = layer(&[0, 3 * PAGE_WORDS + 7, WORDS - 1]);
        let parts = [0..512, 2 * PAGE_WORDS..4 * PAGE_WORDS, WORDS - 512..WORDS];
        let occupancy = Occupancy::of([&words, &[]], set_bits, WrittenRanges(&parts));
        let clear: Vec<usize> =
            (0..1280).filter(|page| occupancy.is_clear(page * PAGE_BYTES..(page + 1) * PAGE_BYTES)).collect();
        let expected: Vec<usize> = (0..1280).filter(|page| ![0, 3, 1279].contains(page)).collect();
        assert_eq!(clear, expected);
        assert!(occupancy.is_clear(PAGE_BYTES..3 * PAGE_BYTES));
        assert!(!occupancy.is_clear(PAGE_BYTES..3 * PAGE_BYTES + 1));
        assert!(!occupancy.is_clear(SIZE_BYTES - 1..SIZE_BYTES));
        let pages: Vec<usize> = occupancy.pages([&words, &[]]).map(|(start, _)| start / PAGE_WORDS).collect();
        assert_eq!(pages, [0, 3, 1279]);
    }

    #[test]
    fn noted_words_are_in_pages_that_are_not_clear() {
        let mut occupancy = Occupancy::of_clear(WORDS).unwrap();
        assert!(occupancy.is_clear(0..SIZE_BYTES) && occupancy.next_words(0, WORDS).is_none());
        [WORDS - 1, 70 * PAGE_WORDS, 70 * PAGE_WORDS + 511].into_iter().for_each(|word| occupancy.note(word));
        assert!(
            occupancy.is_clear(0..70 * PAGE_BYTES) && !occupancy.is_clear(71 * PAGE_BYTES - 1..SIZE_BYTES)
        );
        assert_eq!(occupancy.next_words(5, WORDS), Some(70 * PAGE_WORDS..71 * PAGE_WORDS));
        assert_eq!(occupancy.next_words(71 * PAGE_WORDS - 1, WORDS).map(|words| words.len()), Some(1));
        assert_eq!(occupancy.next_words(71 * PAGE_WORDS, WORDS), Some(WORDS - PAGE_WORDS..WORDS));
        assert_eq!(occupancy.next_words(WORDS, WORDS), None);
        for words in
            [1, UNNOTED_MAX_WORDS, UNNOTED_MAX_WORDS + 1, 64 * PAGE_WORDS, 64 * PAGE_WORDS + 1, WORDS]
        {
            let occupancy = Occupancy::of_clear(words).unwrap();
            assert_eq!(size_of_val(occupancy.allocation()) as u64, Occupancy::noted_bytes(words as u64));
            assert_eq!(occupancy.is_clear(0..1), words > UNNOTED_MAX_WORDS);
        }
    }

    #[test]
    fn all_pages_of_a_small_array_may_have_set_bits() {
        let (occupancy, words) = (Occupancy::of_clear(1300).unwrap(), [0; 1300]);
        let pages: Vec<_> = occupancy.pages([&words, &[]]).map(|(start, page)| (start, page.len())).collect();
        assert_eq!(pages, [(0, 512), (512, 512), (1024, 276)]);
    }

    #[test]
    fn an_incomplete_report_of_the_system_is_ignored() {
        let (words, set_bits) = layer(&[0, 3 * PAGE_WORDS + 7]);
        let first_page = 0..512;
        let occupancy = Occupancy::of([&words, &[]], set_bits, WrittenRanges(&[first_page]));
        assert!(!occupancy.is_clear(PAGE_BYTES..2 * PAGE_BYTES));
    }

    #[test]
    fn only_an_empty_layer_is_clear_if_written_memory_is_unknown() {
        assert!(!Occupancy::of([&[0; SMALL_MAX_WORDS], &[]], 0, WrittenRanges(&[])).is_clear(0..1));
        let (words, set_bits) = layer(&[9]);
        assert!(!Occupancy::of([&words, &[]], set_bits, UnknownMemory).is_clear(1 << 20..2 << 20));
        let (words, set_bits) = layer(&[]);
        assert!(Occupancy::of([&words, &[]], set_bits, UnknownMemory).is_clear(0..SIZE_BYTES));
    }
}
