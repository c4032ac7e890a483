//! The storage of a layer of counters: lines of them, one after another.

use std::ops::Range;

use super::line::{
    COUNTER_BITS, LINE_WORDS, PLANES_BYTES, PLANES_WORDS, Planes, are_counters, count_ones, first_plane,
    place, words_of,
};
use crate::bloom::memory::{Memory, OutOfMemory};
use crate::bloom::occupancy::Occupancy;
use crate::bloom::storage::Storage;

/// The counters of a layer.
#[derive(Debug)]
pub struct Counters {
    words: Box<[u64]>,
    /// Counters above 0.
    set: u64,
    /// Distinct items, as far as they are known: those that were new when they were added, less those that were gone when
    /// they were deleted. Of either the counters show all but a share of the error rate.
    pub distinct_items: u64,
    /// Changes so far, which tell states apart: items come and go, so the counters above 0 do not.
    changes: u64,
}

impl Counters {
    /// Number of counters.
    #[must_use]
    pub fn positions(&self) -> u64 {
        self.words.len() as u64 * 64 / COUNTER_BITS
    }

    /// Returns the count at a position, 0 to [`COUNT_FULL`](super::COUNT_FULL); 0 for a position outside the array.
    #[must_use]
    pub fn count(&self, position: u64) -> u32 {
        let (line, word, mask) = place(position);
        let Some(planes) = self.lines().get(line) else { return 0 };
        let plane = |number: usize| {
            let word = planes.get(number * LINE_WORDS + word);
            u32::from(word.is_some_and(|word| word & mask != 0))
        };
        plane(0) + plane(1) + 2 * plane(2) + 4 * plane(3)
    }

    /// The planes of every line.
    pub(super) fn lines(&self) -> &[Planes] {
        self.words.as_chunks().0
    }

    /// In the lowest place 1 where the counter at a position is above 0, else 0; other bits above it.
    #[inline(always)]
    pub(super) fn first_bit(&self, position: u64) -> u64 {
        let (line, word, _) = place(position);
        self.lines()
            .get(line)
            .and_then(|planes| first_plane(planes)?.get(word))
            .map_or(0, |word| word >> (position % 64))
    }

    /// Lets `change` change counters, and count how many more, or fewer, of them are above 0 afterwards.
    #[inline(always)]
    pub(super) fn update<T>(&mut self, change: impl FnOnce(&mut [Planes], &mut u64) -> T) -> T {
        let Self { words, set, changes, .. } = self;
        *changes = changes.wrapping_add(1);
        change(words.as_chunks_mut().0, set)
    }
}

impl Storage for Counters {
    /// Of whole lines; a size of others is rounded down.
    fn try_empty(size_bits: u64, _has_head: bool) -> Result<Self, OutOfMemory> {
        let words = usize::try_from(size_bits / 64).map_err(|_| OutOfMemory)?;
        let words = words - words % PLANES_WORDS;
        let words = bytemuck::try_zeroed_slice_box(words).map_err(|()| OutOfMemory)?;
        Ok(Self { words, set: 0, distinct_items: 0, changes: 0 })
    }

    fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        let mut copy = Self::try_empty(self.size_bits(), false)?;
        Occupancy::of(self, memory).copy(&self.words, &mut copy.words);
        copy.set = self.set;
        copy.distinct_items = self.distinct_items;
        Ok(copy)
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
        let start = words.start;
        let words = self.words.get(words).unwrap_or_default().iter().zip(start..);
        let first_planes = words.filter(|(_, index)| index % PLANES_WORDS < LINE_WORDS);
        first_planes.map(|(word, _)| u64::from(word.count_ones())).sum()
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

    /// Adds counters to others bit by bit, which is exact where one of the two is 0 or both are equal. Takes whole lines
    /// only, in which no counter of 0 has another bit.
    fn add_segment(&mut self, offset: usize, cells: &[u8], stamps: &[u8]) -> bool {
        let (lines, rest) = cells.as_chunks::<PLANES_BYTES>();
        let are_whole = rest.is_empty() && offset.is_multiple_of(PLANES_BYTES);
        if !are_whole || !stamps.is_empty() || !lines.iter().all(are_counters) {
            return false;
        }
        let rest = self.words.get_mut(offset / 8..);
        let Some(target) = rest.and_then(|words| words.get_mut(..cells.len() / 8)) else { return false };
        let mut set = 0;
        for (to, from) in target.as_chunks_mut::<PLANES_WORDS>().0.iter_mut().zip(lines) {
            // Memory behind clear lines is not touched, so a sparse array stays cheap.
            if from.iter().all(|byte| *byte == 0) {
                continue;
            }
            let ones = |line: &Planes| first_plane(line).map_or(0, count_ones);
            let before = ones(to);
            to.iter_mut().zip(words_of(from)).for_each(|(to, from)| *to |= from);
            set += ones(to).saturating_sub(before);
        }
        self.set = self.set.saturating_add(set);
        self.changes = self.changes.wrapping_add(1);
        true
    }

