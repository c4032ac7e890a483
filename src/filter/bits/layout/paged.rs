//! The layout of everbloom's own large layers: the probes of an item are in a few distinct lines of one page.
//!
//! On a large layer the cost of a probe is a page walk and a cache miss, not arithmetic. So an item's probes are
//! confined to a few lines of one page. The layout is part of the format; docs/formats.md specifies it.

use std::hint::select_unpredictable;

use super::probing::{Line, Probing, Words, WordsMut, set_bit};
use crate::hash::ItemHash;
use crate::hash::murmur3::{GOLDEN, multiply_high};

/// Lines of a page.
pub const PAGE_LINES: usize = 64;
/// Words of a line.
const LINE_WORDS: usize = 8;
/// Words of a page.
pub const PAGE_WORDS: usize = LINE_WORDS * PAGE_LINES;
/// Bits of a line of 64 bytes.
pub const LINE_BITS: u64 = 512;
/// Bits of a page of 4 KiB.
pub const PAGE_BITS: u64 = LINE_BITS * PAGE_LINES as u64;
/// Most probes in one line: one 64-bit word gives seven positions of nine bits.
pub const LINE_PROBES_MAX: u32 = 7;
/// Most lines of a page that hold probes of one item.
pub const LINES_MAX: u8 = 8;

/// One odd multiplier per line of an item: the initial state of SHA-512 (FIPS 180-4, 5.3.5) with the lowest bit set.
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

/// The layout of probes in a few lines of one page. The probes are split evenly over the lines. If the division has a
/// remainder, the first lines have one probe more.
///
/// `PER_LINE` is the number of probes that every line has, as a constant for the code that probes; it is 0 in a stored
/// layout. With the constant the compiler needs no loop over the probes of a line. The loop would take as long as the
/// probes.
///
/// The struct has only three bytes, because every layer has one. It has the quotient and the remainder of probes by
/// lines, so that no probe divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paged<const PER_LINE: u32 = 0> {
    lines: u8,
    per_line: u8,
    lines_with_one_more: u8,
}

impl Paged {
    /// Returns the layout of `probes` probes in `lines` lines, at least one.
    #[must_use]
    pub const fn new(probes: u8, lines: u8) -> Self {
        let lines = if lines == 0 { 1 } else { lines };
        Self { lines, per_line: probes / lines, lines_with_one_more: probes % lines }
    }

    /// Returns the number of lines per item.
    #[must_use]
    pub const fn lines(self) -> u8 {
        self.lines
    }

    /// Returns the number of probes that every line has; the first lines may have one more.
    #[must_use]
    pub const fn per_line(self) -> u8 {
        self.per_line
    }

    /// Returns the number of probes per item.
    #[must_use]
    pub const fn probes(self) -> u32 {
        self.lines as u32 * self.per_line as u32 + self.lines_with_one_more as u32
    }

    /// Returns the same layout with its number of probes per line as the constant `PER_LINE`.
    #[inline(always)]
    pub(crate) const fn with<const PER_LINE: u32>(self) -> Paged<PER_LINE> {
        let Self { lines, per_line, lines_with_one_more } = self;
        Paged { lines, per_line, lines_with_one_more }
    }
}

/// Compiles the same code for each number of probes per line.
macro_rules! with_per_line {
    ($paged:expr, $layout:ident => $body:expr) => {{
        macro_rules! with_probes {
            ($probes:literal) => {{
                let $layout = $paged.with::<$probes>();
                $body
            }};
        }
        match $paged.per_line() {
            0 => with_probes!(0),
            1 => with_probes!(1),
            2 => with_probes!(2),
            3 => with_probes!(3),
            4 => with_probes!(4),
            5 => with_probes!(5),
            6 => with_probes!(6),
            _ => with_probes!(7),
        }
    }};
}
pub(crate) use with_per_line;

impl<const PER_LINE: u32> Probing<ItemHash> for Paged<PER_LINE> {
    type Line = PageLine<PER_LINE>;

    const LINES_BEFORE_BRANCH: usize = 1;
    const CHAIN_LINES: u32 = 2;

    #[inline(always)]
    #[expect(clippy::expect_used, reason = "a paged layer has pages, and the index is below their number")]
    fn page<'w>(self, item: ItemHash, words: Words<'w>) -> &'w [u64] {
        let (first, rest) = (words.first.as_chunks::<PAGE_WORDS>().0, words.rest.as_chunks::<PAGE_WORDS>().0);
        let (is_first, index) = page_place(item, first.len(), rest.len());
        select_unpredictable(is_first, first, rest).get(index).expect("a page")
    }

    #[inline(always)]
    #[expect(clippy::expect_used, reason = "a paged layer has pages, and the index is below their number")]
    fn page_mut<'w>(self, item: ItemHash, words: WordsMut<'w>) -> &'w mut [u64] {
        let WordsMut { first, rest } = words;
        let (first, rest) = (first.as_chunks_mut::<PAGE_WORDS>().0, rest.as_chunks_mut::<PAGE_WORDS>().0);
        let (is_first, index) = page_place(item, first.len(), rest.len());
        select_unpredictable(is_first, first, rest).get_mut(index).expect("a page")
    }

    #[inline(always)]
    fn first_lines(
        self,
        item: ItemHash,
        _: u64,
        count: u32,
    ) -> impl Iterator<Item = PageLine<PER_LINE>> + Clone {
        let ItemHash { h2, .. } = item;
        PageLines {
            multipliers: LINE_MULTIPLIERS.get(..count as usize).unwrap_or_default().iter(),
            number: 0,
            with_one_more: self.lines_with_one_more.into(),
            line: h2,
            // An odd step gives distinct lines, for up to 64 of them.
            step: h2 >> 6 | 1,
            // Without the last term, the empty item, whose hash is 0, would have the same bit in every line.
            word: h2 ^ (h2 >> 29) ^ GOLDEN,
        }
    }

    #[inline(always)]
    fn line_count(self) -> u32 {
        self.lines.into()
    }
}

