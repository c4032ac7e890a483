//! Where an item's probes lie in a bit array. Part of the format: a layout never changes, new ones are added.
//!
//! On a large array the cost of a probe is a page walk and a cache miss, not arithmetic, so large layers confine an
//! item to a few lines of one page; small layers spread the probes over the whole array, which keeps the promised
//! error rate from one item up.

use super::bits::{Bits, LINE_WORDS, PAGE_BYTES};
use super::hash::ItemHash;
use super::prefetch::{Part, Prefetch};

/// Lines of 64 bytes in a page of 4 KiB.
pub const PAGE_LINES: u64 = 64;
/// Bits of a page.
pub const PAGE_BITS: u64 = PAGE_BYTES as u64 * 8;
/// Bits of a line.
pub const LINE_BITS: u64 = 512;
/// Most probes that fall into one line: seven positions of nine bits are cut from one 64-bit word.
pub const LINE_PROBES_MAX: u32 = 7;
/// Most lines of a page that hold probes of one item.
pub const LINES_MAX: u8 = 8;

/// How a layer places the probes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Anywhere in the array: position i is the high half of `x * G^i * bits`, with `x = h1 ^ rotl(h2, 29) ^ G`.
    ///
    /// A multiply chain instead of double hashing, which has only about bits^2 different probe sets and breaks the
    /// promised rate on small filters (Dillinger and Manolios, "Bloom Filters in Probabilistic Verification", 2004).
    Scattered,
    /// In `lines` distinct lines of one page; the probes are dealt out evenly, the first lines taking one more.
    Paged {
        /// Lines per item, 1 to [`LINES_MAX`].
        lines: u8,
    },
}

impl Layout {
    /// Whether all of the item's probes are set, or all those of the first or the other lines. O(probes), ends at the
    /// first line or probe that says no.
    #[must_use]
    pub fn contains(self, bits: &Bits, probes: u32, item: ItemHash, part: Part) -> bool {
        match self {
            Self::Scattered => {
                part.of(scattered_positions(bits.len(), probes, item)).all(|position| bits.get(position))
            }
            Self::Paged { lines } => {
                let page = Page::of(item, bits.len());
                part.of(roles(probes, lines)).all(|(role, probes)| {
                    bits.line(page.line(role)).is_some_and(|line| page.is_set(line, role, probes))
                })
            }
        }
    }

    /// Sets the item's probes; answers how many bits were clear before. O(probes).
    pub fn insert(self, bits: &mut Bits, probes: u32, item: ItemHash) -> u32 {
        match self {
            Self::Scattered => scattered_positions(bits.len(), probes, item)
                .map(|position| u32::from(bits.set(position)))
                .sum(),
            Self::Paged { lines } => {
                let page = Page::of(item, bits.len());
                roles(probes, lines)
                    .map(|(role, probes)| {
                        bits.update_line(page.line(role), |line| page.set(line, role, probes))
                    })
                    .sum()
            }
        }
    }

    /// Asks for the memory of the item's probes: of the first two probes or lines, of the others, or of all.
    pub fn prefetch(self, bits: &Bits, probes: u32, item: ItemHash, part: Part, prefetch: impl Prefetch) {
        match self {
            Self::Scattered => {
                let positions = scattered_positions(bits.len(), probes, item);
                part.of(positions).for_each(|position| bits.prefetch(position, prefetch));
            }
            Self::Paged { lines } => {
                let page = Page::of(item, bits.len());
                let lines = (0..u32::from(lines)).map(|role| page.line(role) as u64);
                part.of(lines).for_each(|line| bits.prefetch(line * LINE_BITS, prefetch));
            }
        }
    }

    /// Pieces of memory that an item touches.
    #[must_use]
    pub fn touched_lines(self, probes: u32) -> u32 {
        match self {
            Self::Scattered => probes,
            Self::Paged { lines } => lines.into(),
        }
    }
}

