//! Within one page: the lines of an item, and its bits in them.
//!
//! Part of the format, as docs/formats.md says it in words.

use std::ops::Range;

use super::hash::{GOLDEN, ItemHash};
use super::layout::{LINES_MAX, PAGE_LINES};
use crate::bloom::bits::PAGE_WORDS;
use crate::bloom::prefetch::{Part, Prefetch};

/// Words of 64 bits in a line of 64 bytes.
const LINE_WORDS: usize = 8;

/// One odd multiplier for each line of an item: the initial state of SHA-512 (FIPS 180-4, 5.3.5), lowest bit
/// set.
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
pub(in crate::bloom) struct Deal {
    pub(in crate::bloom) lines: u32,
    /// Probes that all lines have.
    pub(in crate::bloom) few: u32,
    /// Lines that have one more.
    pub(in crate::bloom) lines_with_more: u32,
}

impl Deal {
    /// The lines of [`Part::First`] only.
    pub(in crate::bloom) fn first(self) -> Self {
        Self { lines: self.lines.min(Part::FIRST), ..self }
    }
}

/// The words of one page.
pub(in crate::bloom) type Page = [u64; PAGE_WORDS];

/// From which the lines of an item and the bits in them are drawn, within its page.
#[derive(Clone, Copy, Debug)]
pub(in crate::bloom) struct InPage {
    /// The first line, in the lowest six bits.
    start: u64,
    /// The odd step from one line to the next: distinct for up to 64 lines.
    step: u64,
    /// From which each line multiplies the word that its bits are cut from.
    word: u64,
}

impl InPage {
    pub(in crate::bloom) const fn of(item: ItemHash) -> Self {
        Self {
            start: item.h2,
            step: item.h2 >> 6 | 1,
            // The last term keeps the empty item, whose hash is 0, from the same bit in every line.
            word: item.h2 ^ (item.h2 >> 29) ^ GOLDEN,
        }
    }

    /// Each of the item's lines in the page, from line `first` on, without end.
    pub(in crate::bloom) fn line_numbers(self, first: u32) -> impl Iterator<Item = usize> + Clone {
        let mut line = self.start.wrapping_add(self.step.wrapping_mul(first.into()));
        std::iter::repeat_with(move || {
            let number = (line % PAGE_LINES) as usize;
            line = line.wrapping_add(self.step);
            number
        })
    }

    /// Each of the item's lines: its number in the page, the word that its bits are cut from, and whether it
    /// has one bit more than the others.
    pub(in crate::bloom) fn lines(self, deal: Deal) -> impl Iterator<Item = (usize, u64, bool)> + Clone {
        let multipliers = LINE_MULTIPLIERS.iter().take(deal.lines as usize).zip(0..);
        multipliers.zip(self.line_numbers(0)).map(move |((multiplier, index), number)| {
            (number, self.word.wrapping_mul(*multiplier), index < deal.lines_with_more)
        })
    }

    /// Whether the item's probes are all set, in every line of the deal; looks at all of them.
    ///
    /// A branch on a bit of a half-full line would be mispredicted every other time and cost more than the
    /// rest.
    pub(in crate::bloom) fn is_set<const FEW: u32>(self, page: &Page, deal: Deal) -> bool {
        self.lines(deal).fold(1, |set, line| set & page_line_is_set::<FEW>(page, line)) & 1 == 1
    }

    /// As [`is_set`](Self::is_set), but ends at the first line that says no.
    pub(in crate::bloom) fn is_set_line_by_line<const FEW: u32>(self, page: &Page, deal: Deal) -> bool {
        self.lines(deal).all(|line| page_line_is_set::<FEW>(page, line) & 1 == 1)
    }

    /// Sets the item's probes; answers how many were clear.
    ///
    /// A store makes a line dirty (write-back, copy-on-write while a child saves), so nothing is stored
    /// before a line is found with a clear probe; from then on the item is new, and all is stored without
    /// asking.
    pub(in crate::bloom) fn set<const FEW: u32>(self, page: &mut Page, deal: Deal) -> u32 {
        let (mut new_bits, mut is_new) = (0u32, false);
        for (number, source, more) in self.lines(deal) {
            let Some(line) = page.as_chunks_mut().0.get_mut(number) else { continue };
            if !is_new && line_is_set::<FEW>(line, source, more) & 1 == 1 {
                continue;
            }
            is_new = true;
            // The probes that were set already, which costs less to count. Wrapping, for there are 50 at most
            // and every instruction here is one per probe.
            let count = |known: u32, was_set| known.wrapping_add(was_set);
            let mut known_bits = (0..FEW).fold(0, |known, probe| count(known, set_bit(line, source, probe)));
            if more {
                known_bits = count(known_bits, set_bit(line, source, FEW));
            }
            new_bits = count(new_bits, (FEW + u32::from(more)).wrapping_sub(known_bits));
        }
        new_bits
    }

    /// Asks for some of the item's lines.
    pub(in crate::bloom) fn prefetch(self, page: &Page, lines: Range<u32>, prefetch: impl Prefetch) {
        for number in self.line_numbers(lines.start).take(lines.len()) {
            if let Some([word, ..]) = page_line(page, number) {
                prefetch.prefetch(word);
            }
        }
    }
}

/// The words of one line.
type Line = [u64; LINE_WORDS];

/// The line with this number; every number of an item's lines is that of one.
fn page_line(page: &Page, number: usize) -> Option<&Line> {
    page.as_chunks().0.get(number)
}

/// As [`line_is_set`], for a line that is still to be found in the page.
fn page_line_is_set<const FEW: u32>(page: &Page, (number, source, more): (usize, u64, bool)) -> u64 {
    page_line(page, number).map_or(0, |line| line_is_set::<FEW>(line, source, more))
}

/// In the lowest place 1 when the probes in one line are all set, else 0; other bits above it.
pub(in crate::bloom) fn line_is_set<const FEW: u32>(line: &Line, source: u64, more: bool) -> u64 {
    let bit = |probe| {
        let (word, bit) = in_line(source, probe);
        line.get(word).map_or(0, |word| word >> bit)
    };
    let set = (0..FEW).fold(1, |set, probe| set & bit(probe));
    if more { set & bit(FEW) } else { set }
}

/// Sets the bit of a probe; answers how many bits were set before, 1 or 0.
fn set_bit(line: &mut Line, source: u64, probe: u32) -> u32 {
    let (word, bit) = in_line(source, probe);
    let Some(word) = line.get_mut(word) else { return 1 };
    let was_set = (*word >> bit & 1) as u32;
    *word |= 1 << bit;
    was_set
}

/// The word of a line that a probe is in, and the bit of that word: the uppermost nine bits of `source` for
/// the first probe of a line, the next nine for the next one; three of them for the word, six for the bit.
pub(in crate::bloom) fn in_line(source: u64, probe: u32) -> (usize, u64) {
    let source = source << (9 * probe);
    ((source >> 61) as usize, source >> 55 & 63)
}