/// An iterator over the lines of an item.
#[derive(Clone, Debug)]
struct PageLines<const PER_LINE: u32> {
    /// The multipliers of the remaining lines.
    multipliers: std::slice::Iter<'static, u64>,
    /// The number of lines that were returned.
    number: u32,
    /// How many lines, from the first one on, have one probe more.
    with_one_more: u32,
    /// The index of the next line in the page, modulo the lines of a page.
    line: u64,
    step: u64,
    /// The word from which the probes of all lines are computed.
    word: u64,
}

// This is a named type so that the compiler inlines a step of the loop.
impl<const PER_LINE: u32> Iterator for PageLines<PER_LINE> {
    type Item = PageLine<PER_LINE>;

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the number of a line is below 64")]
    fn next(&mut self) -> Option<PageLine<PER_LINE>> {
        let multiplier = self.multipliers.next()?;
        let line = PageLine {
            number: (self.line % PAGE_LINES as u64) as usize,
            source: self.word.wrapping_mul(*multiplier),
            has_one_more: self.number < self.with_one_more,
        };
        self.number = self.number.wrapping_add(1);
        self.line = self.line.wrapping_add(self.step);
        Some(line)
    }
}

/// Returns the index of an item's page among `pages` pages.
#[inline(always)]
pub(crate) fn page_index(item: ItemHash, pages: usize) -> usize {
    // The product is below the number of pages.
    usize::try_from(multiply_high(item.h1, pages as u64)).unwrap_or(usize::MAX)
}

/// Returns whether an item's page is one of the `first` pages or of the `rest`, and its index there. The two are chosen
/// without a branch: it would be mispredicted for one item in four or five.
#[inline(always)]
fn page_place(item: ItemHash, first: usize, rest: usize) -> (bool, usize) {
    let index = page_index(item, first.wrapping_add(rest));
    let is_first = index < first;
    (is_first, select_unpredictable(is_first, index, index.wrapping_sub(first)))
}

/// The probes of an item in one line of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLine<const PER_LINE: u32> {
    /// The index of the line in the page, below 64.
    number: usize,
    /// The word from which the probes are computed.
    source: u64,
    /// Whether the line has one probe more than `PER_LINE`.
    has_one_more: bool,
}

impl<const PER_LINE: u32> Line for PageLine<PER_LINE> {
    /// Reads all probes: a branch on a bit of a half-full line would be mispredicted half the time and would cost more
    /// than reading all probes.
    #[inline(always)]
    fn look(self, page: &[u64]) -> u64 {
        let Some(words) = page.as_chunks().0.get(self.number) else { return 0 };
        let mut set = 1;
        for probe in 0..PER_LINE {
            set &= self.bit(words, probe);
        }
        if self.has_one_more { set & self.bit(words, PER_LINE) } else { set }
    }

    #[inline(always)]
    fn set(self, page: &mut [u64]) -> u32 {
        let Some(words) = page.as_chunks_mut().0.get_mut(self.number) else { return 0 };
        let mut new_bits = 0;
        for probe in 0..PER_LINE {
            new_bits += self.set_in(words, probe);
        }
        if self.has_one_more { new_bits + self.set_in(words, PER_LINE) } else { new_bits }
    }

    #[inline(always)]
    fn word(self, page: &[u64]) -> Option<&u64> {
        page.as_chunks::<LINE_WORDS>().0.get(self.number).map(|[word, ..]| word)
    }
}

impl<const PER_LINE: u32> PageLine<PER_LINE> {
    /// Returns a probe of the line: the index of its word and the bit in the word. The top nine bits of the source are
    /// for the first probe, the next nine for the next one: three for the word, six for the bit.
    #[inline(always)]
    fn probe(self, probe: u32) -> (usize, u64) {
        let source = self.source << (9 * probe);
        ((source >> 61) as usize, source >> 55 & 63)
    }

    #[inline(always)]
    fn bit(self, words: &[u64; LINE_WORDS], probe: u32) -> u64 {
        let (word, bit) = self.probe(probe);
        if let Some(word) = words.get(word) { word >> bit } else { 0 }
    }

    #[inline(always)]
    fn set_in(self, words: &mut [u64; LINE_WORDS], probe: u32) -> u32 {
        let (word, bit) = self.probe(probe);
        if let Some(word) = words.get_mut(word) { set_bit(word, bit) } else { 0 }
    }
}
