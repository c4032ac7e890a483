//! Cells of one bit.

use super::storage::ones;
use super::{At, Cell, Cells, Found, Measures, Purpose};
use crate::bloom::layout::{LINE_BITS, Line, Page, Position, Spot};
use crate::bloom::window::Moment;

/// Bytes of a memory page. Large layers are laid out in pages.
pub const PAGE_BYTES: usize = 4096;
/// Words of 64 bits in a page.
pub const PAGE_WORDS: usize = PAGE_BYTES / 8;
/// Words of 64 bits in a line.
const LINE_WORDS: usize = 8;
const _: () = assert!(PAGE_BYTES.is_multiple_of(64), "a page is whole lines");

/// One bit per position.
#[derive(Clone, Copy, Debug)]
pub struct Bits;

impl Cell for Bits {
    /// Whether all probes are set, in the lowest bit. The other bits have no meaning.
    type Mask = u64;
    type Mark = ();
    type Line = [u64; LINE_WORDS];

    const LINE_WORDS: usize = LINE_WORDS;
    const MEASURES: Measures = Measures {
        word_positions: 64,
        line_positions: LINE_BITS,
        unit_positions: 64,
        stamp_words: 0,
        columns: 1,
        has_runs: false,
    };
    const WHOLE: u64 = 1;
    const SETS_ONCE: bool = true;
    const IS_TIMED: bool = false;

    #[inline(always)]
    fn is_set(mask: u64) -> bool {
        mask & 1 == 1
    }

    #[inline(always)]
    fn live(_: &[u64], _: usize, _: Moment) -> u64 {
        1
    }

    #[inline(always)]
    fn found(mask: u64, _: &[u64], _: usize, _: Moment) -> Found {
        Found { is_live: Self::is_set(mask), is_current: Self::is_set(mask) }
    }

    #[inline(always)]
    fn mark(_: Moment) {}

    #[inline(always)]
    fn open<S: Spot>(_: &mut [u64], _: &mut [u64], _: usize, _: Moment) -> Option<u64> {
        Some(0)
    }

    #[inline(always)]
    fn lines(words: &[u64]) -> &[Self::Line] {
        words.as_chunks().0
    }

    #[inline(always)]
    fn lines_mut(words: &mut [u64]) -> &mut [Self::Line] {
        words.as_chunks_mut().0
    }

    #[inline(always)]
    fn planes(_: Purpose) -> u32 {
        1
    }

    fn count_set(words: &[u64], _: usize, _: usize) -> u64 {
        ones(words)
    }

    /// Does not touch memory for clear pages of the segment, so a sparse layer stays small.
    fn add_segment(cells: &mut Cells, offset: usize, bytes: &[u8], stamps: &[u8]) -> bool {
        let Ok(size_bytes) = usize::try_from(cells.size_bytes()) else { return false };
        let used_bits = cells.size_bits() % 8;
        let end = offset.checked_add(bytes.len()).filter(|end| *end <= size_bytes && stamps.is_empty());
        let is_last = used_bits != 0 && end == Some(size_bytes);
        if is_last && bytes.last().is_some_and(|last| last >> used_bits != 0) {
            return false;
        }
        let all: &mut [u8] = bytemuck::cast_slice_mut(cells.words_mut());
        let Some(target) = end.and_then(|end| all.get_mut(offset..end)) else { return false };
        let mut new_bits = 0;
        for (to, from) in target.chunks_mut(PAGE_BYTES).zip(bytes.chunks(PAGE_BYTES)) {
            if !is_clear(from) {
                new_bits += set_page(to, from);
            }
        }
        cells.count_set(new_bits);
        true
    }

    fn broken_rule(cells: &Cells) -> Option<&'static str> {
        let used_bits = cells.size_bits() % 64;
        let last = cells.words().last().filter(|_| used_bits != 0);
        last.filter(|last| *last >> used_bits != 0).map(|_| "bits beyond the end")
    }
}

impl At<Position> for Bits {
    #[inline(always)]
    fn look(words: &[u64], Position(position): Position) -> u64 {
        if let Some(word) = words.get(word_index(position)) { word >> (position % 64) } else { 0 }
    }

