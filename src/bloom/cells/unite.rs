//! Merges the cells of one layer into another layer of the same shape.

use super::bits::PAGE_WORDS;
use super::columns::in_each_position;
use super::counters::Planes;
use super::occupancy::{BLOCK_WORDS, Occupancy};
use super::storage::Cells;
use super::{Cell, CellState, Columns, Counters};
use crate::bloom::memory::Memory;
use crate::bloom::window::columns_up_to;

impl Cells {
    /// Merges the cells of `other`, which has the same shape: sets its bits, adds its counters, or merges its columns
    /// generation by generation. Cells of another type or length change nothing. O(bytes that may be set).
    pub(in crate::bloom) fn unite(&mut self, other: &Self, memory: impl Memory) {
        if self.size_bits() != other.size_bits() {
            return;
        }
        let positions = other.view().words.len() as u64 * other.state().cell_type().measures().word_positions;
        match (self.state_mut(), other.state()) {
            (CellState::Bits, CellState::Bits) => self.unite_bits(other, memory),
            (CellState::Burst(state), CellState::Burst(of_other)) => {
                state.history.unite(&of_other.history, positions);
                self.unite_bits(other, memory);
            }
            (CellState::Counters(_), CellState::Counters(_)) => self.add_counters(other),
            (CellState::Columns(state), CellState::Columns(of_other)) => {
                state.history.unite(&of_other.history, positions);
                let bytes = other.bytes().split_at_checked(other.cell_words().saturating_mul(8));
                let (cells, stamps) = bytes.unwrap_or_default();
                // No region of a layer is newer than the layer.
                let is_united = Columns::add_segment(self, 0, cells, stamps);
                debug_assert!(is_united);
            }
            _ => {}
        }
    }

    /// Sets the bits that are set in `other`, which has the same number of bits. Does not touch memory for clear
    /// pages of `other`.
    fn unite_bits(&mut self, other: &Self, memory: impl Memory) {
        let mut new_bits = 0;
        let occupancy = Occupancy::of(other, memory);
        let blocks = other.words().chunks(BLOCK_WORDS);
        for (number, (to, from)) in self.words_mut().chunks_mut(BLOCK_WORDS).zip(blocks).enumerate() {
            if occupancy.is_clear_block(number) {
                continue;
            }
            for (to, from) in to.chunks_mut(PAGE_WORDS).zip(from.chunks(PAGE_WORDS)) {
                // First checks whether any bit would be set. Writing to a page copies it while a child saves, and
                // takes memory if the page was never written to.
                let page_bits = beyond(to, from);
                if page_bits > 0 {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
                    new_bits += page_bits;
                }
            }
        }
        self.count_set(new_bits);
    }

    /// Adds the counters of `other`, position by position. Does not touch memory for clear lines of `other`.
    fn add_counters(&mut self, other: &Self) {
        let mut set_cells = 0;
        let lines = Counters::lines_mut(self.words_mut()).iter_mut();
        for (to, from) in lines.zip(Counters::lines(other.words())) {
            if from.iter().any(|word| *word != 0) {
                set_cells += super::counters::add_line(to, from);
            }
        }
        self.count_set(set_cells);
    }

    /// Returns how many cells are set in `other` and clear here. `other` must have the same shape and no columns.
    /// O(bytes).
    #[must_use]
    pub(in crate::bloom) fn count_beyond(&self, other: &Self) -> u64 {
        if let CellState::Counters(_) = self.state() {
            let first = |line: &Planes| line.first_chunk::<8>().copied().unwrap_or_default();
            let lines = Counters::lines(self.words()).iter().zip(Counters::lines(other.words()));
            return lines.map(|(to, from)| beyond(&first(to), &first(from))).sum();
        }
        let pages = self.words().chunks(PAGE_WORDS).zip(other.words().chunks(PAGE_WORDS));
        pages.map(|(to, from)| beyond(to, from)).sum()
    }

    /// Returns whether merging `other`, bits or columns of the same shape, would set nothing. Stops at the first bit
    /// that it would set. O(bytes).
    #[must_use]
    pub(in crate::bloom) fn covers(&self, other: &Self) -> bool {
        let (own, others) = (self.view(), other.view());
        if self.size_bits() != other.size_bits() {
            return false;
        }
        if own.stamps.is_empty() {
            let mut words = own.words.iter().zip(others.words);
            return other.set_cells() <= self.set_cells() && words.all(|(to, from)| from & !to == 0);
        }
        let region_words = (self.region_bytes() / 8).max(1);
        let own = own.words.chunks(region_words).zip(own.stamps);
        let mut regions = own.zip(others.words.chunks(region_words).zip(others.stamps));
        regions.all(|((to, own), (from, stamp))| {
            let kept = in_each_position(columns_up_to(*stamp, *own));
            stamp <= own && to.iter().zip(from).all(|(to, from)| from & kept & !to == 0)
        })
    }
}

/// Returns how many bits of the page `from` are not in `to`.
fn beyond(to: &[u64], from: &[u64]) -> u64 {
    to.iter().zip(from).map(|(to, from)| u64::from((from & !to).count_ones())).sum()
}
