//! The probes of an item in a layer that counts: where a layer of everbloom's own kind would place them.

use super::counters::Counters;
use super::line::{LINE_WORDS, Planes, count_down, count_up, first_plane, place};
use crate::bloom::everbloom::layout;
use crate::bloom::everbloom::page::{Deal, InPage, in_line, line_is_set};
use crate::bloom::everbloom::paged::{Paged, page_index, with_few};
use crate::bloom::everbloom::scattered::positions;
use crate::bloom::everbloom::sizing::full_bits;
use crate::bloom::everbloom::{ItemHash, LayerShape, Probing};
use crate::bloom::group::{ItemSet, subset};
use crate::bloom::limits::LAYER_OCCURRENCES_MAX;
use crate::bloom::placement::{Placement, Probes};
use crate::bloom::prefetch::{Part, Prefetch};
use crate::bloom::storage::Storage;

/// Lines of a page.
const PAGE_LINES: usize = 64;
const _: () = assert!(PAGE_LINES as u64 == layout::PAGE_LINES);

/// How a layer that counts places probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedProbing {
    probing: Probing,
    /// Counters above 0 from which on the layer is full, however few items it counts.
    full_cells: u64,
}

/// The planes of the lines of one page.
type Page = [Planes; PAGE_LINES];

impl CountedProbing {
    /// Returns the placement of a layer of that shape, whose positions are those of `probing`.
    #[must_use]
    pub fn new(probing: Probing, shape: &LayerShape) -> Self {
        Self { probing, full_cells: full_bits(shape, FULL_DEVIATIONS) }
    }

    /// Where the positions are.
    #[must_use]
    pub const fn probing(self) -> Probing {
        self.probing
    }

    /// Counts an item's counters down, those that are full excepted. Returns false, having changed nothing, where one of
    /// them is lower than the item alone would have made it: then the item is not there. O(probes).
    pub fn remove(&self, counters: &mut Counters, item: ItemHash) -> bool {
        if !self.contains(counters, item) {
            return false;
        }
        let set_before = counters.set_bits();
        let is_removed = self.count_down(counters, item);
        // The item is certainly gone where one of its counters is 0 now.
        if counters.set_bits() < set_before {
            counters.distinct_items = counters.distinct_items.saturating_sub(1);
        }
        is_removed
    }

    fn count_down(&self, counters: &mut Counters, item: ItemHash) -> bool {
        let positions_count = counters.positions();
        counters.update(|lines, set| match self.probing {
            Probing::Scattered(_) => {
                let cells = positions(positions_count, self.probes(), item).map(place);
                remove(lines, set, cells)
            }
            Probing::Paged(paged) => {
                let Some(page) = page_mut(lines, item) else { return false };
                remove(page, set, cells_in_page(paged.deal(), item))
            }
        })
    }

    /// Asks for the memory that a change of the item's counters touches, in so many planes. O(probes).
    pub(super) fn prefetch_planes(
        &self,
        counters: &Counters,
        item: ItemHash,
        planes: usize,
        prefetch: impl Prefetch,
    ) {
        let ask = |line: &Planes, word: usize| {
            for plane in 0..planes {
                if let Some(word) = line.get(plane * LINE_WORDS + word) {
                    prefetch.prefetch(word);
                }
            }
        };
        match self.probing {
            Probing::Scattered(_) => {
                for (line, word, _) in positions(counters.positions(), self.probes(), item).map(place) {
                    if let Some(line) = counters.lines().get(line) {
                        ask(line, word);
                    }
                }
            }
            Probing::Paged(paged) => {
                let Some(page) = page_of(counters, item) else { return };
                for number in InPage::of(item).line_numbers(0).take(paged.lines().into()) {
                    if let Some(line) = page.get(number) {
                        ask(line, 0);
                    }
                }
            }
        }
    }
}

/// Standard deviations by which a layer at its capacity may have more counters above 0 than expected. Chance exceeds them
/// in one layer of three million, so that no layer is full before it has taken its capacity.
const FULL_DEVIATIONS: f64 = 5.0;

