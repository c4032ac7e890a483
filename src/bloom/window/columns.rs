//! The storage of a layer of a sliding-window filter: a word of sixteen bits for every position, one bit for each of
//! sixteen generations. Part of the format, as docs/formats.md says it in words.
//!
//! Behind the words of all positions stands the stamp of every page, in 64 bits: the newest generation that the page has
//! taken an item of. An item of a newer generation clears the columns of its page that have expired since then. So a
//! command clears at most one page per item, and a check masks what has expired.

use std::ops::Range;

use super::clock::{COLUMNS, COLUMNS_LEN, Generation, column_of, columns_between, is_live};
use crate::bloom::bits::PAGE_WORDS;
use crate::bloom::memory::{Memory, OutOfMemory};
use crate::bloom::occupancy::Occupancy;
use crate::bloom::storage::{Segment, Storage};

/// Words of 64 bits up to which an array is one page, whatever its length: 1 MiB, cleared in some 30 us.
pub const ONE_PAGE_MAX_WORDS: usize = 1 << 17;
/// Words of 64 bits that a page of a larger array takes, its generation included.
pub const STAMPED_PAGE_WORDS: usize = PAGE_WORDS + 1;
/// Positions in a word of 64 bits.
pub const WORD_POSITIONS: u64 = u64::BITS as u64 / COLUMNS;

/// The columns of a layer.
#[derive(Debug)]
pub struct Columns {
    /// Of positions, then the stamps of pages.
    pub(super) words: Box<[u64]>,
    /// How many of the words are stamps.
    pub(super) pages: usize,
    /// Bits that are set, and stamps that are not 0.
    pub(super) set: u64,
    /// Changes so far, which tell states apart: bits come and go.
    pub(super) changes: u64,
    pub(super) history: History,
    /// The newest generation of the layer when the header of the last dump was written. No part of the state.
    pub(super) dumped: Generation,
}

/// What a layer remembers of the items it was given, beside their bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The newest generation that it has taken an item of; 0 where it has taken none.
    pub newest: Generation,
    /// Items by column, of the sixteen generations up to the newest.
    pub items: [u64; COLUMNS_LEN],
}

impl History {
    /// Items that were added in a generation and are not overwritten. O(1).
    #[must_use]
    pub fn items_of(&self, generation: Generation) -> u64 {
        let is_kept = generation <= self.newest && self.newest - generation < COLUMNS && generation > 0;
        self.items.get(column_of(generation)).copied().filter(|_| is_kept).unwrap_or(0)
    }

    /// Items of every generation that is live at `now`, the newest first. O(generations).
    pub fn live(&self, now: Generation) -> impl Iterator<Item = (Generation, u64)> {
        let newest = self.newest;
        let kept = (0..COLUMNS).map_while(move |age| newest.checked_sub(age).filter(|found| *found > 0));
        kept.take_while(move |generation| is_live(*generation, now))
            .map(|generation| (generation, self.items_of(generation)))
    }

    /// Items of all columns.
    #[must_use]
    pub fn all_items(&self) -> u64 {
        self.items.iter().fold(0, |sum, items| sum.saturating_add(*items))
    }

    /// Drops the counts of columns that a newer generation overwrites.
    fn advance(&mut self, generation: Generation) {
        if generation > self.newest {
            let dead = columns_between(self.newest, generation);
            for (column, items) in self.items.iter_mut().enumerate() {
                *items *= u64::from(dead >> column & 1 == 0);
            }
            self.newest = generation;
        }
    }

    /// Counts an item of a generation that is not older than all columns, up to the most that a decoder takes. Every item
    /// sets a bit of its column that was clear, so only a count that was read over fewer bits ends there.
    fn count(&mut self, generation: Generation, most_items: u64) {
        if let Some(items) = self.items.get_mut(column_of(generation)) {
            *items = items.saturating_add(1).min(most_items);
        }
    }
}

/// What is asked of: the positions and the generations of pages.
#[derive(Clone, Copy)]
pub(super) struct Reader<'c> {
    /// Of positions, four to a word.
    pub(super) positions: &'c [u64],
    /// Of pages.
    pub(super) newest: &'c [Generation],
}

impl Columns {
    /// What the layer was given. O(1).
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Says what the layer was given, for a decoder that is about to fill it.
    pub fn set_history(&mut self, history: History) {
        self.history = history;
    }

    /// Number of positions.
    #[must_use]
    pub fn positions(&self) -> u64 {
        self.words.len().saturating_sub(self.pages) as u64 * WORD_POSITIONS
    }

    /// Returns the stamps of the pages.
    #[must_use]
    pub fn page_generations(&self) -> &[Generation] {
        self.reader().newest
    }

