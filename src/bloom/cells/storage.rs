//! The memory of a layer, for all cell types.

use std::ops::Range;

use bitvec::prelude::{BitSlice, Lsb0};

use super::occupancy::Occupancy;
use super::{Cell, CellState, CountersState, Purpose, TimedState, with_cells};
use crate::bloom::engine::{View, ViewMut};
use crate::bloom::memory::{Memory, OutOfMemory};

/// Words before the cells of a layer with a head.
const HEAD_WORDS: usize = 6;
/// Bytes that fit before the cells of a layer with a head.
pub const HEAD_BYTES: usize = HEAD_WORDS * 8;

/// Consecutive cells of a layer, as in a string of a snapshot or in a chunk of a dump.
#[derive(Clone, Debug)]
pub struct Segment<'s> {
    /// Its start, in bytes from the start of the layer's first segment.
    pub offset: usize,
    /// The range of its cells in the [bytes](Cells::bytes) of the layer.
    pub range: Range<usize>,
    /// Its cells.
    pub cells: &'s [u8],
    /// Words of 64 bits that belong to the cells but are stored elsewhere: the stamps of regions. Empty in most
    /// layers.
    pub stamps: &'s [u8],
}

/// The cells of a layer: words of 64 bits, least significant bit first. As bytes, bit `i` is bit `i % 8` of byte `i /
/// 8`.
///
/// Some layers have space for a head of [`HEAD_BYTES`] before the cells, in the same allocation. Another module's
/// format may need a string of its own fields followed by the cells; with the head such a layer is written without a
/// copy.
#[derive(Debug)]
pub struct Cells {
    /// The head, if any, and the cells.
    words: Box<[u64]>,
    counts: Counts,
    state: CellState,
}

/// Three numbers in one word, because separate words would make every layer larger. From the lowest bit on: whether
/// there is a head, the number of bits of the last word that are not cells, and the number of set cells.
#[derive(Clone, Copy, Debug)]
struct Counts(u64);

impl Counts {
    const UNUSED_SHIFT: u32 = 1;
    const SET_SHIFT: u32 = 7;

    /// Returns the counts of clear cells that end `unused_bits` before the end of the last word.
    const fn new(has_head: bool, unused_bits: u64) -> Self {
        Self((unused_bits % 64) << Self::UNUSED_SHIFT | has_head as u64)
    }

    #[inline(always)]
    const fn has_head(self) -> bool {
        self.0 & 1 == 1
    }

    const fn unused_bits(self) -> u64 {
        (self.0 >> Self::UNUSED_SHIFT) & 63
    }

    #[inline(always)]
    const fn set_cells(self) -> u64 {
        self.0 >> Self::SET_SHIFT
    }

    /// Adds to the number of set cells, wrapping.
    #[inline(always)]
    const fn add_set(&mut self, more: u64) {
        self.0 = self.0.wrapping_add(more << Self::SET_SHIFT);
    }
}

impl Cells {
    /// Creates cells of `size_bits` clear bits, with or without a head. The memory is zeroed lazily: a large layer
    /// takes no memory until its bits are set.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the allocation fails.
    pub fn try_new(state: CellState, size_bits: u64, has_head: bool) -> Result<Self, OutOfMemory> {
        let head_words = if has_head { HEAD_WORDS } else { 0 };
        let size_bits = usize::try_from(size_bits).map_err(|_| OutOfMemory)?;
        let words = size_bits.div_ceil(64).checked_add(head_words).ok_or(OutOfMemory)?;
        let words = bytemuck::try_zeroed_slice_box(words).map_err(|()| OutOfMemory)?;
        let unused_bits = size_bits.wrapping_neg() % 64;
        Ok(Self { words, counts: Counts::new(has_head, unused_bits as u64), state })
    }

