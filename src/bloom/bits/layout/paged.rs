//! Probes in a few distinct lines of one page: layers of 2 MiB and more.
//!
//! On a large layer the cost of a probe is a page walk and a cache miss, not arithmetic. So an item's probes are
//! confined to a few lines of one page. Part of the format; docs/formats.md specifies it.

use super::{Probing, Spot, set_bit};
use crate::bloom::hash::ItemHash;
use crate::bloom::hash::murmur3::{GOLDEN, multiply_high};

/// Lines of a page.
pub const PAGE_LINES: usize = 64;
/// Words of a line.
const LINE_WORDS: usize = 8;
/// Bits of a line of 64 bytes.
pub const LINE_BITS: u64 = 512;
/// Bits of a page of such lines: 4 KiB.
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

/// A few lines of one page. The probes are split over the lines evenly; the first lines have one more.
///
/// `PER_LINE` is the number of probes of each line, if the compiler is to know it. It then needs no loop over the
/// probes of a line, which would take as long as the probes.
///
/// The struct has three bytes because every layer has one; the division of probes by lines is done once.
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

    /// Returns the number of probes that every line has.
    #[must_use]
    pub const fn per_line(self) -> u8 {
        self.per_line
    }

    /// Returns the number of probes per item.
    #[must_use]
    pub const fn probes(self) -> u32 {
        self.lines as u32 * self.per_line as u32 + self.lines_with_one_more as u32
    }

    /// Returns the same layout for a number of probes per line that the compiler knows.
    #[inline(always)]
    pub(in crate::bloom) const fn with<const PER_LINE: u32>(self) -> Paged<PER_LINE> {
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
pub(in crate::bloom) use with_per_line;

/// A line of the item's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<const PER_LINE: u32> {
    /// The index of the line in the page, below 64.
    pub number: usize,
    /// The word from which the probes are computed.
    pub source: u64,
    /// Whether the line has one probe more than `PER_LINE`.
    pub has_one_more: bool,
}

impl<const PER_LINE: u32> Probing<ItemHash> for Paged<PER_LINE> {
    type Spot = Line<PER_LINE>;

    const SPOTS_BEFORE_BRANCH: usize = 1;
    const CHAIN_SPOTS: u32 = 2;

    #[inline(always)]
    fn region(self, item: ItemHash, regions: usize) -> usize {
        page_index(item, regions)
    }

    #[inline(always)]
    fn first_spots(
        self,
        item: ItemHash,
        _positions: u64,
        count: u32,
    ) -> impl Iterator<Item = Line<PER_LINE>> + Clone {
        let ItemHash { h2, .. } = item;
        // Without the last term, the empty item, whose hash is 0, would have the same bit in every line.
        let word = h2 ^ (h2 >> 29) ^ GOLDEN;
        let multipliers = LINE_MULTIPLIERS.get(..count as usize).unwrap_or_default().iter();
        // An odd step gives distinct lines, for up to 64 of them.
        let (step, with_one_more) = (h2 >> 6 | 1, self.lines_with_one_more.into());
        Lines { multipliers, number: 0, with_one_more, line: h2, step, word }
    }

    #[inline(always)]
    fn spot_count(self) -> u32 {
        self.lines.into()
    }
}

/// An iterator over the lines of an item.
#[derive(Clone, Debug)]
struct Lines<const PER_LINE: u32> {
    /// The multipliers of the remaining lines.
    multipliers: std::slice::Iter<'static, u64>,
    /// The number of lines that were returned.
    number: u32,
    /// The number of lines, the first ones, with one probe more.
    with_one_more: u32,
    /// The index of the next line in the page, modulo the lines of a page.
    line: u64,
    step: u64,
    /// The word from which the probes of all lines are computed.
    word: u64,
}

// This is a named type so that the compiler inlines a step of the loop.
impl<const PER_LINE: u32> Iterator for Lines<PER_LINE> {
    type Item = Line<PER_LINE>;

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the number of a line is below 64")]
    fn next(&mut self) -> Option<Line<PER_LINE>> {
        let multiplier = self.multipliers.next()?;
        let line = Line {
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
pub(in crate::bloom) fn page_index(item: ItemHash, pages: usize) -> usize {
    // The product is below the number of pages.
    usize::try_from(multiply_high(item.h1, pages as u64)).unwrap_or(usize::MAX)
}

/// A page: its lines.
pub type Page = [[u64; LINE_WORDS]; PAGE_LINES];

impl<const PER_LINE: u32> Spot for Line<PER_LINE> {
    type Region = Page;

    #[inline(always)]
    fn regions(words: &[u64]) -> usize {
        lines(words).as_chunks::<PAGE_LINES>().0.len()
    }

    #[inline(always)]
    fn region(words: &[u64], index: usize) -> Option<&Page> {
        lines(words).as_chunks().0.get(index)
    }

    #[inline(always)]
    fn region_mut(words: &mut [u64], index: usize) -> Option<&mut Page> {
        words.as_chunks_mut::<LINE_WORDS>().0.as_chunks_mut().0.get_mut(index)
    }

    /// Reads all probes: a branch on a bit of a half-full line would be mispredicted half the time and would cost more
    /// than all the rest.
    #[inline(always)]
    fn look(self, page: &Page) -> u64 {
        let Some(words) = page.get(self.number) else { return 0 };
        let mut set = 1;
        for probe in 0..PER_LINE {
            set &= self.bit(words, probe);
        }
        if self.has_one_more { set & self.bit(words, PER_LINE) } else { set }
    }

    #[inline(always)]
    fn set(self, page: &mut Page) -> u32 {
        let Some(words) = page.get_mut(self.number) else { return 0 };
        let mut new_bits = 0;
        for probe in 0..PER_LINE {
            new_bits += self.set_in(words, probe);
        }
        if self.has_one_more { new_bits + self.set_in(words, PER_LINE) } else { new_bits }
    }

    #[inline(always)]
    fn word(self, page: &Page) -> Option<&u64> {
        page.get(self.number).map(|[word, ..]| word)
    }
}

impl<const PER_LINE: u32> Line<PER_LINE> {
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

#[inline(always)]
fn lines(words: &[u64]) -> &[[u64; LINE_WORDS]] {
    words.as_chunks().0
}
