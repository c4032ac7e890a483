//! How a layer that forgets places probes: words of sixteen generations in a few lines of one page, or, in an array that is
//! one page, anywhere.
//!
//! Part of the format, as docs/formats.md says it in words.

use super::clock::{column_of, live_columns};
use super::columns::Columns;
use super::parameters::TimedHash;
use super::shape::{ColumnRate, WindowShape};
use super::sizing::LINE_POSITIONS;
use crate::bloom::bits::PAGE_WORDS;
use crate::bloom::everbloom::layout::{Layout, PAGE_LINES};
use crate::bloom::everbloom::page::{Deal, InPage};
use crate::bloom::everbloom::paged::{page_index, with_few};
use crate::bloom::everbloom::scattered::positions;
use crate::bloom::everbloom::{ItemHash, Paged};
use crate::bloom::group::{ItemSet, subset};
use crate::bloom::placement::{Placement, Probes};
use crate::bloom::prefetch::{Part, Prefetch};

/// Words of a line, each of sixteen bits.
const LINE_LEN: usize = 32;
/// Lines of a page.
const PAGE_LEN: usize = 64;
const _: () = assert!(LINE_LEN as u64 == LINE_POSITIONS && PAGE_LEN as u64 == PAGE_LINES);
/// The words of a line.
type Line = [u16; LINE_LEN];
/// The lines of a page.
type Page = [Line; PAGE_LEN];

/// How a layer that forgets places probes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowProbing {
    place: Place,
    /// How the error rate goes with the items of a column.
    rate: ColumnRate,
    /// Where the layer begins among the bytes of all layers that the filter ever had, one behind another.
    address: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Anywhere, so many probes.
    Scattered(u8),
    /// In a few lines of one page.
    Paged(Paged),
}

/// What is there of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Whether it is remembered.
    pub(super) is_live: bool,
    /// Whether it was added in the very generation that it is to be added in.
    pub(super) is_in_column: bool,
}

impl WindowProbing {
    /// Returns the placement of a layer of a valid shape that begins at `address`. Probes beyond 255 are cut off.
    #[must_use]
    pub fn of(shape: &WindowShape, address: u64) -> Self {
        let probes = u8::try_from(shape.probes).unwrap_or(u8::MAX);
        let place = match shape.layout {
            Layout::Scattered => Place::Scattered(probes),
            Layout::Paged { lines } => Place::Paged(Paged::new(probes, lines)),
        };
        Self { place, rate: ColumnRate::of(shape), address }
    }

    /// How the error rate goes with the items of a column.
    #[must_use]
    pub const fn column_rate(&self) -> &ColumnRate {
        &self.rate
    }

    /// What never changes about a layer of so many positions and items that has this placement.
    pub(super) fn shape(&self, positions: u64, capacity_items: u64) -> WindowShape {
        let layout = match self.place {
            Place::Scattered(_) => Layout::Scattered,
            Place::Paged(paged) => Layout::Paged { lines: paged.lines() },
        };
        WindowShape { layout, probes: self.probes(), positions, capacity_items }
    }

    /// What is there of an item: looks at all of its words.
    // Not a part of its callers: these go through layers, and the words of the item for every number of probes would be
    // computed ahead of that loop, which takes longer than all the rest.
    #[inline(never)]
    pub(super) fn find(&self, columns: &Columns, item: TimedHash) -> Found {
        let (common, newest) = match self.place {
            Place::Scattered(probes) => {
                let reader = columns.reader();
                (common_anywhere(reader.positions, probes.into(), item.hash), first(reader.newest))
            }
            Place::Paged(paged) => {
                let Some((page, newest)) = page_of(columns, item.hash) else { return Found::default() };
                (with_few!(paged.deal(), FEW => common_in_page::<FEW>(page, paged.deal(), item.hash)), newest)
            }
        };
        // The column of a generation that is newer than the page still has what died.
        let column = u16::from(item.at.added <= newest) << column_of(item.at.added);
        Found {
            is_live: common & live_columns(newest, item.at.now) != 0,
            is_in_column: common & column != 0 && newest - item.at.added < super::clock::COLUMNS,
        }
    }
}

fn first(newest: &[u64]) -> u64 {
    newest.first().copied().unwrap_or(0)
}

