//! A layer: cells, the hash and layout of their items, and item counts.

use std::ops::Range;

use super::cells::{CellState, Cells};
use super::hash::Hash;
use super::memory::{Memory, OutOfMemory};
use super::placement::{Layout, Placement};
use super::sizing::Shape;
use super::window::{Moment, is_live};

/// The parameters of a layer to create.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSpec {
    /// The hash and layout of its items.
    pub placement: Placement,
    /// The cell type, and the state besides the cells.
    pub cells: CellState,
    /// Bits of all cells.
    pub size_bits: u64,
    /// Items it takes before it is full.
    pub capacity_items: u64,
    /// Whether there is space for a head before the cells.
    pub has_head: bool,
}

/// The changing part of a layer besides its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerCounts {
    /// Items added.
    pub items: u64,
    /// Cells set.
    pub set_cells: u64,
}

/// A layer of a filter.
#[derive(Debug)]
pub struct Layer {
    cells: Cells,
    capacity_items: u64,
    items: u64,
    placement: Placement,
}

impl Layer {
    /// Creates an empty layer.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the cells cannot be allocated.
    pub fn try_new(spec: LayerSpec) -> Result<Self, OutOfMemory> {
        let LayerSpec { placement, cells, size_bits, capacity_items, has_head } = spec;
        let cells = Cells::try_new(cells, size_bits, has_head)?;
        Ok(Self { cells, capacity_items, items: 0, placement })
    }

    /// Creates a layer of existing cells, which have the size in the spec.
    #[must_use]
    pub fn of_cells(spec: LayerSpec, cells: Cells) -> Self {
        Self { cells, capacity_items: spec.capacity_items, items: 0, placement: spec.placement }
    }

    /// Returns the parameters of the layer, as for an empty one.
    #[must_use]
    pub fn spec(&self) -> LayerSpec {
        LayerSpec {
            placement: self.placement.clone(),
            cells: self.cells.state().emptied(),
            size_bits: self.cells.size_bits(),
            capacity_items: self.capacity_items,
            has_head: self.cells.has_head(),
        }
    }

