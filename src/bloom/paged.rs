//! The probes of an item in a paged array: a few distinct lines of one page, a few bits of each line.
//!
//! Part of the format, as docs/formats.md says it in words.

use std::ops::Range;

use super::bits::PAGE_WORDS;
use super::hash::{ItemHash, multiply_high};
use super::layout::{GOLDEN, LINES_MAX, PAGE_LINES};
use super::prefetch::{Part, Prefetch};

/// Words of 64 bits in a line of 64 bytes.
const LINE_WORDS: usize = 8;

/// One odd multiplier for each line of an item: the initial state of SHA-512 (FIPS 180-4, 5.3.5), lowest bit set.
const LINE_MULTIPLIERS: [u64; LINES_MAX as usize] = [
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// How the probes of every item are dealt out to its lines: evenly, the first lines taking one more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deal {
    lines: usize,
    few: u32,
    lines_with_more: usize,
}

impl Deal {
    pub(super) fn new(probes: u32, lines: u8) -> Self {
        let count = u32::from(lines.max(1));
        // A remainder of a division by a byte fits any integer.
        let lines_with_more = usize::try_from(probes % count).unwrap_or(0);
        Self { lines: lines.max(1).into(), few: probes / count, lines_with_more }
    }

    /// The lines of [`Part::First`] only.
    pub(super) fn first(self) -> Self {
        Self { lines: self.lines.min(Part::FIRST as usize), ..self }
    }

    /// Multiplier and probes of every line.
    fn lines(self) -> impl Iterator<Item = (u64, u32)> {
        let multipliers = LINE_MULTIPLIERS.iter().take(self.lines).enumerate();
        multipliers
            .map(move |(line, multiplier)| (*multiplier, self.few + u32::from(line < self.lines_with_more)))
    }
}

/// The words of one page.
type Page = [u64; PAGE_WORDS];

/// The page of an item in an array of `pages`.
pub(super) fn page_index(item: ItemHash, pages: usize) -> usize {
    // Below the number of pages.
    usize::try_from(multiply_high(item.h1, pages as u64)).unwrap_or(usize::MAX)
}

/// From which the lines of an item and the bits in them are drawn, within its page.
#[derive(Clone, Copy, Debug)]
pub(super) struct InPage {
    /// The first line, in the lowest six bits.
    start: u64,
    /// The odd step from one line to the next: distinct for up to 64 lines.
    step: u64,
    /// From which each line multiplies the word that its bits are cut from.
    word: u64,
}

impl InPage {
    pub(super) const fn of(item: ItemHash) -> Self {
        Self {
            start: item.h2,
            step: item.h2 >> 6 | 1,
            // The last term keeps the empty item, whose hash is 0, from the same bit in every line.
            word: item.h2 ^ (item.h2 >> 29) ^ GOLDEN,
        }
    }

    /// Index in the page of the first word of each of the item's lines, from line `first` on, without end.
    fn line_starts(self, first: u32) -> impl Iterator<Item = usize> {
        let mut line = self.start.wrapping_add(self.step.wrapping_mul(first.into()));
        std::iter::repeat_with(move || {
            let start = (line % PAGE_LINES) as usize * LINE_WORDS;
            line = line.wrapping_add(self.step);
            start
        })
    }

    /// Whether the item's probes are all set, in every line of the deal; looks at all of them.
    ///
    /// A branch on a bit of a half-full line would be mispredicted every other time and cost more than the rest.
    pub(super) fn is_set(self, page: &Page, deal: Deal) -> bool {
        deal.lines()
            .zip(self.line_starts(0))
            .fold(1, |set, (line, start)| set & self.set_in(page, line, start))
            == 1
    }

    /// As [`is_set`](Self::is_set), but ends at the first line that says no.
    pub(super) fn is_set_line_by_line(self, page: &Page, deal: Deal) -> bool {
        deal.lines().zip(self.line_starts(0)).all(|(line, start)| self.set_in(page, line, start) == 1)
    }

    /// 1 when the item's probes in one line are all set, else 0.
    fn set_in(self, page: &Page, line: (u64, u32), start: usize) -> u64 {
        self.places(line).fold(1, |set, (word, bit)| {
            set & (page.get((start + word) % PAGE_WORDS).map_or(0, |word| word >> bit))
        })
    }

    /// Sets the item's probes; answers how many were clear.
    ///
    /// A store makes a line dirty (write-back, copy-on-write while a child saves), so nothing is stored before a line is
    /// found with a clear probe; from then on the item is new, and all is stored without asking.
    pub(super) fn set(self, page: &mut Page, deal: Deal) -> u32 {
        let (mut new_bits, mut is_new) = (0, false);
        for (line, start) in deal.lines().zip(self.line_starts(0)) {
            if !is_new && self.set_in(page, line, start) == 1 {
                continue;
            }
            is_new = true;
            for (word, bit) in self.places(line) {
                if let Some(word) = page.get_mut((start + word) % PAGE_WORDS) {
                    new_bits += u32::from(*word >> bit & 1 == 0);
                    *word |= 1 << bit;
                }
            }
        }
        new_bits
    }

    /// Asks for some of the item's lines.
    pub(super) fn prefetch(self, page: &Page, lines: Range<u32>, prefetch: impl Prefetch) {
        for start in self.line_starts(lines.start).take(lines.len()) {
            if let Some(word) = page.get(start % PAGE_WORDS) {
                prefetch.prefetch(word);
            }
        }
    }

    /// Word of a line and bit of that word, for each of the probes in it: the uppermost nine bits of a word that moves
    /// up by nine from one to the next, three for the word and six for the bit.
    fn places(self, (multiplier, probes): (u64, u32)) -> impl Iterator<Item = (usize, u64)> {
        let mut source = self.word.wrapping_mul(multiplier);
        (0..probes).map(move |_| {
            let place = ((source >> 61) as usize, source >> 55 & 63);
            source <<= 9;
            place
        })
    }
}
