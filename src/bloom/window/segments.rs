//! Pages of columns as snapshots and dumps hold them: the words of their positions, and behind those the stamps that say
//! which generations the words are of.
//!
//! A segment says by itself which generations its columns are of, so it can be added to pages that are older or newer.

use super::clock::{Generation, columns_up_to};
use super::columns::{Columns, in_each_position, stamp};
use crate::bloom::storage::{Segment, Storage};

/// Bytes of a stamp.
const STAMP_BYTES: usize = 8;

impl Columns {
    /// Words of the positions of all pages.
    fn position_words(&self) -> usize {
        self.words.len().saturating_sub(self.pages)
    }

    /// Bytes of the positions of one page.
    fn page_bytes(&self) -> usize {
        self.position_words() / self.pages.max(1) * 8
    }

    /// Bytes of one page and its stamp.
    fn stamped_page_bytes(&self) -> usize {
        self.page_bytes().saturating_add(STAMP_BYTES)
    }

    /// Returns whole pages, from the one on that byte `offset` of a dump lies in: at least one, and no more than
    /// `most_bytes` hold; `None` past the end.
    pub(super) fn pages_from(&self, offset: usize, most_bytes: usize) -> Option<Segment<'_>> {
        let stamped_bytes = self.stamped_page_bytes();
        let first = offset / stamped_bytes;
        let rest = self.pages.checked_sub(first).filter(|rest| *rest > 0)?;
        let count = (most_bytes / stamped_bytes).clamp(1, rest);
        let (cells, stamps) = self.bytes().split_at_checked(self.position_words().checked_mul(8)?)?;
        let part = |bytes_each: usize| {
            let start = first.checked_mul(bytes_each)?;
            Some(start..start.checked_add(count.checked_mul(bytes_each)?)?)
        };
        let range = part(self.page_bytes())?;
        let stamps = stamps.get(part(STAMP_BYTES)?)?;
        let offset = first.checked_mul(stamped_bytes)?;
        Some(Segment { offset, cells: cells.get(range.clone())?, range, stamps })
    }

    /// Returns how many bytes of stamps end a segment of `segment_bytes`.
    pub(super) fn stamps_of(&self, segment_bytes: usize) -> usize {
        segment_bytes / self.stamped_page_bytes() * STAMP_BYTES
    }

    /// Adds pages that begin at byte `offset` of a dump, generation by generation: each page takes the newer one of both
    /// stamps, and the columns of both that it still has by then. Only expired columns are cleared. Returns false, changing
    /// nothing, where these are no whole pages, a stamp is newer than the layer, or a page has bits of generations that it
    /// cannot have. O(bytes).
    pub(super) fn add_pages(&mut self, offset: usize, cells: &[u8], stamps: &[u8]) -> bool {
        let (page_bytes, stamped_bytes) = (self.page_bytes(), self.stamped_page_bytes());
        let (stamps, rest) = stamps.as_chunks::<STAMP_BYTES>();
        let are_pages = offset.is_multiple_of(stamped_bytes)
            && rest.is_empty()
            && (cells.is_empty() || Some(cells.len()) == stamps.len().checked_mul(page_bytes));
        let first = offset / stamped_bytes;
        let fits = first.checked_add(stamps.len()).is_some_and(|end| end <= self.pages);
        let newest = self.history.newest;
        // Empty cells are clear ones.
        let pages = || {
            let cells = cells.chunks(page_bytes.max(1)).chain(std::iter::repeat(&[][..]));
            stamps.iter().map(|stamp| Generation::from_le_bytes(*stamp)).zip(cells)
        };
        let is_valid = |(stamp, cells): (Generation, &[u8])| {
            let columns = columns_up_to(stamp, stamp);
            stamp <= newest && (columns == u16::MAX || !has_columns(words(cells), !columns))
        };
        if !are_pages || !fits || !pages().all(is_valid) {
            return false;
        }
        let Self { words: all, pages: count, set, changes, .. } = self;
        let (positions, own_stamps) = all.split_at_mut(all.len().saturating_sub(*count));
        let own_pages = positions.chunks_mut((page_bytes / 8).max(1)).zip(own_stamps);
        for ((to, own), (generation, from)) in own_pages.skip(first).zip(pages()) {
            if generation > *own {
                stamp(to, own, generation, set);
            }
            let kept = in_each_position(columns_up_to(generation, *own));
            for (to, from) in to.iter_mut().zip(words(from)) {
                let new = from & kept;
                // Memory behind clear words is not touched, so a sparse array stays cheap.
                if new != 0 {
                    *set = set.saturating_add((new & !*to).count_ones().into());
                    *to |= new;
                }
            }
        }
        *changes = changes.wrapping_add(1);
        true
    }

    /// Takes the columns that are newer than a generation out of pages, the stamps behind the words, and out of the stamps.
    /// O(bytes).
    pub(super) fn cut_pages(&self, segment: &mut [u8], newest: Generation) {
        let cells_bytes = segment.len().saturating_sub(self.stamps_of(segment.len()));
        let Some((cells, stamps)) = segment.split_at_mut_checked(cells_bytes) else { return };
        let pages = cells.chunks_mut(self.page_bytes().max(1)).zip(stamps.as_chunks_mut::<STAMP_BYTES>().0);
        for (cells, stamp) in pages {
            let generation = Generation::from_le_bytes(*stamp);
            if generation > newest {
                let kept = in_each_position(columns_up_to(newest, generation));
                for word in cells.as_chunks_mut::<8>().0 {
                    *word = (u64::from_le_bytes(*word) & kept).to_le_bytes();
                }
                *stamp = newest.to_le_bytes();
            }
        }
    }

    /// Returns the first rule that a page breaks: no page is newer than its layer, and none has bits of other generations
    /// than the sixteen up to its stamp. O(bytes).
    pub(super) fn broken_page(&self) -> Option<&'static str> {
        let (positions, stamps) = self.words.split_at_checked(self.position_words())?;
        let pages = || positions.chunks((self.page_bytes() / 8).max(1)).zip(stamps);
        if stamps.iter().any(|stamp| *stamp > self.history.newest) {
            return Some("stamps of pages");
        }
        let has_other = |(page, stamp): (&[u64], &Generation)| {
            has_columns(page.iter().copied(), !columns_up_to(*stamp, *stamp))
        };
        if pages().any(has_other) { Some("columns of pages") } else { None }
    }
}

/// The words of cells as they are saved.
fn words(cells: &[u8]) -> impl Iterator<Item = u64> {
    cells.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Whether a word has a bit in one of the columns.
fn has_columns(mut words: impl Iterator<Item = u64>, columns: u16) -> bool {
    let columns = in_each_position(columns);
    words.any(|word| word & columns != 0)
}
