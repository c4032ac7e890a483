//! Cells of four bits that count, so that items can be deleted. Part of the format; docs/formats.md specifies it.
//!
//! A counter is 0 to 8. Its first bit is set if it is above 0. The other three bits, least significant first, hold
//! the count minus 1. At 8 the counter is full and stays full. The bits are stored in planes: every line of 512
//! positions has four lines of 64 bytes side by side, the first of which has the first bit of every counter. So a
//! lookup reads the same bytes as in cells of one bit.

use super::storage::ones;
use super::{At, Bits, Cell, Cells, Found, Measures, Purpose};
use crate::bloom::layout::{LINE_BITS, Line, Page, Position, Spot};
use crate::bloom::limits::LAYER_OCCURRENCES_MAX;
use crate::bloom::sizing::Shape;
use crate::bloom::window::Moment;

/// Bits of a counter.
pub const COUNTER_BITS: u64 = 4;
/// The count at which a counter is full and counts neither up nor down, because the number of its items is no longer
/// known.
pub const COUNT_FULL: u32 = 8;
/// Words of one plane of a line.
const PLANE_WORDS: usize = 8;
/// Planes of a line: one for each bit of a counter.
const PLANES: usize = 4;
const _: () = assert!(PLANES as u64 == COUNTER_BITS && PLANE_WORDS as u64 * 64 == LINE_BITS);
/// Words of all planes of a line.
const LINE_WORDS: usize = PLANE_WORDS * PLANES;
/// Bytes of all planes of a line. Dumps and snapshots are cut only between lines.
const LINE_BYTES: usize = LINE_WORDS * 8;
/// Planes that an add needs. It reads the other planes for one counter in eight.
const ADD_PLANES: u32 = 2;

/// The four planes of a line, one after another.
pub(super) type Planes = [u64; LINE_WORDS];

/// A counter of four bits per position.
#[derive(Clone, Copy, Debug)]
pub struct Counters;

impl Cell for Counters {
    /// As for [`Bits`], from the first plane.
    type Mask = u64;
    type Mark = ();
    type Line = Planes;

    const LINE_WORDS: usize = LINE_WORDS;
    const MEASURES: Measures = Measures {
        word_positions: 64 / COUNTER_BITS,
        line_positions: LINE_BITS,
        unit_positions: LINE_BITS,
        stamp_words: 0,
        columns: 1,
        has_runs: false,
    };
    const WHOLE: u64 = 1;
    const SETS_ONCE: bool = false;
    const IS_TIMED: bool = false;
    const FILLS_BY_CELLS: bool = true;

    #[inline(always)]
    fn is_set(mask: u64) -> bool {
        Bits::is_set(mask)
    }

    #[inline(always)]
    fn live(_: &[u64], _: usize, _: Moment) -> u64 {
        1
    }

    /// Every add of an item is counted.
    #[inline(always)]
    fn found(mask: u64, _: &[u64], _: usize, _: Moment) -> Found {
        Found { is_live: Self::is_set(mask), is_current: false }
    }

    #[inline(always)]
    fn mark(_: Moment) {}

    #[inline(always)]
    fn open<S: Spot>(_: &mut [u64], _: &mut [u64], _: usize, _: Moment) -> Option<u64> {
        Some(0)
    }

    #[inline(always)]
    fn lines(words: &[u64]) -> &[Planes] {
        words.as_chunks().0
    }

    #[inline(always)]
    fn lines_mut(words: &mut [u64]) -> &mut [Planes] {
        words.as_chunks_mut().0
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "four")]
    fn planes(purpose: Purpose) -> u32 {
        match purpose {
            Purpose::Look => 1,
            Purpose::Add => ADD_PLANES,
            Purpose::Remove => PLANES as u32,
        }
    }

    /// Counts the counters above 0, by the first planes.
    fn count_set(words: &[u64], start: usize, _: usize) -> u64 {
        let words = words.iter().zip(start..);
        let first_planes = words.filter(|(_, index)| index % LINE_WORDS < PLANE_WORDS);
        first_planes.map(|(word, _)| u64::from(word.count_ones())).sum()
    }

    /// Adds counters to others bit by bit, which is exact if one of the two is 0 or both are equal. Takes whole lines
    /// only, and refuses a counter of 0 that has another bit.
    fn add_segment(cells: &mut Cells, offset: usize, bytes: &[u8], stamps: &[u8]) -> bool {
        let (lines, rest) = bytes.as_chunks::<LINE_BYTES>();
        let are_whole = rest.is_empty() && offset.is_multiple_of(LINE_BYTES) && stamps.is_empty();
        let start = offset / LINE_BYTES;
        let all = Self::lines_mut(cells.words_mut());
        let target = start.checked_add(lines.len()).and_then(|end| all.get_mut(start..end));
        let Some(target) = target.filter(|_| are_whole && lines.iter().all(are_counters)) else {
            return false;
        };
        let mut set_cells = 0;
        for (to, from) in target.iter_mut().zip(lines) {
            // Memory behind clear lines is not touched, so a sparse layer stays small.
            if from.iter().any(|byte| *byte != 0) {
                let before = set_in(to);
                let from = from.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
                to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
                set_cells += set_in(to).saturating_sub(before);
            }
        }
        cells.count_set(set_cells);
        true
    }

    fn broken_rule(cells: &Cells) -> Option<&'static str> {
        let lines: &[[u8; LINE_BYTES]] = cells.bytes().as_chunks().0;
        if lines.iter().all(are_counters) { None } else { Some("counters") }
    }
}

