//! Cells of sixteen bits, one for each of sixteen generations of a sliding window. Part of the format; docs/formats.md
//! specifies it.
//!
//! Every region has a stamp: the newest generation that it has taken an item of. What has expired since then is cleared when
//! an item of a newer generation comes to the region, and only there: so no moment clears more than a region for each item
//! of a command, and lookups mask what has expired.

use super::storage::{STAMP_BYTES, ones};
use super::{At, Cell, Cells, Found, Measures, Purpose};
use crate::bloom::layout::{Line, Page, Position, Spot};
use crate::bloom::window::{
    COLUMNS, Generation, Moment, column_of, columns_between, columns_up_to, live_columns,
};

/// Words of 64 bits up to which a layer is one region, whatever its length: 1 MiB, cleared in some 30 us.
pub const ONE_PAGE_MAX_WORDS: u64 = 1 << 17;
/// Positions of a line: words of sixteen bits.
const LINE_POSITIONS: usize = 32;
/// Words of 64 bits in a line.
const LINE_WORDS: usize = 8;
/// Positions in a word of 64 bits.
const WORD_POSITIONS: u64 = u64::BITS as u64 / COLUMNS;

/// A bit for every generation at every position.
#[derive(Clone, Copy, Debug)]
pub struct Columns;

impl Cell for Columns {
    /// The generations that all spots have in common, by column.
    type Mask = u16;
    /// The column of a generation.
    type Mark = u16;
    type Line = [u64; LINE_WORDS];

    const LINE_WORDS: usize = LINE_WORDS;
    const MEASURES: Measures = Measures {
        word_positions: WORD_POSITIONS,
        line_positions: LINE_POSITIONS as u64,
        unit_positions: WORD_POSITIONS,
        stamp_words: 1,
        columns: COLUMNS,
        has_runs: true,
    };
    const WHOLE: u16 = u16::MAX;
    const SETS_ONCE: bool = false;
    const IS_TIMED: bool = true;

    #[inline(always)]
    fn is_set(mask: u16) -> bool {
        mask != 0
    }

    #[inline(always)]
    fn live(stamps: &[Generation], region: usize, at: Moment) -> u16 {
        live_columns(stamp(stamps, region), at.now)
    }

    #[inline(always)]
    fn found(mask: u16, stamps: &[Generation], region: usize, at: Moment) -> Found {
        let newest = stamp(stamps, region);
        // The column of a generation that is newer than the region still has what has expired.
        let column = u16::from(at.added <= newest) << column_of(at.added);
        Found {
            is_live: mask & live_columns(newest, at.now) != 0,
            is_current: mask & column != 0 && newest - at.added < COLUMNS,
        }
    }

    #[inline(always)]
    fn mark(at: Moment) -> u16 {
        1 << column_of(at.added)
    }

    /// The region of an item of a newer generation loses what has expired by then.
    #[inline(always)]
    fn open<S: Spot>(words: &mut [u64], stamps: &mut [Generation], region: usize, at: Moment) -> Option<u64> {
        let newest = stamps.get_mut(region)?;
        if at.added <= *newest {
            return (*newest - at.added < COLUMNS).then_some(0);
        }
        Some(stamp_region(S::region_words::<Self>(words, region)?, newest, at.added))
    }

    #[inline(always)]
    fn lines(words: &[u64]) -> &[Self::Line] {
        words.as_chunks().0
    }

    #[inline(always)]
    fn lines_mut(words: &mut [u64]) -> &mut [Self::Line] {
        words.as_chunks_mut().0
    }

    #[inline(always)]
    fn planes(_: Purpose) -> u32 {
        1
    }

    /// Set bits, and regions that have a stamp.
    fn count_set(words: &[u64], start: usize, stamps_from: usize) -> u64 {
        let (cells, stamps) = words.split_at(stamps_from.saturating_sub(start).min(words.len()));
        ones(cells) + stamps.iter().filter(|stamp| **stamp != 0).count() as u64
    }