    /// Makes a copy with its own memory.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the cells cannot be allocated.
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        let (cells, placement) = (self.cells.try_clone(memory)?, self.placement.clone());
        Ok(Self { cells, placement, ..*self })
    }

    /// Returns the hash and layout.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Returns the hash of the items.
    #[must_use]
    #[inline(always)]
    pub fn hash(&self) -> &Hash {
        self.placement.hash()
    }

    /// Returns the layout: the positions of an item's probes.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.placement.layout()
    }

    /// Returns the cells.
    #[must_use]
    #[inline(always)]
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// Returns the mutable cells, for a decoder or for relocation.
    pub fn cells_mut(&mut self) -> &mut Cells {
        &mut self.cells
    }

    /// Returns the capacity in items.
    #[must_use]
    #[inline(always)]
    pub fn capacity_items(&self) -> u64 {
        self.capacity_items
    }

    /// Returns the number of items and of set cells.
    #[must_use]
    #[inline(always)]
    pub fn counts(&self) -> LayerCounts {
        LayerCounts { items: self.items, set_cells: self.cells.set_cells() }
    }

    /// Returns whether the layer has as many items as its capacity, or as many set cells as fill it.
    #[must_use]
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.items >= self.capacity_items || self.room_cells() == 0
    }

    /// Sets the number of items, for a decoder.
    pub fn set_items(&mut self, items: u64) {
        self.items = items;
    }

    /// Returns the number of positions that probes can reach.
    #[must_use]
    pub fn positions(&self) -> u64 {
        let (size_bits, state) = (self.cells.size_bits(), self.cells.state());
        match (state, self.layout()) {
            // If the layer was rounded up, or its modulus is a smaller power of two, the rest of the cells is never
            // set.
            (CellState::Bits, Layout::Modulo(layout)) => layout.modulus().divisor().min(size_bits),
            (CellState::Bits, _) => size_bits,
            _ => {
                let words = self.cells.view().words.len() as u64;
                words.saturating_mul(state.cell_type().measures().word_positions)
            }
        }
    }

    /// Returns the fixed parameters of the layer if its layout is one of everbloom's own.
    #[must_use]
    pub fn shape(&self) -> Option<Shape> {
        let cells = self.cells.state().cell_type();
        Shape::of(self.layout(), cells, self.positions(), self.capacity_items)
    }

    /// Returns the byte range of the layer in a dump, after layers that end at `end`. O(1).
    #[must_use]
    pub fn dump_range(&self, end: u64) -> Range<u64> {
        let start = self.address().unwrap_or(end);
        start..start.saturating_add(self.cells.size_bytes())
    }

    /// Returns the start of the layer in a dump if it does not follow from the layers before it.
    #[must_use]
    pub fn address(&self) -> Option<u64> {
        self.cells.timed().map(|state| state.address)
    }

    /// Returns whether this is a burst layer, for one generation.
    #[must_use]
    #[inline(always)]
    pub fn is_burst(&self) -> bool {
        matches!(self.cells.state(), CellState::Burst(_))
    }

    /// Returns whether this is a burst layer whose items have all expired. Columns expire one by one.
    #[inline(always)]
    pub(super) fn has_expired(&self, at: Moment) -> bool {
        matches!(self.cells.state(), CellState::Burst(state) if !is_live(state.history.newest, at.now))
    }

    /// Returns whether the layer has no items and no set cells.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let occurrences = self.cells.counters().map_or(0, |state| state.occurrences);
        self.counts() == LayerCounts::default() && occurrences == 0
    }

    /// Returns how many new items the layer takes before it is full.
    #[must_use]
    #[inline(always)]
    pub fn room_items(&self) -> u64 {
        self.capacity_items.saturating_sub(self.items)
    }

    /// Returns how many more cells may be set before the layer is full.
    #[inline(always)]
    pub(super) fn room_cells(&self) -> u64 {
        self.cells
            .counters()
            .map_or(u64::MAX, |state| state.full_cells().saturating_sub(self.cells.set_cells()))
    }

    pub(super) fn placement_mut(&mut self) -> &mut Placement {
        &mut self.placement
    }

    /// Sets the hash of the items, if the saved bytes did not determine it.
    pub(super) fn set_hash(&mut self, hash: Hash) {
        self.placement = Placement::new(hash, self.layout());
    }

    /// Adds `more` to the item count. Every counted item sets a clear cell, so there can be more items than cells
    /// only if bits were set without being counted. A client's count begins with an estimate and may be higher.
    #[inline(always)]
    pub(super) fn count_items(&mut self, more: u64) {
        let counted = self.items.saturating_add(more);
        let is_too_many = counted > self.cells.size_bits();
        self.items = if is_too_many { self.most_items(counted) } else { counted };
    }

    #[cold]
    fn most_items(&self, counted: u64) -> u64 {
        let is_clients = matches!(self.layout(), Layout::Scheme(_));
        if is_clients { counted } else { self.items.max(self.cells.size_bits()) }
    }

    /// Adds `items` to the item count and `occurrences` to the number of adds.
    #[inline(always)]
    pub(super) fn count_occurrences(&mut self, items: u64, occurrences: u64) {
        self.count_items(items);
        if let Some(state) = self.cells.counters_mut() {
            state.count(occurrences);
        }
    }

    /// Subtracts deleted items: `occurrences` from the number of adds, and `items`, which are certainly gone, from
    /// the item count.
    pub(super) fn count_deletions(&mut self, items: u64, occurrences: u64) {
        let Some(state) = self.cells.counters_mut() else { return };
        state.occurrences = state.occurrences.saturating_sub(occurrences);
        // Every item that is present has an occurrence.
        self.items = self.items.saturating_sub(items).min(state.occurrences);
    }
}
