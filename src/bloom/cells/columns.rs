//! Cells of sixteen bits, one for each of sixteen generations of a sliding window. Part of the format;
//! docs/formats.md specifies it.
//!
//! Every region has a stamp: the newest generation of which it has taken an item. Expired columns of a region are
//! cleared when the region takes an item of a newer generation. So a command clears at most one region per item, and
//! lookups mask expired columns.

use super::storage::{STAMP_BYTES, ones};
use super::{At, Cell, Cells, Found, Measures, Purpose};
use crate::bloom::layout::{Line, Page, Position, Spot};
use crate::bloom::window::{
    COLUMNS, Generation, Moment, column_of, columns_between, columns_up_to, live_columns,
};

/// Largest layer, in words of 64 bits, that is a single region, whatever its length: 1 MiB, cleared in about 30 us.
pub const ONE_PAGE_MAX_WORDS: u64 = 1 << 17;
/// Positions of a line: words of sixteen bits.
const LINE_POSITIONS: usize = 32;
/// Words of 64 bits in a line.
const LINE_WORDS: usize = 8;
/// Positions in a word of 64 bits.
const WORD_POSITIONS: u64 = u64::BITS as u64 / COLUMNS;

/// One bit per generation at every position.
#[derive(Clone, Copy, Debug)]
pub struct Columns;

impl Cell for Columns {
    /// The generations that all spots of an item have in common, by column.
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
        // If the generation is newer than the region's stamp, its column still contains expired bits.
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

    /// Clears the expired columns of the region if the item is of a newer generation.
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

    /// Counts set bits, and regions that have a stamp.
    fn count_set(words: &[u64], start: usize, stamps_from: usize) -> u64 {
        let (cells, stamps) = words.split_at(stamps_from.saturating_sub(start).min(words.len()));
        ones(cells) + stamps.iter().filter(|stamp| **stamp != 0).count() as u64
    }

    /// Merges regions generation by generation. Each region takes the newer of both stamps and keeps the columns of
    /// both that have not expired by then. Clears only expired columns. Refuses a region whose stamp is newer than
    /// the layer, or that has bits of a generation that cannot be in it.
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
                // Memory behind clear words is not touched, so a sparse layer stays small.
                if new != 0 {
                    set_cells = set_cells.wrapping_add((new & !*to).count_ones().into());
                    *to |= new;
                }
            }
        }
        cells.count_set(set_cells);
        true
    }

    /// Checks that no region is newer than its layer, and that each has bits only of the sixteen generations up to
    /// its stamp.
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
        // There are two loops so that the compiler knows the runs of each.
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
    /// Records the current generation as the state that the header of a dump describes. O(1).
    pub(in crate::bloom) fn begin_dump(&mut self) {
        if let Some(state) = self.timed_mut() {
            state.dumped = state.history.newest;
        }
    }

    /// Removes from a segment, whose stamps follow its cells, the columns that are newer than the header of the last
    /// dump, and lowers their stamps. O(bytes).
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

/// Returns the position of a probe in its line. The line is split into one run of positions per probe, of nearly
/// equal length, so no two probes have the same position. Eight bits of `source` select the position in a run, the
/// top eight bits for the first run.
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

/// Returns the index of a word. A position that no array of this machine can have gives an index beyond every array.
#[inline(always)]
fn index_of(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

#[inline(always)]
fn stamp(stamps: &[Generation], region: usize) -> Generation {
    if let Some(stamp) = stamps.get(region) { *stamp } else { 0 }
}

/// Stamps a region with a newer generation and clears the columns that have expired by then. Returns the change of
/// the number of set cells, wrapping.
#[inline(always)]
fn stamp_region(words: &mut [u64], newest: &mut Generation, stamp: Generation) -> u64 {
    let before = std::mem::replace(newest, stamp);
    if before == 0 {
        // A region without a stamp is clear. Its memory may never have been written to.
        return 1;
    }
    clear(words, columns_between(before, stamp)).wrapping_neg()
}

/// Clears columns of a region. Returns how many bits were set in them. O(words).
#[inline(never)]
fn clear(words: &mut [u64], columns: u16) -> u64 {
    let expired = in_each_position(columns);
    words.iter_mut().fold(0, |cleared, word| {
        let ones = u64::from((*word & expired).count_ones());
        *word &= !expired;
        cleared + ones
    })
}

/// Returns a word with these columns in each of its positions.
pub(super) const fn in_each_position(columns: u16) -> u64 {
    columns as u64 * 0x0001_0001_0001_0001
}

/// Returns the words of saved cells.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Returns whether a word has a bit in one of the columns.
fn has_columns(mut words: impl Iterator<Item = u64>, columns: u16) -> bool {
    let columns = in_each_position(columns);
    words.any(|word| word & columns != 0)
}
