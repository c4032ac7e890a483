//! The storage of a layer that forgets: a word of sixteen bits for every position, one bit for each of sixteen
//! generations. Part of the format, as docs/formats.md says it in words.
//!
//! Behind the words of positions stands for every page, in 64 bits, the newest generation that the page has taken an
//! item of. What died since then is cleared when an item of a newer one comes to the page, and only there: so
//! no moment clears more than a page for every item of a command, and whoever asks masks what is dead.

use std::ops::Range;

use super::clock::{COLUMNS, COLUMNS_LEN, Generation, column_of, columns_between, is_live};
use crate::bloom::bits::PAGE_WORDS;
use crate::bloom::memory::{Memory, OutOfMemory};
use crate::bloom::occupancy::Occupancy;
use crate::bloom::storage::Storage;

/// Words of 64 bits up to which an array is one page, whatever its length: 1 MiB, cleared in some 30 us.
pub const ONE_PAGE_MAX_WORDS: usize = 1 << 17;
/// Words of 64 bits that a page of a larger array takes, its generation included.
pub const STAMPED_PAGE_WORDS: usize = PAGE_WORDS + 1;
/// Positions in a word of 64 bits.
pub const WORD_POSITIONS: u64 = u64::BITS as u64 / COLUMNS;

/// The columns of a layer.
#[derive(Debug)]
pub struct Columns {
    /// Of positions, then the generations of pages.
    words: Box<[u64]>,
    /// How many of the words are generations of pages.
    pages: usize,
    /// Bits that are set, and pages that have a generation.
    set: u64,
    /// Changes so far, which tell states apart: bits come and go.
    changes: u64,
    history: History,
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

    /// Forgets what is dead by that generation, if it is newer.
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

    /// The generations of pages.
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

    /// Sets bits of a generation in one page and counts the item, if that sets any; answers how many. The page is that
    /// with number `page`, its words are `words` of those of positions. Nothing is set where the page has forgotten
    /// that generation.
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
            // The first item of a page comes to memory that was never written to.
            if *newest == 0 {
                self.set = self.set.saturating_add(1);
            } else {
                self.set = self.set.saturating_sub(clear(data, columns_between(*newest, generation)));
            }
            *newest = generation;
            // Before it is known whether a bit is new, which in a page that was read with bits and as one that took nothing
            // need not be: no page is newer than its layer.
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

/// Clears columns of a page; answers how many bits were set there. O(words).
#[inline(never)]
fn clear(page: &mut [u64], columns: u16) -> u64 {
    let dead = u64::from(columns) * 0x0001_0001_0001_0001;
    page.iter_mut().fold(0, |cleared, word| {
        let ones = u64::from((*word & dead).count_ones());
        *word &= !dead;
        cleared + ones
    })
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
        Ok(Self { words, pages, set: 0, changes: 0, history: History::default() })
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

    /// Bits that come to others are set, of two generations of a page the newer one stays. Whole words only, and no
    /// generation of a page that is newer than the layer's newest.
    fn add_bytes(&mut self, offset: usize, data: &[u8]) -> bool {
        let (words, rest) = data.as_chunks::<8>();
        let positions = self.words.len().saturating_sub(self.pages);
        let start = offset / 8;
        if !rest.is_empty() || !offset.is_multiple_of(8) {
            return false;
        }
        let from = || words.iter().map(|word| u64::from_le_bytes(*word)).zip(start..);
        let newest = self.history.newest;
        let is_page = |index: usize| index >= positions;
        if from().any(|(word, index)| is_page(index) && word > newest) {
            return false;
        }
        let Some(target) = self.words.get_mut(start..start.saturating_add(words.len())) else { return false };
        for (to, (from, index)) in target.iter_mut().zip(from()) {
            // Memory behind clear words is not touched, so a sparse array stays cheap.
            if from == 0 {
                continue;
            }
            let before = cells_of(*to, is_page(index));
            *to = if is_page(index) { from.max(*to) } else { *to | from };
            self.set = self.set.saturating_add(cells_of(*to, is_page(index)).saturating_sub(before));
        }
        self.changes = self.changes.wrapping_add(1);
        true
    }

    fn relocate(&mut self, relocate: &mut dyn FnMut(Box<[u64]>) -> Box<[u64]>) {
        self.words = relocate(std::mem::take(&mut self.words));
    }
}

/// Bits that are set in a word, or 1 for the generation of a page.
fn cells_of(word: u64, is_page: bool) -> u64 {
    if is_page { u64::from(word != 0) } else { word.count_ones().into() }
}