    fn broken_rule(&self) -> Option<&'static str> {
        if self.bytes().as_chunks().0.iter().all(are_counters) { None } else { Some("counters") }
    }

    fn relocate(&mut self, relocate: &mut dyn FnMut(Box<[u64]>) -> Box<[u64]>) {
        self.words = relocate(std::mem::take(&mut self.words));
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::{COUNT_FULL, LINE_POSITIONS, count_down, count_up};
    use super::*;
    use crate::bloom::memory::UnknownMemory;

    fn counters() -> Counters {
        Counters::try_empty(3 * LINE_POSITIONS * COUNTER_BITS, false).unwrap()
    }

    fn up(counters: &mut Counters, position: u64) -> bool {
        let (line, word, mask) = place(position);
        counters.update(|lines, set| {
            let was_clear = count_up(&mut lines[line], word, mask);
            *set += u64::from(was_clear);
            was_clear
        })
    }

    fn down(counters: &mut Counters, position: u64) -> Option<bool> {
        let (line, word, mask) = place(position);
        counters.update(|lines, set| {
            let is_clear = count_down(&mut lines[line], word, mask);
            *set -= u64::from(is_clear == Some(true));
            is_clear
        })
    }

    #[test]
    fn a_counter_counts_to_eight_and_stays_there_and_below_that_counts_back_to_nothing() {
        for position in [0, 63, 64, 511, 512, 3 * LINE_POSITIONS - 1] {
            let mut counters = counters();
            assert_eq!(down(&mut counters, position), None);
            for top in 1..COUNT_FULL {
                for count in 0..top {
                    assert_eq!(
                        (counters.count(position), counters.set_bits()),
                        (count, u64::from(count > 0))
                    );
                    assert_eq!(up(&mut counters, position), count == 0);
                }
                for count in (0..top).rev() {
                    assert_eq!(down(&mut counters, position), Some(count == 0), "from {}", count + 1);
                    assert_eq!(counters.count(position), count);
                }
                assert!(counters.words().iter().all(|word| *word == 0));
            }
            (0..COUNT_FULL + 3).for_each(|count| assert_eq!(up(&mut counters, position), count == 0));
            for _ in 0..2 * COUNT_FULL {
                assert_eq!(counters.count(position), COUNT_FULL);
                assert_eq!(down(&mut counters, position), Some(false));
            }
            assert_eq!(counters.set_bits(), 1);
            assert_eq!(counters.first_bit(position) & 1, 1);
        }
    }

    #[test]
    fn neighbours_do_not_touch_one_another() {
        let mut counters = counters();
        for position in 0..counters.positions() {
            assert_eq!(
                (0..position % 11).filter(|_| up(&mut counters, position)).count() > 0,
                position % 11 > 0
            );
        }
        for position in 0..counters.positions() {
            assert_eq!(u64::from(counters.count(position)), (position % 11).min(COUNT_FULL.into()));
        }
        let copy = counters.try_clone(UnknownMemory).unwrap();
        assert_eq!((copy.words(), copy.set_bits()), (counters.words(), counters.set_bits()));
        assert_eq!(counters.set_cells_in(0..counters.words().len()), counters.set_bits());
    }

    #[test]
    fn bytes_that_are_no_counters_or_no_whole_lines_are_refused_and_others_add_up_exactly() {
        let mut from = counters();
        for position in [0, 5, 5, 5, 700, 700, 1535] {
            up(&mut from, position);
        }
        let bytes = from.bytes().to_vec();
        let mut to = counters();
        for (offset, data) in
            [(0, &bytes[..255]), (8, &bytes[..256]), (256, &bytes[..]), (usize::MAX, &bytes[..256])]
        {
            assert!(!to.add_segment(offset, data, &[]), "{} bytes at {offset}", data.len());
        }
        let mut wrong = bytes.clone();
        wrong[64] |= 2;
        assert!(!to.add_segment(0, &wrong, &[]) && !to.add_segment(0, &bytes, &[0; 8]));
        assert!(to.words().iter().all(|word| *word == 0));
        for _ in 0..2 {
            for (index, line) in bytes.chunks(256).enumerate() {
                assert!(to.add_segment(index * 256, line, &[]));
            }
            assert_eq!((to.bytes(), to.set_bits()), (&bytes[..], from.set_bits()));
        }
    }
}