/// Odd multiplier of the scattered positions: 2^64 divided by the golden ratio (Knuth, TAOCP vol. 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The positions of a scattered item, in order. Uniform over any number of bits, a power of two or not.
fn scattered_positions(size_bits: u64, probes: u32, item: ItemHash) -> impl Iterator<Item = u64> {
    // The hash of the empty item is 0, which no multiplication spreads: without the last term its positions would all
    // be 0, and it would be a false positive in every other filter.
    let mut word = item.h1 ^ item.h2.rotate_left(29) ^ GOLDEN;
    (0..probes).map(move |_| {
        let position = multiply_high(word, size_bits);
        word = word.wrapping_mul(GOLDEN);
        position
    })
}

/// Number and probes of every line of an item: the first ones take one probe more when they do not divide evenly.
fn roles(probes: u32, lines: u8) -> impl Iterator<Item = (u32, u32)> {
    let lines = u32::from(lines.max(1));
    let (few, lines_with_more) = (probes / lines, probes % lines);
    (0..lines).map(move |role| (role, few + u32::from(role < lines_with_more)))
}

/// The page of one item and what its lines are drawn from.
struct Page {
    first_line: u64,
    /// Line of role 0 and the odd step from one role's line to the next: distinct for up to 64 roles.
    start: u64,
    step: u64,
    /// From which each role multiplies the word that its positions are cut from.
    word: u64,
}

/// One odd multiplier per role: the initial state of SHA-512 (FIPS 180-4, 5.3.5), lowest bit set.
const ROLE_MULTIPLIERS: [u64; LINES_MAX as usize] = [
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

impl Page {
    fn of(item: ItemHash, size_bits: u64) -> Self {
        Self {
            first_line: multiply_high(item.h1, size_bits / PAGE_BITS) * PAGE_LINES,
            start: item.h2,
            step: item.h2 >> 6 | 1,
            // The last term keeps the empty item, whose hash is 0, from the same bit in every line.
            word: item.h2 ^ (item.h2 >> 29) ^ GOLDEN,
        }
    }

    /// Line of `role` in the whole array.
    fn line(&self, role: u32) -> usize {
        let in_page = self.start.wrapping_add(self.step.wrapping_mul(u64::from(role))) % PAGE_LINES;
        // A position on a 32-bit host fits as its array does.
        usize::try_from(self.first_line + in_page).unwrap_or(usize::MAX)
    }

    /// The positions of `role` in its line.
    fn positions(&self, role: u32, probes: u32) -> impl Iterator<Item = u64> {
        let multiplier = ROLE_MULTIPLIERS.get(role as usize).copied().unwrap_or(GOLDEN);
        let mut word = self.word.wrapping_mul(multiplier);
        (0..probes).map(move |_| {
            let position = word >> 55;
            word <<= 9;
            position
        })
    }

    /// Whether the probes of `role` are all set in its line. No early exit: a line is one access, and a branch per
    /// probe costs more than the test.
    fn is_set(&self, line: &[u64; LINE_WORDS], role: u32, probes: u32) -> bool {
        let set = self
            .positions(role, probes)
            .fold(1, |set, position| set & (word_of(line, position) >> (position % 64)));
        set == 1
    }

    /// Sets the probes of `role` in its line; answers how many were clear.
    fn set(&self, line: &mut [u64; LINE_WORDS], role: u32, probes: u32) -> u32 {
        let mut new_bits = 0;
        for position in self.positions(role, probes) {
            let mask = 1 << (position % 64);
            if let Some(word) = line.get_mut(word_index(position)) {
                // A store makes the line dirty (write-back, copy-on-write while a child saves): only where it changes.
                if *word & mask == 0 {
                    *word |= mask;
                    new_bits += 1;
                }
            }
        }
        new_bits
    }
}

/// Index of the word that holds `position` of a line; always below [`LINE_WORDS`].
const fn word_index(position: u64) -> usize {
    ((position / 64) as usize) % LINE_WORDS
}

fn word_of(line: &[u64; LINE_WORDS], position: u64) -> u64 {
    line.get(word_index(position)).copied().unwrap_or(0)
}

/// The high 64 bits of the 128-bit product: maps a uniform `word` to a uniform number below `range`
/// (Lemire, "Fast Random Integer Generation in an Interval", 2019).
const fn multiply_high(word: u64, range: u64) -> u64 {
    ((word as u128 * range as u128) >> 64) as u64
}