/// What all words of an item have in common, in an array without pages.
#[inline(always)]
fn common_anywhere(words: &[u64], probes: u32, item: ItemHash) -> u16 {
    let words: &[u16] = bytemuck::cast_slice(words);
    positions(words.len() as u64, probes, item).fold(u16::MAX, |common, position| {
        let word = usize::try_from(position).ok().and_then(|position| words.get(position));
        common & word.copied().unwrap_or(0)
    })
}

/// What all words of an item have in common, in the lines of a deal.
#[inline(always)]
fn common_in_page<const FEW: u32>(page: &Page, deal: Deal, item: ItemHash) -> u16 {
    InPage::of(item).lines(deal).fold(u16::MAX, |common, (number, source, more)| {
        common & page.get(number).map_or(0, |line| common_in_line::<FEW>(line, source, more))
    })
}

/// As [`common_in_page`], up to the first line that leaves none of `live`.
#[inline(always)]
fn has_common<const FEW: u32>(page: &Page, deal: Deal, item: ItemHash, live: u16) -> bool {
    let mut common = live;
    InPage::of(item).lines(deal).all(|(number, source, more)| {
        common &= page.get(number).map_or(0, |line| common_in_line::<FEW>(line, source, more));
        common != 0
    })
}

#[inline(always)]
fn common_in_line<const FEW: u32>(line: &Line, source: u64, more: bool) -> u16 {
    let word = |runs, run| line.get(in_line(source, runs, run)).copied().unwrap_or(0);
    if more {
        (0..=FEW).fold(u16::MAX, |common, run| common & word(FEW + 1, run))
    } else {
        (0..FEW).fold(u16::MAX, |common, run| common & word(FEW, run))
    }
}

/// The word of a probe in its line. The line is dealt out to its probes in runs of words as equal as can be, so that no
/// two are the same; eight bits of `source` draw the word of a run, the uppermost for the first.
#[inline(always)]
fn in_line(source: u64, runs: u32, run: u32) -> usize {
    let (run, runs) = (run as usize, runs as usize);
    let start = LINE_LEN * run / runs;
    let length = LINE_LEN * (run + 1) / runs - start;
    let drawn = (source << (8 * run) >> 56) as usize;
    start + ((drawn * length) >> 8)
}

/// The page of an item and its newest generation. Every item has one in a valid array.
#[inline(always)]
fn page_of(columns: &Columns, item: ItemHash) -> Option<(&Page, u64)> {
    let reader = columns.reader();
    let pages: &[[u64; PAGE_WORDS]] = reader.positions.as_chunks().0;
    let index = page_index(item, pages.len());
    Some((bytemuck::cast_ref(pages.get(index)?), *reader.newest.get(index)?))
}

/// One bit for each of the `wanted` items: whether it is live by the lines of the deal.
#[inline(always)]
fn contains_each_paged(columns: &Columns, deal: Deal, items: &[TimedHash], wanted: ItemSet) -> ItemSet {
    with_few!(deal, FEW => subset(items, wanted, |item| {
        page_of(columns, item.hash).is_some_and(|(page, newest)| {
            common_in_page::<FEW>(page, deal, item.hash) & live_columns(newest, item.at.now) != 0
        })
    }))
}

#[inline(always)]
fn contains_scattered(columns: &Columns, probes: u32, item: TimedHash) -> bool {
    let reader = columns.reader();
    let live = live_columns(first(reader.newest), item.at.now);
    common_anywhere(reader.positions, probes, item.hash) & live != 0
}

impl Probes for WindowProbing {
    type Storage = Columns;

    fn probes(&self) -> u32 {
        match self.place {
            Place::Scattered(probes) => probes.into(),
            Place::Paged(paged) => paged.probes(),
        }
    }

    fn touched_lines(&self) -> u32 {
        match self.place {
            Place::Scattered(probes) => probes.into(),
            Place::Paged(paged) => paged.touched_lines(),
        }
    }

    fn address(&self) -> Option<u64> {
        Some(self.address)
    }
}

impl Placement<TimedHash> for WindowProbing {
    #[inline(always)]
    fn contains(&self, columns: &Columns, item: TimedHash) -> bool {
        match self.place {
            Place::Scattered(probes) => contains_scattered(columns, probes.into(), item),
            Place::Paged(paged) => {
                let deal = paged.deal();
                page_of(columns, item.hash).is_some_and(|(page, newest)| {
                    let live = live_columns(newest, item.at.now);
                    with_few!(deal, FEW => has_common::<FEW>(page, deal, item.hash, live))
                })
            }
        }
    }