/// Counts cells down, or none of them. A cell that is named twice is counted down twice.
fn remove(
    lines: &mut [Planes],
    set: &mut u64,
    cells: impl Iterator<Item = (usize, usize, u64)> + Clone,
) -> bool {
    for (done, (line, word, mask)) in cells.clone().enumerate() {
        let Some(is_clear) = lines.get_mut(line).and_then(|planes| count_down(planes, word, mask)) else {
            // What was counted down was not full, and so is not when it is counted up again.
            for (line, word, mask) in cells.take(done) {
                let was_clear = lines.get_mut(line).is_some_and(|planes| count_up(planes, word, mask));
                *set = set.saturating_add(was_clear.into());
            }
            return false;
        };
        *set = set.saturating_sub(is_clear.into());
    }
    true
}

/// The cells of an item in its page: line, word, bit.
fn cells_in_page(deal: Deal, item: ItemHash) -> impl Iterator<Item = (usize, usize, u64)> + Clone {
    InPage::of(item).lines(deal).flat_map(move |(number, source, more)| {
        (0..deal.few + u32::from(more)).map(move |probe| {
            let (word, bit) = in_line(source, probe);
            (number, word, 1 << bit)
        })
    })
}

/// The page of an item. Every item has one in a valid array.
fn page_of(counters: &Counters, item: ItemHash) -> Option<&Page> {
    let pages: &[Page] = counters.lines().as_chunks().0;
    pages.get(page_index(item, pages.len()))
}

fn page_mut(lines: &mut [Planes], item: ItemHash) -> Option<&mut Page> {
    let pages: &mut [Page] = lines.as_chunks_mut().0;
    pages.get_mut(page_index(item, pages.len()))
}

/// In the lowest place 1 when the item's probes in one line are all set, else 0; other bits above it.
#[inline(always)]
fn is_line_set<const FEW: u32>(page: &Page, (number, source, more): (usize, u64, bool)) -> u64 {
    let line = page.get(number).and_then(first_plane);
    line.map_or(0, |line| line_is_set::<FEW>(line, source, more))
}

#[inline(always)]
fn contains_each(counters: &Counters, deal: Deal, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
    with_few!(deal, FEW => subset(items, wanted, |item| {
        page_of(counters, item).is_some_and(|page| {
            InPage::of(item).lines(deal).fold(1, |set, line| set & is_line_set::<FEW>(page, line)) & 1 == 1
        })
    }))
}

/// As [`contains_each`], for probes anywhere.
#[inline(always)]
fn contains_each_scattered(counters: &Counters, probes: u32, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
    let size = counters.positions();
    subset(items, wanted, |item| {
        positions(size, probes, item).fold(1, |set, position| set & counters.first_bit(position)) & 1 == 1
    })
}

/// Counts the item's counters in one line up; answers how many were 0.
#[inline(always)]
fn count_line<const FEW: u32>(line: &mut Planes, source: u64, more: bool) -> u32 {
    let mut count = |probe| {
        let (word, bit) = in_line(source, probe);
        u32::from(count_up(line, word, 1 << bit))
    };
    let clear = (0..FEW).fold(0, |clear, probe| clear + count(probe));
    if more { clear + count(FEW) } else { clear }
}

impl Probes for CountedProbing {
    type Storage = Counters;

    fn probes(&self) -> u32 {
        self.probing.probes()
    }

    fn touched_lines(&self) -> u32 {
        self.probing.touched_lines()
    }

    /// In each of the planes that an add asks for.
    fn lines_to_add(&self) -> u32 {
        self.touched_lines().saturating_mul(ADD_PLANES)
    }

    /// Returns whether the layer has as many distinct items as it was sized for, or so many counters above 0 that
    /// they would break the promised error rate. The second happens to layers whose items come and go: an item that was
    /// taken for present when it was added, and counters that have ended, stay uncounted when others are deleted.
    fn is_full(&self, counters: &Counters, _items: u64, capacity_items: u64) -> bool {
        counters.distinct_items >= capacity_items || counters.set_bits() >= self.full_cells
    }

    fn most_items(&self, _: &Counters) -> u64 {
        LAYER_OCCURRENCES_MAX
    }