    /// Adds regions generation by generation: each takes the newer one of both stamps, and the columns of both that it still has
    /// by then. Only what has expired is cleared. Regions whose stamp is newer than the layer, or with bits of generations that
    /// they cannot have, are refused.
    fn add_segment(cells: &mut Cells, offset: usize, bytes: &[u8], stamps: &[u8]) -> bool {
        let (region_bytes, stamped_bytes) = (cells.region_bytes(), cells.stamped_region_bytes());
        let (stamps, rest) = stamps.as_chunks::<STAMP_BYTES>();
        let are_regions = offset.is_multiple_of(stamped_bytes)
            && rest.is_empty()
            && (bytes.is_empty() || Some(bytes.len()) == stamps.len().checked_mul(region_bytes));
        let Some(state) = cells.timed().filter(|_| are_regions) else { return false };
        let first = offset / stamped_bytes;
        let fits = first.checked_add(stamps.len()).is_some_and(|end| end <= state.stamps());
        let newest = state.history.newest;
        let regions = || {
            let bytes = bytes.chunks(region_bytes.max(1)).chain(std::iter::repeat(&[][..]));
            stamps.iter().map(|stamp| Generation::from_le_bytes(*stamp)).zip(bytes)
        };
        let is_valid = |(stamp, bytes): (Generation, &[u8])| {
            let columns = columns_up_to(stamp, stamp);
            stamp <= newest && (columns == u16::MAX || !has_columns(words_of(bytes), !columns))
        };
        if !fits || !regions().all(is_valid) {
            return false;
        }
        let mut set_cells = 0u64;
        let view = cells.view_mut();
        let own = view.words.chunks_mut((region_bytes / 8).max(1)).zip(view.stamps);
        for ((to, own), (stamp, from)) in own.skip(first).zip(regions()) {
            if stamp > *own {
                set_cells = set_cells.wrapping_add(stamp_region(to, own, stamp));
            }
            let kept = in_each_position(columns_up_to(stamp, *own));
            for (to, from) in to.iter_mut().zip(words_of(from)) {
                let new = from & kept;
                // Memory behind clear words is not touched, so a sparse layer stays cheap.
                if new != 0 {
                    set_cells = set_cells.wrapping_add((new & !*to).count_ones().into());
                    *to |= new;
                }
            }
        }
        cells.count_set(set_cells);
        true
    }

    /// No region is newer than its layer, and none has bits of other generations than the sixteen up to its stamp.
    fn broken_rule(cells: &Cells) -> Option<&'static str> {
        let (view, state) = (cells.view(), cells.timed()?);
        if view.stamps.iter().any(|stamp| *stamp > state.history.newest) {
            return Some("stamps of pages");
        }
        let mut regions = view.words.chunks((cells.region_bytes() / 8).max(1)).zip(view.stamps);
        let has_other = |(words, stamp): (&[u64], &Generation)| {
            has_columns(words.iter().copied(), !columns_up_to(*stamp, *stamp))
        };
        if regions.any(has_other) { Some("columns of pages") } else { None }
    }
}

impl At<Position> for Columns {
    #[inline(always)]
    fn look(words: &[u64], Position(position): Position) -> u16 {
        let words: &[u16] = bytemuck::cast_slice(words);
        if let Some(word) = words.get(index_of(position)) { *word } else { 0 }
    }

    #[inline(always)]
    fn set(words: &mut [u64], Position(position): Position, column: u16) -> u32 {
        let words: &mut [u16] = bytemuck::cast_slice_mut(words);
        if let Some(word) = words.get_mut(index_of(position)) { set_column(word, column) } else { 0 }
    }

    #[inline(always)]
    fn word(words: &[u64], Position(position): Position, _: usize) -> Option<&u64> {
        words.get(index_of(position / WORD_POSITIONS))
    }
}

impl<const PER_LINE: u32> At<Line<PER_LINE>> for Columns {
    #[inline(always)]
    fn look(page: &Page<Self>, line: Line<PER_LINE>) -> u16 {
        let Some(words) = page.get(line.number) else { return 0 };
        let words: &[u16; LINE_POSITIONS] = bytemuck::cast_ref(words);
        let mut common = u16::MAX;
        // Two loops, so that the compiler knows the runs of each.
        if line.has_one_more {
            for run in 0..=PER_LINE {
                common &= column(words, line.source, PER_LINE + 1, run);
            }
        } else {
            for run in 0..PER_LINE {
                common &= column(words, line.source, PER_LINE, run);
            }
        }
        common
    }

    #[inline(always)]
    fn set(page: &mut Page<Self>, line: Line<PER_LINE>, column: u16) -> u32 {
        let Some(words) = page.get_mut(line.number) else { return 0 };
        let words: &mut [u16; LINE_POSITIONS] = bytemuck::cast_mut(words);
        let mut new_bits = 0;
        if line.has_one_more {
            for run in 0..=PER_LINE {
                new_bits += set_in_line(words, line.source, PER_LINE + 1, run, column);
            }
        } else {
            for run in 0..PER_LINE {
                new_bits += set_in_line(words, line.source, PER_LINE, run, column);
            }
        }
        new_bits
    }

