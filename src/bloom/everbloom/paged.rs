//! The probes of an item in a paged array: a few distinct lines of one page, a few bits of each line.
//!
//! Part of the format, as docs/formats.md says it in words.

use std::ops::Range;

use super::hash::{ItemHash, multiply_high};
use super::layout::{GOLDEN, LINES_MAX, PAGE_LINES};
use crate::bloom::bits::{Bits, PAGE_WORDS};
use crate::bloom::group::{ItemSet, subset};
use crate::bloom::prefetch::{Part, Prefetch};

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
    lines: u32,
    few: u32,
    lines_with_more: u32,
}

impl Deal {
    pub(super) fn new(probes: u32, lines: u8) -> Self {
        let lines = u32::from(lines.max(1));
        Self { lines, few: probes / lines, lines_with_more: probes % lines }
    }

    /// The lines of [`Part::First`] only.
    pub(super) fn first(self) -> Self {
        Self { lines: self.lines.min(Part::FIRST), ..self }
    }
}

/// The same code for every number of probes that all lines have at least, as the constant `FEW`: it then has no loop
/// over the probes of a line, which would take as long as the probes. A line has seven at most.
macro_rules! with_few {
    ($deal:expr, $few:ident => $body:expr) => {{
        macro_rules! constant {
            ($number:literal) => {{
                const $few: u32 = $number;
                $body
            }};
        }
        match $deal.few {
            0 => constant!(0),
            1 => constant!(1),
            2 => constant!(2),
            3 => constant!(3),
            4 => constant!(4),
            5 => constant!(5),
            6 => constant!(6),
            _ => constant!(7),
        }
    }};
}

/// Whether the item's probes are all set. Ends at the first line that says no.
pub(super) fn contains(bits: &Bits, deal: Deal, item: ItemHash) -> bool {
    page_of(bits, item)
        .is_some_and(|page| with_few!(deal, FEW => InPage::of(item).is_set_line_by_line::<FEW>(page, deal)))
}

/// One bit for each of the `wanted` items: whether its probes are set in all lines of the deal.
pub(super) fn contained(bits: &Bits, deal: Deal, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
    with_few!(deal, FEW => subset(items, wanted, |item| {
        page_of(bits, item).is_some_and(|page| InPage::of(item).is_set::<FEW>(page, deal))
    }))
}

/// Sets the item's probes; answers how many bits were clear before.
pub(super) fn insert(bits: &mut Bits, deal: Deal, item: ItemHash) -> u32 {
    bits.update_pages(|pages| {
        let page = pages.get_mut(page_index(item, pages.len()));
        page.map_or(0, |page| with_few!(deal, FEW => InPage::of(item).set::<FEW>(page, deal)))
    })
}

/// Asks for some of the item's lines.
pub(super) fn prefetch(bits: &Bits, lines: Range<u32>, item: ItemHash, prefetch: impl Prefetch) {
    if let Some(page) = page_of(bits, item) {
        InPage::of(item).prefetch(page, lines, prefetch);
    }
}

/// The words of one page.
type Page = [u64; PAGE_WORDS];

/// The page of an item. Every item has one in a valid array.
fn page_of(bits: &Bits, item: ItemHash) -> Option<&Page> {
    let pages = bits.pages();
    pages.get(page_index(item, pages.len()))
}

/// The index of an item's page among so many.
fn page_index(item: ItemHash, pages: usize) -> usize {
    // Below the number of pages.
    usize::try_from(multiply_high(item.h1, pages as u64)).unwrap_or(usize::MAX)
}

/// From which the lines of an item and the bits in them are drawn, within its page.
#[derive(Clone, Copy, Debug)]
struct InPage {
    /// The first line, in the lowest six bits.
    start: u64,
    /// The odd step from one line to the next: distinct for up to 64 lines.
    step: u64,
    /// From which each line multiplies the word that its bits are cut from.
    word: u64,
}

impl InPage {
    const fn of(item: ItemHash) -> Self {
        Self {
            start: item.h2,
            step: item.h2 >> 6 | 1,
            // The last term keeps the empty item, whose hash is 0, from the same bit in every line.
            word: item.h2 ^ (item.h2 >> 29) ^ GOLDEN,
        }
    }