    fn cells(&self, counters: &Counters) -> u64 {
        counters.positions()
    }

    fn estimated_items(&self, counters: &Counters) -> f64 {
        self.probing.items_met(counters.set_bits(), counters.positions())
    }

    fn error_rate_of(&self, set_cells: u64, cells: u64) -> f64 {
        self.probing.error_rate_of(set_cells, cells)
    }
}

impl Placement<ItemHash> for CountedProbing {
    #[inline(always)]
    fn contains(&self, counters: &Counters, item: ItemHash) -> bool {
        match self.probing {
            Probing::Scattered(_) => {
                let mut positions = positions(counters.positions(), self.probes(), item);
                positions.all(|position| counters.first_bit(position) & 1 == 1)
            }
            Probing::Paged(paged) => {
                let deal = paged.deal();
                page_of(counters, item).is_some_and(|page| {
                    with_few!(deal, FEW => {
                        InPage::of(item).lines(deal).all(|line| is_line_set::<FEW>(page, line) & 1 == 1)
                    })
                })
            }
        }
    }

    fn contains_each(&self, counters: &Counters, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
        match self.probing {
            Probing::Scattered(_) => contains_each_scattered(counters, self.probes(), items, wanted),
            Probing::Paged(paged) => contains_each(counters, paged.deal(), items, wanted),
        }
    }

    fn first_probes_set(&self, counters: &Counters, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
        match self.probing {
            Probing::Scattered(_) => {
                contains_each_scattered(counters, self.probes().min(Part::FIRST), items, wanted)
            }
            Probing::Paged(paged) => contains_each(counters, paged.deal().first(), items, wanted),
        }
    }

    /// Counts the item's counters up, those that are full excepted. Returns how many were 0.
    fn insert(&self, counters: &mut Counters, item: ItemHash) -> u32 {
        let size = counters.positions();
        let clear = counters.update(|lines, set| {
            let clear = match self.probing {
                Probing::Scattered(_) => {
                    positions(size, self.probes(), item).map(place).fold(0, |clear, (line, word, mask)| {
                        let planes = lines.get_mut(line);
                        clear + u32::from(planes.is_some_and(|planes| count_up(planes, word, mask)))
                    })
                }
                Probing::Paged(paged) => insert_paged(paged, lines, item),
            };
            *set = set.saturating_add(clear.into());
            clear
        });
        if clear != 0 {
            counters.distinct_items = counters.distinct_items.saturating_add(1);
        }
        clear
    }

    #[inline(always)]
    fn prefetch(&self, counters: &Counters, item: ItemHash, part: Part, prefetch: impl Prefetch) {
        match self.probing {
            Probing::Scattered(_) => {
                let part = part.of(self.probes());
                let positions = positions(counters.positions(), self.probes(), item);
                for (line, word, _) in positions.skip(part.start as usize).take(part.len()).map(place) {
                    if let Some(word) = counters.lines().get(line).and_then(|line| line.get(word)) {
                        prefetch.prefetch(word);
                    }
                }
            }
            Probing::Paged(paged) => {
                let Some(page) = page_of(counters, item) else { return };
                let part = part.of(paged.lines().into());
                for number in InPage::of(item).line_numbers(part.start).take(part.len()) {
                    if let Some([word, ..]) = page.get(number) {
                        prefetch.prefetch(word);
                    }
                }
            }
        }
    }

    fn prefetch_to_add(&self, counters: &Counters, item: ItemHash, prefetch: impl Prefetch) {
        self.prefetch_planes(counters, item, ADD_PLANES as usize, prefetch);
    }
}

/// Planes that an add asks for: it reads the others of one counter in eight.
const ADD_PLANES: u32 = 2;

#[inline(always)]
fn insert_paged(paged: Paged, lines: &mut [Planes], item: ItemHash) -> u32 {
    let deal = paged.deal();
    let Some(page) = page_mut(lines, item) else { return 0 };
    with_few!(deal, FEW => {
        InPage::of(item).lines(deal).fold(0, |clear, (number, source, more)| {
            clear + page.get_mut(number).map_or(0, |line| count_line::<FEW>(line, source, more))
        })
    })
}