    /// Makes a copy with its own memory. Like the original, it has no memory behind pages that are all zero. O(bytes
    /// that may be set).
    ///
    /// # Errors
    /// [`OutOfMemory`] if the allocation fails.
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        let mut copy = Self::try_new(self.state.clone(), self.size_bits(), self.has_head())?;
        Occupancy::of(self, memory).copy(self.words(), copy.words_mut());
        copy.counts = self.counts;
        Ok(copy)
    }

    /// Returns the state, with the cell type.
    #[must_use]
    #[inline(always)]
    pub const fn state(&self) -> &CellState {
        &self.state
    }

    /// Returns the mutable state, for relocation.
    pub(in crate::bloom) const fn state_mut(&mut self) -> &mut CellState {
        &mut self.state
    }

    /// Returns the state of cells whose items expire; `None` for other cells.
    #[must_use]
    #[inline(always)]
    pub fn timed(&self) -> Option<&TimedState> {
        if let CellState::Columns(state) | CellState::Burst(state) = &self.state { Some(state) } else { None }
    }

    /// Returns the mutable state of cells whose items expire; `None` for other cells.
    pub fn timed_mut(&mut self) -> Option<&mut TimedState> {
        if let CellState::Columns(state) | CellState::Burst(state) = &mut self.state {
            Some(state)
        } else {
            None
        }
    }

    /// Returns the state of counters; `None` for other cells.
    #[must_use]
    #[inline(always)]
    pub fn counters(&self) -> Option<&CountersState> {
        if let CellState::Counters(state) = &self.state { Some(state) } else { None }
    }

    /// Returns the mutable state of counters; `None` for other cells.
    pub fn counters_mut(&mut self) -> Option<&mut CountersState> {
        if let CellState::Counters(state) = &mut self.state { Some(state) } else { None }
    }

    /// Returns the number of bits of all cells. O(1).
    #[must_use]
    pub fn size_bits(&self) -> u64 {
        (self.words().len() as u64).saturating_mul(64).saturating_sub(self.counts.unused_bits())
    }

    /// Returns the number of bytes of all cells. O(1).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bits().div_ceil(8)
    }

    /// Returns the number of set cells. In columns these are set bits and regions with a stamp. O(1).
    #[must_use]
    #[inline(always)]
    pub fn set_cells(&self) -> u64 {
        self.counts.set_cells()
    }

    /// Adds `more` to the number of set cells, wrapping.
    #[inline(always)]
    pub(in crate::bloom) fn count_set(&mut self, more: u64) {
        self.counts.add_set(more);
    }

    /// Returns whether there is space for a head. O(1).
    #[must_use]
    pub const fn has_head(&self) -> bool {
        self.counts.has_head()
    }

    const fn head_words(&self) -> usize {
        if self.has_head() { HEAD_WORDS } else { 0 }
    }

    /// Returns the words of the cells. The bits of the last word after the end are clear.
    #[must_use]
    #[inline(always)]
    pub fn words(&self) -> &[u64] {
        // A branch that always goes the same way costs less than an offset of zero.
        if self.has_head() { behind_head(&self.words) } else { &self.words }
    }

    #[inline(always)]
    pub(in crate::bloom) fn words_mut(&mut self) -> &mut [u64] {
        if self.has_head() { behind_head_mut(&mut self.words) } else { &mut self.words }
    }

    /// Returns the cells and the stamps of their regions.
    #[inline(always)]
    pub(in crate::bloom) fn view(&self) -> View<'_> {
        let words = self.words();
        let Some(state) = self.timed() else { return View { words, stamps: &[] } };
        let cells = words.len().saturating_sub(state.stamps());
        let (words, stamps) = words.split_at_checked(cells).unwrap_or_default();
        View { words, stamps }
    }

    /// Returns the same as [`view`](Self::view) for cells of bits, which have no stamps.
    #[inline(always)]
    pub(in crate::bloom) fn view_of_bits(&self) -> View<'_> {
        View { words: self.words(), stamps: &[] }
    }

    /// Returns the mutable cells and stamps of their regions.
    #[inline(always)]
    pub(in crate::bloom) fn view_mut(&mut self) -> ViewMut<'_> {
        let regions = self.timed().map(TimedState::stamps);
        let words = self.words_mut();
        let Some(regions) = regions else { return ViewMut { words, stamps: &mut [] } };
        let cells = words.len().saturating_sub(regions);
        let (words, stamps) = words.split_at_mut_checked(cells).unwrap_or_default();
        ViewMut { words, stamps }
    }

    /// Returns the cells as bytes, in the order in which they are saved.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let bytes: &[u8] = bytemuck::cast_slice(self.words());
        usize::try_from(self.size_bytes()).ok().and_then(|size| bytes.get(..size)).unwrap_or(bytes)
    }

    /// Returns the bytes of `head` followed by the cells; `None` if there is no space for the head.
    pub fn bytes_behind(&mut self, head: &[u8]) -> Option<&[u8]> {
        let head_bytes = self.head_words() * 8;
        let start = head_bytes.checked_sub(head.len())?;
        let end = head_bytes.checked_add(usize::try_from(self.size_bytes()).ok()?)?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        bytes.get_mut(start..head_bytes)?.copy_from_slice(head);
        bytes.get(start..end)
    }

    /// Returns the bits of the cells as a slice, for code that need not be fast.
    #[must_use]
    pub fn bit_view(&self) -> &BitSlice<u64, Lsb0> {
        let size_bits = usize::try_from(self.size_bits()).unwrap_or(usize::MAX);
        BitSlice::from_slice(self.words()).get(..size_bits).unwrap_or_default()
    }

    /// Returns the block of the allocator, including the head.
    #[must_use]
    #[inline(always)]
    pub fn allocation(&self) -> &[u64] {
        &self.words
    }

    /// Lets `relocate` move the block, as active defragmentation does. It must return the same words.
    pub fn relocate(&mut self, relocate: impl FnOnce(Box<[u64]>) -> Box<[u64]>) {
        self.words = relocate(std::mem::take(&mut self.words));
    }

    /// Returns how many words after the cells are stamps.
    #[inline(always)]
    fn stamp_words(&self) -> usize {
        self.timed().map_or(0, TimedState::stamps)
    }

    /// Returns how many words of a spot, one line apart, a purpose needs.
    pub(in crate::bloom) fn planes(&self, purpose: Purpose) -> u32 {
        with_cells!(self.state, C => C::planes(purpose))
    }

    /// Returns the number of set cells whose first bit is in these words. For all words that is
    /// [`set_cells`](Self::set_cells). If the sum over all blocks of 64 KiB equals it, blocks without such a cell are
    /// clear. O(words).
    #[must_use]
    pub fn set_cells_in(&self, range: Range<usize>) -> u64 {
        let start = range.start;
        let words = self.words().get(range).unwrap_or_default();
        let stamps_from = self.words().len().saturating_sub(self.stamp_words());
        with_cells!(self.state, C => C::count_set(words, start, stamps_from))
    }

    /// Checks the rules of the cell type, and that the number of set cells is correct. O(bytes).
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn validate(&self) -> Result<(), &'static str> {
        if let Some(rule) = with_cells!(self.state, C => C::broken_rule(self)) {
            return Err(rule);
        }
        let is_counted = self.set_cells_in(0..self.words().len()) == self.set_cells();
        if is_counted { Ok(()) } else { Err("set bits") }
    }

    /// Returns the segment of at most `most_bytes`, including stamps, that begins at byte `offset`, or at the last
    /// possible start before it; `None` past the end. Cells with stamps are cut into whole regions. O(1).
    #[must_use]
    pub fn segment(&self, offset: usize, most_bytes: usize) -> Option<Segment<'_>> {
        let regions = self.stamp_words();
        if regions == 0 {
            let rest = self.bytes().get(offset..)?;
            let cells = rest.get(..most_bytes.min(rest.len())).filter(|cells| !cells.is_empty())?;
            return Some(Segment {
                offset,
                range: offset..offset.saturating_add(cells.len()),
                cells,
                stamps: &[],
            });
        }
        let (cell_bytes, stamp_bytes) = self.bytes().split_at_checked(self.cell_words().checked_mul(8)?)?;
        let (bytes_each, stamped_bytes) = (self.region_bytes(), self.stamped_region_bytes());
        let first = offset / stamped_bytes;
        let rest = regions.checked_sub(first).filter(|rest| *rest > 0)?;
        let count = (most_bytes / stamped_bytes).clamp(1, rest);
        let part = |bytes_each: usize| {
            let start = first.checked_mul(bytes_each)?;
            Some(start..start.checked_add(count.checked_mul(bytes_each)?)?)
        };
        let (range, stamps) = (part(bytes_each)?, stamp_bytes.get(part(STAMP_BYTES)?)?);
        let offset = first.checked_mul(stamped_bytes)?;
        Some(Segment { offset, cells: cell_bytes.get(range.clone())?, range, stamps })
    }

    /// Returns how many bytes at the end of a segment of `segment_bytes` are stamps. O(1).
    #[must_use]
    pub fn stamp_bytes_of(&self, segment_bytes: usize) -> usize {
        if self.stamp_words() == 0 { 0 } else { segment_bytes / self.stamped_region_bytes() * STAMP_BYTES }
    }

    /// Adds a segment that begins at byte `offset`, with its stamps after its cells; see [`Cell::add_segment`].
    /// O(bytes).
    #[must_use]
    pub fn add_segment(&mut self, offset: usize, segment: &[u8]) -> bool {
        let cell_bytes = segment.len().saturating_sub(self.stamp_bytes_of(segment.len()));
        let (cells, stamps) = segment.split_at_checked(cell_bytes).unwrap_or_default();
        self.add_parts(offset, cells, stamps)
    }

    /// Adds the cells and the stamps of a segment that begins at byte `offset`; see [`Cell::add_segment`]. O(bytes).
    #[must_use]
    pub fn add_parts(&mut self, offset: usize, cells: &[u8], stamps: &[u8]) -> bool {
        with_cells!(self.state, C => C::add_segment(self, offset, cells, stamps))
    }

    /// Returns the number of words without stamps.
    pub(super) fn cell_words(&self) -> usize {
        self.words().len().saturating_sub(self.stamp_words())
    }

    /// Returns the bytes of the cells of one region with a stamp.
    pub(super) fn region_bytes(&self) -> usize {
        self.cell_words() / self.stamp_words().max(1) * 8
    }

    /// Returns the bytes of one region including its stamp.
    pub(super) fn stamped_region_bytes(&self) -> usize {
        self.region_bytes().saturating_add(STAMP_BYTES)
    }
}

/// Returns the words after the head.
#[cold]
fn behind_head(words: &[u64]) -> &[u64] {
    words.get(HEAD_WORDS..).unwrap_or_default()
}

/// Returns the mutable words after the head.
#[cold]
fn behind_head_mut(words: &mut [u64]) -> &mut [u64] {
    words.get_mut(HEAD_WORDS..).unwrap_or_default()
}

/// Bytes of a stamp.
pub(super) const STAMP_BYTES: usize = 8;

/// Returns the number of set bits. O(words).
pub(super) fn ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}
