//! The placement of a layer of everbloom's own kind: one of two.

use super::hash::ItemHash;
use super::layout::Layout;
use super::paged::Paged;
use super::scattered::Scattered;
use super::shape::LayerShape;
use super::sizing;
use crate::bloom::bits::Bits;
use crate::bloom::estimate;
use crate::bloom::group::{ItemSet, members};
use crate::bloom::layer::Layer;
use crate::bloom::placement::{LayerPlan, Placement, Probes};
use crate::bloom::prefetch::{Part, Prefetch};

/// How a layer of everbloom's own kind places probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probing {
    /// Anywhere in the array.
    Scattered(Scattered),
    /// In a few lines of one page.
    Paged(Paged),
}

/// The same expression for whichever placement it is.
macro_rules! each_placement {
    ($probing:expr, $placement:ident => $body:expr) => {
        match $probing {
            Probing::Scattered($placement) => $body,
            Probing::Paged($placement) => $body,
        }
    };
}

impl Probing {
    /// What never changes about a layer of this placement.
    #[must_use]
    pub fn shape(self, size_bits: u64, capacity_items: u64) -> LayerShape {
        let layout = match self {
            Self::Scattered(_) => Layout::Scattered,
            Self::Paged(paged) => Layout::Paged { lines: paged.lines() },
        };
        LayerShape { layout, probes: self.probes(), size_bits, capacity_items }
    }

    /// Distinct items that an array of so many cells has met, from the set ones. O(probes).
    #[must_use]
    pub fn items_met(self, set_cells: u64, cells: u64) -> f64 {
        match self {
            Self::Scattered(scattered) => estimate::items_met(set_cells, cells, scattered.probes()),
            Self::Paged(paged) => sizing::items_met(set_cells, cells, paged.probes(), paged.lines()),
        }
    }
}

impl Probes for Probing {
    type Storage = Bits;

    fn probes(&self) -> u32 {
        each_placement!(self, placement => placement.probes())
    }

    fn touched_lines(&self) -> u32 {
        each_placement!(self, placement => placement.touched_lines())
    }

    fn estimated_items(&self, bits: &Bits) -> f64 {
        self.items_met(bits.set_bits(), bits.len())
    }

    fn error_rate_of(&self, set_cells: u64, cells: u64) -> f64 {
        match self {
            Self::Scattered(scattered) => scattered.error_rate_of(set_cells, cells),
            Self::Paged(paged) => {
                let items = self.items_met(set_cells, cells);
                sizing::error_rate_now(items, set_cells, cells, paged.probes(), paged.lines())
            }
        }
    }
}

impl Placement<ItemHash> for Probing {
    #[inline(always)]
    fn contains(&self, bits: &Bits, item: ItemHash) -> bool {
        each_placement!(self, placement => placement.contains(bits, item))
    }

    fn contains_each(&self, bits: &Bits, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
        each_placement!(self, placement => placement.contains_each(bits, items, wanted))
    }

    fn first_probes_set(&self, bits: &Bits, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
        each_placement!(self, placement => placement.first_probes_set(bits, items, wanted))
    }

    fn insert(&self, bits: &mut Bits, item: ItemHash) -> u32 {
        each_placement!(self, placement => placement.insert(bits, item))
    }

    #[inline(never)]
    fn insert_each(&self, bits: &mut Bits, items: &[ItemHash]) -> ItemSet {
        each_placement!(self, placement => placement.insert_each(bits, items))
    }

    #[inline(always)]
    fn prefetch(&self, bits: &Bits, item: ItemHash, part: Part, prefetch: impl Prefetch) {
        each_placement!(self, placement => placement.prefetch(bits, item, part, prefetch));
    }

    #[inline(never)]
    fn prefetch_each(
        &self,
        bits: &Bits,
        items: &[ItemHash],
        wanted: ItemSet,
        part: Part,
        prefetch: impl Prefetch,
    ) {
        let items = members(items, wanted).map(|(_, item)| item);
        // A loop for each part, which then has not to find out for every item what the part is.
        match part {
            Part::First => items.for_each(|item| self.prefetch(bits, item, Part::First, prefetch)),
            Part::Rest => items.for_each(|item| self.prefetch(bits, item, Part::Rest, prefetch)),
            Part::All => items.for_each(|item| self.prefetch(bits, item, Part::All, prefetch)),
        }
    }
}

impl From<LayerShape> for LayerPlan<Probing> {
    /// Of a valid shape; the probes of any other are cut off at 255.
    fn from(shape: LayerShape) -> Self {
        let probes = u8::try_from(shape.probes).unwrap_or(u8::MAX);
        let placement = match shape.layout {
            Layout::Scattered => Probing::Scattered(Scattered::new(probes)),
            Layout::Paged { lines } => Probing::Paged(Paged::new(probes, lines)),
        };
        Self { placement, size_bits: shape.size_bits, capacity_items: shape.capacity_items, has_head: false }
    }
}

impl Layer<Probing> {
    /// What never changes about the layer.
    #[must_use]
    pub fn shape(&self) -> LayerShape {
        self.placement().shape(self.bits().len(), self.capacity_items())
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "of numbers known to be small")]
mod tests {
    use super::super::layout::{LINE_PROBES_MAX, LINES_MAX, PAGE_BITS};
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

    fn probing(layout: Layout, probes: u32) -> Probing {
        LayerPlan::from(LayerShape { layout, probes, size_bits: 0, capacity_items: 0 }).placement
    }

    /// The bits that inserting `item` into an empty array sets, in ascending order.
    fn inserted(layout: Layout, size_bits: u64, probes: u32, item: ItemHash) -> Vec<u64> {
        let mut bits = Bits::try_zeroed(size_bits).unwrap();
        let new_bits = probing(layout, probes).insert(&mut bits, item);
        assert_eq!(answers(layout, &bits, probes, item), (true, 1, 1));
        let set: Vec<u64> = (0..size_bits).filter(|position| bits.get(*position)).collect();
        assert_eq!(u64::from(new_bits), bits.set_bits());
        assert_eq!(set.len() as u64, bits.set_bits());
        set
    }

    /// What the three ways of asking say.
    fn answers(layout: Layout, bits: &Bits, probes: u32, item: ItemHash) -> (bool, ItemSet, ItemSet) {
        let probing = probing(layout, probes);
        let (contained, begun) =
            (probing.contains_each(bits, &[item], 1), probing.first_probes_set(bits, &[item], 1));
        (probing.contains(bits, item), contained, begun)
    }

    fn sorted(mut positions: Vec<u64>) -> Vec<u64> {
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    #[test]
    fn positions_are_those_of_the_first_release() {
        // Computed apart, by the words of docs/formats.md. A change here makes every stored filter
        // unreadable.
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
            // Of each probe alone the item is absent, and it is found out at once if the probe is among the
            // first.
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