impl At<Position> for Counters {
    #[inline(always)]
    fn look(words: &[u64], Position(position): Position) -> u64 {
        let (line, word, _) = place(position);
        let Some(planes) = Self::lines(words).get(line) else { return 0 };
        if let Some(word) = planes.get(word) { word >> (position % 64) } else { 0 }
    }

    #[inline(always)]
    fn set(words: &mut [u64], Position(position): Position, (): ()) -> u32 {
        let (line, word, mask) = place(position);
        if let Some(planes) = Self::lines_mut(words).get_mut(line) { count_up(planes, word, mask) } else { 0 }
    }

    #[inline(always)]
    fn unset(words: &mut [u64], Position(position): Position) -> Option<u32> {
        let (line, word, mask) = place(position);
        count_down(Self::lines_mut(words).get_mut(line)?, word, mask)
    }

    #[inline(always)]
    fn word(words: &[u64], Position(position): Position, plane: usize) -> Option<&u64> {
        let (line, word, _) = place(position);
        Self::lines(words).get(line)?.get(plane * PLANE_WORDS + word)
    }
}

impl<const PER_LINE: u32> At<Line<PER_LINE>> for Counters {
    #[inline(always)]
    fn look(page: &Page<Self>, line: Line<PER_LINE>) -> u64 {
        let Some(planes) = page.get(line.number) else { return 0 };
        if let Some(first) = planes.first_chunk() { line.mask(first) } else { 0 }
    }

    #[inline(always)]
    fn set(page: &mut Page<Self>, line: Line<PER_LINE>, (): ()) -> u32 {
        let Some(planes) = page.get_mut(line.number) else { return 0 };
        let mut clear = 0;
        for probe in 0..PER_LINE {
            clear += count_up_at(planes, line.probe(probe));
        }
        if line.has_one_more { clear + count_up_at(planes, line.probe(PER_LINE)) } else { clear }
    }

    #[inline(always)]
    fn unset(page: &mut Page<Self>, line: Line<PER_LINE>) -> Option<u32> {
        let planes = page.get_mut(line.number)?;
        let mut cleared = 0;
        for probe in 0..PER_LINE + u32::from(line.has_one_more) {
            let (word, bit) = line.probe(probe);
            let Some(count) = count_down(planes, word, 1 << bit) else {
                // A counter that was counted down was not full, so counting it up again restores it.
                for probe in 0..probe {
                    count_up_at(planes, line.probe(probe));
                }
                return None;
            };
            cleared += count;
        }
        Some(cleared)
    }

    #[inline(always)]
    fn word(page: &Page<Self>, line: Line<PER_LINE>, plane: usize) -> Option<&u64> {
        page.get(line.number)?.get(plane * PLANE_WORDS)
    }
}

/// Returns the line of a position, and the word and the bit within each of its planes.
#[inline(always)]
fn place(position: u64) -> (usize, usize, u64) {
    let line = usize::try_from(position / LINE_BITS).unwrap_or(usize::MAX);
    (line, (position / 64) as usize % PLANE_WORDS, 1 << (position % 64))
}

/// Increments the counter of a probe; see [`count_up`].
#[inline(always)]
fn count_up_at(planes: &mut Planes, (word, bit): (usize, u64)) -> u32 {
    count_up(planes, word, 1 << bit)
}

/// Increments one counter of a line, unless it is full. Returns 1 if it was 0, else 0.
#[inline(always)]
fn count_up(planes: &mut Planes, word: usize, mask: u64) -> u32 {
    let [first, ones, twos, fours] = planes.as_chunks_mut::<PLANE_WORDS>().0 else { return 0 };
    let (Some(first), Some(ones), Some(twos), Some(fours)) =
        (first.get_mut(word), ones.get_mut(word), twos.get_mut(word), fours.get_mut(word))
    else {
        return 0;
    };
    let seen = *first & mask;
    *first |= mask;
    // Most counters are 0 or 1, so the lines of the other planes, which may be far away, are seldom needed.
    if *ones & mask == 0 {
        *ones |= seen;
    } else if *twos & mask == 0 {
        *ones ^= mask;
        *twos ^= mask;
    } else if *fours & mask == 0 {
        *ones ^= mask;
        *twos ^= mask;
        *fours ^= mask;
    }
    (seen == 0).into()
}