    #[inline(always)]
    fn word(page: &Page<Self>, line: Line<PER_LINE>, _: usize) -> Option<&u64> {
        page.get(line.number).map(|[word, ..]| word)
    }
}

impl Cells {
    /// Remembers the state of now as the one that the header of a dump describes. O(1).
    pub(in crate::bloom) fn begin_dump(&mut self) {
        if let Some(state) = self.timed_mut() {
            state.dumped = state.history.newest;
        }
    }

    /// Takes the columns that are newer than the header of the last dump says out of a segment, its stamps behind its cells, and
    /// out of the stamps. O(bytes).
    pub fn cut_to_dump(&self, segment: &mut [u8]) {
        let Some(state) = self.timed() else { return };
        let cell_bytes = segment.len().saturating_sub(self.stamp_bytes_of(segment.len()));
        let Some((bytes, stamps)) = segment.split_at_mut_checked(cell_bytes) else { return };
        let regions =
            bytes.chunks_mut(self.region_bytes().max(1)).zip(stamps.as_chunks_mut::<STAMP_BYTES>().0);
        for (bytes, stamp) in regions {
            let generation = Generation::from_le_bytes(*stamp);
            if generation > state.dumped {
                let kept = in_each_position(columns_up_to(state.dumped, generation));
                for word in bytes.as_chunks_mut::<8>().0 {
                    *word = (u64::from_le_bytes(*word) & kept).to_le_bytes();
                }
                *stamp = state.dumped.to_le_bytes();
            }
        }
    }
}

/// Returns the position of a probe in its line. The line is split into runs of positions as equal as can be, one for each probe,
/// so that no two are the same; eight bits of `source` draw the position in a run, the uppermost for the first.
#[inline(always)]
fn in_line(source: u64, runs: u32, run: u32) -> usize {
    let (run, runs) = (run as usize, runs as usize);
    let start = LINE_POSITIONS * run / runs;
    let length = LINE_POSITIONS * (run + 1) / runs - start;
    let drawn = (source << (8 * run) >> 56) as usize;
    start + ((drawn * length) >> 8)
}

/// Returns the columns at the position of a probe in its line.
#[inline(always)]
fn column(words: &[u16; LINE_POSITIONS], source: u64, runs: u32, run: u32) -> u16 {
    if let Some(word) = words.get(in_line(source, runs, run)) { *word } else { 0 }
}

/// Sets a column at the position of a probe in its line. Returns 1 if it was clear, else 0.
#[inline(always)]
fn set_in_line(words: &mut [u16; LINE_POSITIONS], source: u64, runs: u32, run: u32, column: u16) -> u32 {
    if let Some(word) = words.get_mut(in_line(source, runs, run)) { set_column(word, column) } else { 0 }
}

/// Sets a column. Returns 1 if it was clear, else 0.
#[inline(always)]
fn set_column(word: &mut u16, column: u16) -> u32 {
    let is_clear = *word & column == 0;
    *word |= column;
    is_clear.into()
}

/// Returns the index of a word; one beyond every array for a position that no array of this machine has.
#[inline(always)]
fn index_of(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

#[inline(always)]
fn stamp(stamps: &[Generation], region: usize) -> Generation {
    if let Some(stamp) = stamps.get(region) { *stamp } else { 0 }
}

/// Stamps a region with a newer generation: clears the columns that have expired by then. Returns by how much the number of set
/// cells has changed, wrapping.
#[inline(always)]
fn stamp_region(words: &mut [u64], newest: &mut Generation, stamp: Generation) -> u64 {
    let before = std::mem::replace(newest, stamp);
    if before == 0 {
        // A region without a stamp is clear, and its memory was perhaps never written to.
        return 1;
    }
    clear(words, columns_between(before, stamp)).wrapping_neg()
}

/// Clears columns of a region. Returns how many bits were set there. O(words).
#[inline(never)]
fn clear(words: &mut [u64], columns: u16) -> u64 {
    let expired = in_each_position(columns);
    words.iter_mut().fold(0, |cleared, word| {
        let ones = u64::from((*word & expired).count_ones());
        *word &= !expired;
        cleared + ones
    })
}

/// Returns the columns in each of the positions of a word.
pub(super) const fn in_each_position(columns: u16) -> u64 {
    columns as u64 * 0x0001_0001_0001_0001
}

/// Returns the words of cells as they are saved.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Returns whether a word has a bit in one of the columns.
fn has_columns(mut words: impl Iterator<Item = u64>, columns: u16) -> bool {
    let columns = in_each_position(columns);
    words.any(|word| word & columns != 0)
}