    #[inline(always)]
    fn set(words: &mut [u64], Position(position): Position, (): ()) -> u32 {
        if let Some(word) = words.get_mut(word_index(position)) { set_bit(word, position % 64) } else { 0 }
    }

    #[inline(always)]
    fn word(words: &[u64], Position(position): Position, _: usize) -> Option<&u64> {
        words.get(word_index(position))
    }
}

impl<const PER_LINE: u32> At<Line<PER_LINE>> for Bits {
    #[inline(always)]
    fn look(page: &Page<Self>, line: Line<PER_LINE>) -> u64 {
        if let Some(words) = page.get(line.number) { line.mask(words) } else { 0 }
    }

    #[inline(always)]
    fn set(page: &mut Page<Self>, line: Line<PER_LINE>, (): ()) -> u32 {
        let Some(words) = page.get_mut(line.number) else { return 0 };
        let mut new_bits = 0;
        for probe in 0..PER_LINE {
            new_bits += line.set(words, probe);
        }
        if line.has_one_more { new_bits + line.set(words, PER_LINE) } else { new_bits }
    }

    #[inline(always)]
    fn word(page: &Page<Self>, line: Line<PER_LINE>, _: usize) -> Option<&u64> {
        page.get(line.number).map(|[word, ..]| word)
    }
}

impl<const PER_LINE: u32> Line<PER_LINE> {
    /// Returns a probe of a line of bits: the index of its word and the bit in the word. The top nine bits of the
    /// source are for the first probe, the next nine for the next one: three for the word, six for the bit.
    #[inline(always)]
    pub(super) fn probe(self, probe: u32) -> (usize, u64) {
        let source = self.source << (9 * probe);
        ((source >> 61) as usize, source >> 55 & 63)
    }

    /// Returns in the lowest bit whether all probes are set in a line of bits. Reads all of them: a branch on a bit
    /// of a half-full line would be mispredicted half the time and would cost more than all the rest.
    #[inline(always)]
    pub(super) fn mask(self, words: &[u64; LINE_WORDS]) -> u64 {
        let mut set = 1;
        for probe in 0..PER_LINE {
            set &= self.bit(words, probe);
        }
        if self.has_one_more { set & self.bit(words, PER_LINE) } else { set }
    }

    #[inline(always)]
    fn bit(self, words: &[u64; LINE_WORDS], probe: u32) -> u64 {
        let (word, bit) = self.probe(probe);
        if let Some(word) = words.get(word) { word >> bit } else { 0 }
    }

    #[inline(always)]
    fn set(self, words: &mut [u64; LINE_WORDS], probe: u32) -> u32 {
        let (word, bit) = self.probe(probe);
        if let Some(word) = words.get_mut(word) { set_bit(word, bit) } else { 0 }
    }
}

/// Sets a bit. Returns 1 if it was clear, else 0.
#[inline(always)]
fn set_bit(word: &mut u64, bit: u64) -> u32 {
    let is_clear = (!*word >> bit & 1) as u32;
    *word |= 1 << bit;
    is_clear
}

/// Returns the index of the word with the bit. A position that no array of this machine can have gives an index
/// beyond every array.
#[inline(always)]
fn word_index(position: u64) -> usize {
    usize::try_from(position / 64).unwrap_or(usize::MAX)
}

/// Sets in `to` the bits of `from`, which has the same length. Returns how many of them were clear.
fn set_page(to: &mut [u8], from: &[u8]) -> u64 {
    let ((words, rest), (from_words, from_rest)) = (to.as_chunks_mut::<8>(), from.as_chunks::<8>());
    let mut new_bits = 0;
    for (to, from) in words.iter_mut().zip(from_words) {
        let (before, added) = (u64::from_le_bytes(*to), u64::from_le_bytes(*from));
        new_bits += u64::from((added & !before).count_ones());
        *to = (before | added).to_le_bytes();
    }
    for (to, from) in rest.iter_mut().zip(from_rest) {
        new_bits += u64::from((from & !*to).count_ones());
        *to |= from;
    }
    new_bits
}

/// Returns whether no bit is set. Stops at the first set bit. O(bytes).
#[must_use]
pub fn is_clear(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().all(|word| *word == [0; 8]) && rest.iter().all(|byte| *byte == 0)
}