/// Decrements one counter of a line, unless it is full. Returns 1 if it is 0 now, else 0; `None` if it was 0 before.
#[inline(always)]
fn count_down(planes: &mut Planes, word: usize, mask: u64) -> Option<u32> {
    let [first, ones, twos, fours] = planes.as_chunks_mut::<PLANE_WORDS>().0 else { return None };
    let (first, ones, twos, fours) =
        (first.get_mut(word)?, ones.get_mut(word)?, twos.get_mut(word)?, fours.get_mut(word)?);
    if *first & mask == 0 {
        return None;
    }
    let (any, all) = (*ones | *twos | *fours, *ones & *twos & *fours);
    let becomes_clear = mask & !any;
    // A borrow goes from one plane to the next if the bit was 0 and is 1 now.
    let borrow = mask & any & !all;
    *first ^= becomes_clear;
    // Most counters are 1. A store would make the line dirty although nothing in it changes.
    if borrow != 0 {
        *ones ^= borrow;
        let borrow = borrow & *ones;
        *twos ^= borrow;
        *fours ^= borrow & *twos;
    }
    Some((becomes_clear != 0).into())
}

/// Adds the counters of a line to those of another line, up to full. Returns how many more are above 0.
pub(super) fn add_line(to: &mut Planes, from: &Planes) -> u64 {
    let before = set_in(to);
    let (to_planes, from_planes) = (to.as_chunks_mut::<PLANE_WORDS>().0, from.as_chunks::<PLANE_WORDS>().0);
    let ([first, ones, twos, fours], [from_first, from_ones, from_twos, from_fours]) =
        (to_planes, from_planes)
    else {
        return 0;
    };
    for word in 0..PLANE_WORDS {
        let own = [&mut *first, &mut *ones, &mut *twos, &mut *fours].map(|plane| plane.get_mut(word));
        let other = [from_first, from_ones, from_twos, from_fours].map(|plane| plane.get(word));
        let ([Some(first), Some(ones), Some(twos), Some(fours)], [Some(a), Some(b), Some(c), Some(d)]) =
            (own, other)
        else {
            continue;
        };
        // The planes after the first hold the count minus 1, so if both counters are above 0, one is carried in.
        let mut carry = *first & a;
        *first |= a;
        for (own, other) in [(&mut *ones, b), (&mut *twos, c), (&mut *fours, d)] {
            let sum = *own ^ other;
            let next = (*own & other) | (sum & carry);
            *own = sum ^ carry;
            carry = next;
        }
        *ones |= carry;
        *twos |= carry;
        *fours |= carry;
    }
    set_in(to).saturating_sub(before)
}

/// Returns the number of counters of a line that are above 0.
fn set_in(planes: &Planes) -> u64 {
    planes.first_chunk::<PLANE_WORDS>().map_or(0, |first| ones(first))
}

/// Returns whether a line is valid: a counter with a clear first bit has no other bit.
fn are_counters(line: &[u8; LINE_BYTES]) -> bool {
    let (first, others) = line.split_at(PLANE_WORDS * 8);
    others.chunks(first.len()).all(|plane| plane.iter().zip(first).all(|(other, first)| other & !first == 0))
}

/// The state of a layer of counters besides its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountersState {
    /// Adds minus deletions. The items of the layer count each item once, as far as that is known.
    pub occurrences: u64,
    /// Number of counters above 0 at which the layer is full, even with a lower count of items: slightly more than
    /// its capacity of items sets. A layer reaches it when items come and go: an item that was a false positive when
    /// it was added, and counters that are full, stay set when other items are deleted.
    full_cells: u64,
}

impl CountersState {
    /// Returns the state of an empty layer of this shape.
    #[must_use]
    pub fn new(shape: &Shape) -> Self {
        Self { occurrences: 0, full_cells: shape.full_cells() }
    }

    /// Returns the state of this layer when it is empty.
    #[must_use]
    pub const fn emptied(self) -> Self {
        Self { occurrences: 0, ..self }
    }

    /// Returns the number of counters above 0 at which the layer is full.
    #[must_use]
    #[inline(always)]
    pub const fn full_cells(&self) -> u64 {
        self.full_cells
    }

    /// Counts adds.
    #[inline(always)]
    pub(in crate::bloom) fn count(&mut self, occurrences: u64) {
        self.occurrences = self.occurrences.saturating_add(occurrences).min(LAYER_OCCURRENCES_MAX);
    }
}