    #[inline(always)]
    pub(super) fn reader(&self) -> Reader<'_> {
        let (positions, newest) =
            self.words.split_at_checked(self.words.len().saturating_sub(self.pages)).unwrap_or_default();
        Reader { positions, newest }
    }

    /// Sets bits of a generation in one page, and counts the item if that sets any. Returns how many bits were new. `page` is
    /// the number of the page, `words` its words among those of positions. Sets nothing where the page has no column of that
    /// generation any more.
    #[inline(always)]
    pub(super) fn set_in_page(
        &mut self,
        page: usize,
        words: Range<usize>,
        generation: Generation,
        set: impl FnOnce(&mut [u64], u16) -> u32,
    ) -> u32 {
        let positions = self.words.len().saturating_sub(self.pages);
        let Some((data, newest)) = self.words.split_at_mut_checked(positions) else { return 0 };
        let (Some(data), Some(newest)) = (data.get_mut(words), newest.get_mut(page)) else { return 0 };
        if generation > *newest {
            stamp(data, newest, generation, &mut self.set);
            // Whether or not a bit is new: no page is newer than its layer.
            self.history.advance(generation);
        } else if *newest - generation >= COLUMNS {
            return 0;
        }
        let new_bits = set(data, 1 << column_of(generation));
        self.set = self.set.saturating_add(new_bits.into());
        self.changes = self.changes.wrapping_add(1);
        if new_bits > 0 {
            self.history.count(generation, positions as u64 * WORD_POSITIONS);
        }
        new_bits
    }
}

/// Stamps a page with a newer generation: clears the columns that have expired by then, and keeps the count of what is set.
#[inline(always)]
pub(super) fn stamp(page: &mut [u64], newest: &mut Generation, generation: Generation, set: &mut u64) {
    // A page without a stamp is clear, and its memory was perhaps never written to.
    if *newest == 0 {
        *set = set.saturating_add(1);
    } else {
        *set = set.saturating_sub(clear(page, columns_between(*newest, generation)));
    }
    *newest = generation;
}

/// Clears columns of a page. Returns how many bits were set there. O(words).
#[inline(never)]
fn clear(page: &mut [u64], columns: u16) -> u64 {
    let dead = in_each_position(columns);
    page.iter_mut().fold(0, |cleared, word| {
        let ones = u64::from((*word & dead).count_ones());
        *word &= !dead;
        cleared + ones
    })
}

/// Returns the columns in each of the positions of a word.
pub(super) const fn in_each_position(columns: u16) -> u64 {
    columns as u64 * 0x0001_0001_0001_0001
}

/// Pages of an array of so many words.
const fn pages_of(words: usize) -> usize {
    if words > ONE_PAGE_MAX_WORDS { words / STAMPED_PAGE_WORDS } else { 1 }
}

impl Storage for Columns {
    /// Of up to [`ONE_PAGE_MAX_WORDS`] words, the last of them the generation of the one page; of more in pages, to which
    /// the size is rounded down.
    fn try_empty(size_bits: u64, _has_head: bool) -> Result<Self, OutOfMemory> {
        let words = usize::try_from(size_bits / 64).map_err(|_| OutOfMemory)?.max(1);
        let pages = pages_of(words);
        let words = if words > ONE_PAGE_MAX_WORDS { words - words % STAMPED_PAGE_WORDS } else { words };
        let words = bytemuck::try_zeroed_slice_box(words).map_err(|()| OutOfMemory)?;
        Ok(Self { words, pages, set: 0, changes: 0, history: History::default(), dumped: Generation::MAX })
    }

    fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        let mut copy = Self::try_empty(self.size_bits(), false)?;
        Occupancy::of(self, memory).copy(&self.words, &mut copy.words);
        Ok(Self { set: self.set, history: self.history, ..copy })
    }

    fn size_bits(&self) -> u64 {
        self.words.len() as u64 * 64
    }

    fn set_bits(&self) -> u64 {
        self.set
    }

    fn state(&self) -> u64 {
        self.changes
    }

    fn state_of(_set_bits: u64) -> Option<u64> {
        None
    }

    fn set_cells_in(&self, words: Range<usize>) -> u64 {
        let positions = self.words.len().saturating_sub(self.pages);
        let start = words.start;
        let words = self.words.get(words).unwrap_or_default().iter().zip(start..);
        words.map(|(word, index)| cells_of(*word, index >= positions)).sum()
    }

    fn words(&self) -> &[u64] {
        &self.words
    }

    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    fn allocation(&self) -> &[u64] {
        &self.words
    }

    fn segment(&self, offset: usize, most_bytes: usize) -> Option<Segment<'_>> {
        self.pages_from(offset, most_bytes)
    }

    fn stamp_bytes(&self, segment_bytes: usize) -> usize {
        self.stamps_of(segment_bytes)
    }

    fn add_segment(&mut self, offset: usize, cells: &[u8], stamps: &[u8]) -> bool {
        self.add_pages(offset, cells, stamps)
    }

    fn begin_dump(&mut self) {
        self.dumped = self.history.newest;
    }

    fn cut_to_dump(&self, segment: &mut [u8]) {
        self.cut_pages(segment, self.dumped);
    }

    fn broken_rule(&self) -> Option<&'static str> {
        self.broken_page()
    }

    fn relocate(&mut self, relocate: &mut dyn FnMut(Box<[u64]>) -> Box<[u64]>) {
        self.words = relocate(std::mem::take(&mut self.words));
    }
}

/// Bits that are set in a word, or 1 for the generation of a page.
fn cells_of(word: u64, is_page: bool) -> u64 {
    if is_page { u64::from(word != 0) } else { word.count_ones().into() }
}
