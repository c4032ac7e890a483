//! Where an item's probes lie in a bit array. Part of the format: a layout never changes, new ones are added.
//!
//! On a large array the cost of a probe is a page walk and a cache miss, not arithmetic, so large layers confine an
//! item to a few lines of one page; small layers spread the probes over the whole array, which keeps the promised
//! error rate from one item up.

use super::hash::{ItemHash, multiply_high};
use super::paged::{self, Deal};
use crate::bloom::bits::{Bits, PAGE_BYTES};
use crate::bloom::group::{ItemSet, subset};
use crate::bloom::prefetch::{Part, Prefetch};

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
    /// Whether all of the item's probes are set. O(probes), ends at the first line or probe that says no.
    #[must_use]
    #[inline(always)]
    pub fn contains(self, bits: &Bits, probes: u32, item: ItemHash) -> bool {
        match self {
            Self::Scattered => bits.reader().all_set(scattered_positions(bits.len(), probes, item)),
            Self::Paged { lines } => paged::contains(bits, Deal::new(probes, lines), item),
        }
    }

    /// One bit for each of the `wanted` items: whether all of its probes are set. O(items * probes).
    #[must_use]
    pub(super) fn contained(self, bits: &Bits, probes: u32, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
        match self {
            Self::Scattered => contained_scattered(bits, probes, items, wanted),
            Self::Paged { lines } => paged::contained(bits, Deal::new(probes, lines), items, wanted),
        }
    }

    /// As `contained`, for the probes of [`Part::First`]. O(items).
    #[must_use]
    pub(super) fn begun(self, bits: &Bits, probes: u32, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
        match self {
            // The positions are drawn one from the other, so the first of them are those of an item with fewer probes.
            Self::Scattered => contained_scattered(bits, probes.min(Part::FIRST), items, wanted),
            Self::Paged { lines } => paged::contained(bits, Deal::new(probes, lines).first(), items, wanted),
        }
    }

    /// Sets the item's probes; answers how many bits were clear before. O(probes).
    pub fn insert(self, bits: &mut Bits, probes: u32, item: ItemHash) -> u32 {
        match self {
            Self::Scattered => bits.set_all(scattered_positions(bits.len(), probes, item)),
            Self::Paged { lines } => paged::insert(bits, Deal::new(probes, lines), item),
        }
    }

    /// Asks for the memory of the item's probes: of the first two probes or lines, of the others, or of all.
    #[inline(always)]
    pub fn prefetch(self, bits: &Bits, probes: u32, item: ItemHash, part: Part, prefetch: impl Prefetch) {
        match self {
            Self::Scattered => {
                let positions = scattered_positions(bits.len(), probes, item);
                bits.prefetch_each(positions, part.of(probes), prefetch);
            }
            Self::Paged { lines } => paged::prefetch(bits, part.of(lines.into()), item, prefetch),
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
pub(super) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The positions of a scattered item, in order. Uniform over any number of bits, a power of two or not.
fn scattered_positions(size_bits: u64, probes: u32, item: ItemHash) -> impl Iterator<Item = u64> + Clone {
    // The hash of the empty item is 0, which no multiplication spreads: without the last term its positions would all
    // be 0, and it would be a false positive in every other filter.
    let mut word = item.h1 ^ item.h2.rotate_left(29) ^ GOLDEN;
    (0..probes).map(move |_| {
        let position = multiply_high(word, size_bits);
        word = word.wrapping_mul(GOLDEN);
        position
    })
}

fn contained_scattered(bits: &Bits, probes: u32, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
    let (reader, size_bits) = (bits.reader(), bits.len());
    subset(items, wanted, |item| reader.all_set_at_hand(scattered_positions(size_bits, probes, item)))
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "of numbers known to be small")]
mod tests {
    use super::*;

    /// The hashes of the empty item and of `hello`.
    const EMPTY: ItemHash = ItemHash { h1: 0, h2: 0 };
    const HELLO: ItemHash = ItemHash { h1: 0xcbd8_a7b3_41bd_9b02, h2: 0x5b1e_906a_48ae_1d19 };

    /// The positions by the words of docs/formats.md, in wide arithmetic and one at a time.
    fn positions_by_the_book(layout: Layout, size_bits: u64, probes: u32, item: ItemHash) -> Vec<u64> {
        let low = |wide: u128| wide & u128::from(u64::MAX);
        let (h1, h2, golden) = (u128::from(item.h1), u128::from(item.h2), 0x9e37_79b9_7f4a_7c15);
        let mut positions = Vec::new();
        match layout {
            Layout::Scattered => {
                let mut x = h1 ^ (low(h2 << 29) + (h2 >> 35)) ^ golden;
                for _ in 0..probes {
                    positions.push((x * u128::from(size_bits)) >> 64);
                    x = low(x * golden);
                }
            }
            Layout::Paged { lines } => {
                let lines = u128::from(lines);
                let page = (h1 * u128::from(size_bits / 32_768)) >> 64;
                for role in 0..lines {
                    let line = (h2 + role * ((h2 >> 6) | 1)) % 64;
                    let multiplier = u128::from(SHA_512_INITIAL[role as usize] | 1);
                    let x = low((h2 ^ (h2 >> 29) ^ golden) * multiplier);
                    let more = u128::from(role < u128::from(probes) % lines);
                    for probe in 0..u128::from(probes) / lines + more {
                        let in_line = (x >> (55 - 9 * probe)) % 512;
                        positions.push(page * 32_768 + line * 512 + in_line);
                    }
                }
            }
        }
        positions.into_iter().map(|position| position as u64).collect()
    }

    /// FIPS 180-4, section 5.3.5.
    const SHA_512_INITIAL: [u64; 8] = [
        0x6a09_e667_f3bc_c908,
        0xbb67_ae85_84ca_a73b,
        0x3c6e_f372_fe94_f82b,
        0xa54f_f53a_5f1d_36f1,
        0x510e_527f_ade6_82d1,
        0x9b05_688c_2b3e_6c1f,
        0x1f83_d9ab_fb41_bd6b,
        0x5be0_cd19_137e_2179,
    ];

    /// The bits that inserting `item` into an empty array sets, in ascending order.
    fn inserted(layout: Layout, size_bits: u64, probes: u32, item: ItemHash) -> Vec<u64> {
        let mut bits = Bits::try_zeroed(size_bits).unwrap();
        let new_bits = layout.insert(&mut bits, probes, item);
        assert_eq!(answers(layout, &bits, probes, item), (true, 1, 1));
        let set: Vec<u64> = (0..size_bits).filter(|position| bits.get(*position)).collect();
        assert_eq!(u64::from(new_bits), bits.set_bits());
        assert_eq!(set.len() as u64, bits.set_bits());
        set
    }

    /// What the three ways of asking say.
    fn answers(layout: Layout, bits: &Bits, probes: u32, item: ItemHash) -> (bool, ItemSet, ItemSet) {
        let (contained, begun) =
            (layout.contained(bits, probes, &[item], 1), layout.begun(bits, probes, &[item], 1));
        (layout.contains(bits, probes, item), contained, begun)
    }

    fn sorted(mut positions: Vec<u64>) -> Vec<u64> {
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    #[test]
    fn positions_are_those_of_the_first_release() {
        // Computed apart, by the words of docs/formats.md. A change here makes every stored filter unreadable.
        let pages = |pages| pages * PAGE_BITS;
        let known: [(Layout, u64, u32, ItemHash, &[u64]); 7] = [
            (Layout::Scattered, 1024, 7, EMPTY, &[632, 893, 385, 869, 184, 303, 379]),
            (Layout::Scattered, 1024, 7, HELLO, &[115, 85, 991, 895, 526, 476, 783]),
            (
                Layout::Scattered,
                960_832,
                7,
                HELLO,
                &[108_757, 79_767, 930_441, 840_454, 493_707, 446_943, 734_783],
            ),
            (Layout::Paged { lines: 2 }, pages(516), 7, EMPTY, &[399, 267, 299, 80, 701, 694, 811]),
            (
                Layout::Paged { lines: 2 },
                pages(516),
                7,
                HELLO,
                &[13_447_711, 13_447_812, 13_448_033, 13_447_890, 13_442_533, 13_442_110, 13_442_409],
            ),
            (
                Layout::Paged { lines: 6 },
                pages(516),
                20,
                EMPTY,
                &[
                    399, 267, 299, 80, 701, 694, 811, 826, 1209, 1279, 1183, 1650, 1799, 2029, 2301, 2178,
                    2162, 2667, 2998, 3020,
                ],
            ),
            (Layout::Paged { lines: 1 }, pages(1), 4, EMPTY, &[399, 267, 299, 80]),
        ];
        for (layout, size_bits, probes, item, positions) in known {
            assert_eq!(inserted(layout, size_bits, probes, item), sorted(positions.to_vec()), "{layout:?}");
        }
    }

    #[test]
    fn positions_agree_with_the_document() {
        let seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut word = seed;
        for round in 0..400u32 {
            let mut next = || {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                word
            };
            let item = ItemHash { h1: next(), h2: next() };
            let lines = (round % u32::from(LINES_MAX)) as u8 + 1;
            let (layout, size_bits, probes_max) = if round % 3 == 0 {
                (Layout::Scattered, (next() % 300 + 1) * 64, 50)
            } else {
                (Layout::Paged { lines }, (next() % 3 + 1) * PAGE_BITS, u32::from(lines) * LINE_PROBES_MAX)
            };
            let probes = (next() % u64::from(probes_max)) as u32 + 1;
            let context = format!(
                "seed {seed:#x}, round {round}: {layout:?}, {size_bits} bits, {probes} probes, {item:?}"
            );
            let positions = positions_by_the_book(layout, size_bits, probes, item);
            assert_eq!(inserted(layout, size_bits, probes, item), sorted(positions.clone()), "{context}");
            // Of each probe alone the item is absent, and it is found out at once if the probe is among the first.
            let first = match layout {
                Layout::Scattered => 2,
                Layout::Paged { lines } => {
                    probes.div_ceil(lines.into()) + (probes - 1).div_ceil(lines.into())
                }
            };
            for absent in &positions {
                let mut bits = Bits::try_zeroed(size_bits).unwrap();
                positions.iter().filter(|position| *position != absent).for_each(|position| {
                    bits.set(*position);
                });
                let is_first = positions.iter().take(first as usize).any(|position| position == absent);
                let expected = (false, 0, ItemSet::from(!is_first));
                assert_eq!(answers(layout, &bits, probes, item), expected, "{context}, without {absent}");
            }
        }
    }

    #[test]
    fn the_empty_item_is_spread_like_any_other() {
        // Its hash is 0; by multiplication alone all its positions would be 0.
        for (layout, size_bits) in [(Layout::Scattered, 1 << 20), (Layout::Paged { lines: 2 }, PAGE_BITS)] {
            assert_eq!(inserted(layout, size_bits, 14, EMPTY).len(), 14, "{layout:?}");
        }
    }
}