    fn contains_each(&self, columns: &Columns, items: &[TimedHash], wanted: ItemSet) -> ItemSet {
        match self.place {
            Place::Scattered(probes) => {
                subset(items, wanted, |item| contains_scattered(columns, probes.into(), item))
            }
            Place::Paged(paged) => contains_each_paged(columns, paged.deal(), items, wanted),
        }
    }

    fn first_probes_set(&self, columns: &Columns, items: &[TimedHash], wanted: ItemSet) -> ItemSet {
        match self.place {
            Place::Scattered(probes) => {
                let probes = u32::from(probes).min(Part::FIRST);
                subset(items, wanted, |item| contains_scattered(columns, probes, item))
            }
            Place::Paged(paged) => contains_each_paged(columns, paged.deal().first(), items, wanted),
        }
    }

    /// Sets the column of the generation that the item is added in; answers how many of its words had it clear.
    #[inline(always)]
    fn insert(&self, columns: &mut Columns, item: TimedHash) -> u32 {
        let generation = item.at.added;
        match self.place {
            Place::Scattered(probes) => {
                let words = columns.reader().positions.len();
                columns.set_in_page(0, 0..words, generation, |words, column| {
                    let words: &mut [u16] = bytemuck::cast_slice_mut(words);
                    positions(words.len() as u64, probes.into(), item.hash).fold(0, |new_bits, position| {
                        let word =
                            usize::try_from(position).ok().and_then(|position| words.get_mut(position));
                        new_bits + word.map_or(0, |word| set_bit(word, column))
                    })
                })
            }
            Place::Paged(paged) => {
                let index = page_index(item.hash, columns.page_generations().len());
                let words =
                    index.saturating_mul(PAGE_WORDS)..index.saturating_add(1).saturating_mul(PAGE_WORDS);
                columns.set_in_page(index, words, generation, |words, column| {
                    let Some(words) = words.first_chunk_mut::<PAGE_WORDS>() else { return 0 };
                    let deal = paged.deal();
                    with_few!(deal, FEW => set_in_lines::<FEW>(bytemuck::cast_mut(words), deal, item.hash, column))
                })
            }
        }
    }

    #[inline(always)]
    fn prefetch(&self, columns: &Columns, item: TimedHash, part: Part, prefetch: impl Prefetch) {
        let reader = columns.reader();
        match self.place {
            Place::Scattered(probes) => {
                let part = part.of(probes.into());
                let positions = positions(reader.positions.len() as u64 * 4, probes.into(), item.hash);
                for position in positions.skip(part.start as usize).take(part.len()) {
                    if let Some(word) = reader.positions.get((position / 4) as usize) {
                        prefetch.prefetch(word);
                    }
                }
            }
            Place::Paged(paged) => {
                let pages: &[[u64; PAGE_WORDS]] = reader.positions.as_chunks().0;
                let index = page_index(item.hash, pages.len());
                let Some((page, newest)) = pages.get(index).zip(reader.newest.get(index)) else { return };
                if part != Part::Rest {
                    prefetch.prefetch(newest);
                }
                InPage::of(item.hash).prefetch(page, part.of(paged.lines().into()), prefetch);
            }
        }
    }
}

/// Sets the column in the words of an item; answers how many had it clear.
#[inline(always)]
fn set_in_lines<const FEW: u32>(page: &mut Page, deal: Deal, item: ItemHash, column: u16) -> u32 {
    InPage::of(item).lines(deal).fold(0, |new_bits, (number, source, more)| {
        let Some(line) = page.get_mut(number) else { return new_bits };
        let mut set =
            |runs, run| line.get_mut(in_line(source, runs, run)).map_or(0, |word| set_bit(word, column));
        let in_line = if more {
            (0..=FEW).map(|run| set(FEW + 1, run)).sum::<u32>()
        } else {
            (0..FEW).map(|run| set(FEW, run)).sum::<u32>()
        };
        new_bits + in_line
    })
}

#[inline(always)]
fn set_bit(word: &mut u16, column: u16) -> u32 {
    let is_new = *word & column == 0;
    *word |= column;
    is_new.into()
}