    /// Each of the item's lines in the page, from line `first` on, without end.
    fn line_numbers(self, first: u32) -> impl Iterator<Item = usize> {
        let mut line = self.start.wrapping_add(self.step.wrapping_mul(first.into()));
        std::iter::repeat_with(move || {
            let number = (line % PAGE_LINES) as usize;
            line = line.wrapping_add(self.step);
            number
        })
    }

    /// Each of the item's lines: its number in the page, the word that its bits are cut from, and whether it has one bit
    /// more than the others.
    fn lines(self, deal: Deal) -> impl Iterator<Item = (usize, u64, bool)> {
        let multipliers = LINE_MULTIPLIERS.iter().take(deal.lines as usize).zip(0..);
        multipliers.zip(self.line_numbers(0)).map(move |((multiplier, index), number)| {
            (number, self.word.wrapping_mul(*multiplier), index < deal.lines_with_more)
        })
    }

    /// Whether the item's probes are all set, in every line of the deal; looks at all of them.
    ///
    /// A branch on a bit of a half-full line would be mispredicted every other time and cost more than the rest.
    fn is_set<const FEW: u32>(self, page: &Page, deal: Deal) -> bool {
        self.lines(deal).fold(1, |set, line| set & in_line::<FEW>(page, line)) & 1 == 1
    }

    /// As [`is_set`](Self::is_set), but ends at the first line that says no.
    fn is_set_line_by_line<const FEW: u32>(self, page: &Page, deal: Deal) -> bool {
        self.lines(deal).all(|line| in_line::<FEW>(page, line) & 1 == 1)
    }

    /// Sets the item's probes; answers how many were clear.
    ///
    /// A store makes a line dirty (write-back, copy-on-write while a child saves), so nothing is stored before a line
    /// is found with a clear probe; from then on the item is new, and all is stored without asking.
    fn set<const FEW: u32>(self, page: &mut Page, deal: Deal) -> u32 {
        let (mut new_bits, mut is_new) = (0, false);
        for (number, source, more) in self.lines(deal) {
            let Some(line) = page.as_chunks_mut().0.get_mut(number) else { continue };
            if !is_new && line_is_set::<FEW>(line, source, more) & 1 == 1 {
                continue;
            }
            is_new = true;
            // The probes that were set already, which costs less to count.
            let mut known_bits = (0..FEW).fold(0, |known, probe| known + set_bit(line, source, probe));
            if more {
                known_bits += set_bit(line, source, FEW);
            }
            new_bits += FEW + u32::from(more) - known_bits;
        }
        new_bits
    }

    /// Asks for some of the item's lines.
    fn prefetch(self, page: &Page, lines: Range<u32>, prefetch: impl Prefetch) {
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
fn in_line<const FEW: u32>(page: &Page, (number, source, more): (usize, u64, bool)) -> u64 {
    page_line(page, number).map_or(0, |line| line_is_set::<FEW>(line, source, more))
}

/// In the lowest place 1 when the probes in one line are all set, else 0; other bits above it.
fn line_is_set<const FEW: u32>(line: &Line, source: u64, more: bool) -> u64 {
    let bit = |probe| {
        let (word, bit) = place(source, probe);
        line.get(word).map_or(0, |word| word >> bit)
    };
    let set = (0..FEW).fold(1, |set, probe| set & bit(probe));
    if more { set & bit(FEW) } else { set }
}

/// Sets the bit of a probe; answers how many bits were set before, 1 or 0.
fn set_bit(line: &mut Line, source: u64, probe: u32) -> u32 {
    let (word, bit) = place(source, probe);
    let Some(word) = line.get_mut(word) else { return 1 };
    let was_set = (*word >> bit & 1) as u32;
    *word |= 1 << bit;
    was_set
}

/// The word of a line that a probe is in, and the bit of that word: the uppermost nine bits of `source` for the first
/// probe of a line, the next nine for the next one; three of them for the word, six for the bit.
fn place(source: u64, probe: u32) -> (usize, u64) {
    let source = source << (9 * probe);
    ((source >> 61) as usize, source >> 55 & 63)
}
