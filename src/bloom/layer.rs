//! A layer: cells, the hash and layout of their items, and counts.

use std::ops::Range;

use super::batch::in_steps;
use super::cells::{Bits, CellState, Cells, Columns, Counters, Found, Purpose, with_cells};
use super::engine::{Engine, FoundEach, Inserted, Taken, Taking};
use super::group::ItemSet;
use super::hash::scheme::SchemeHash;
use super::hash::{Digest, Hash, ItemHash};
use super::layout::with_per_line;
use super::memory::{Memory, OutOfMemory};
use super::placement::{Layout, LayoutRef, Placement};
use super::prefetch::{Part, Prefetch};
use super::sizing::Shape;
use super::window::Moment;

/// A layer that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSpec {
    /// The hash and layout of its items.
    pub placement: Placement,
    /// What stands at a position.
    pub cells: CellState,
    /// Bits of all cells.
    pub size_bits: u64,
    /// Items it takes before it is full.
    pub capacity_items: u64,
    /// Whether there is space for a head in front of the cells.
    pub has_head: bool,
}

/// What changes about a layer beside its cells.
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
    /// Makes an empty layer.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the cells cannot be had.
    pub fn try_new(spec: LayerSpec) -> Result<Self, OutOfMemory> {
        let LayerSpec { placement, cells, size_bits, capacity_items, has_head } = spec;
        let cells = Cells::try_new(cells, size_bits, has_head)?;
        Ok(Self { cells, capacity_items, items: 0, placement })
    }

    /// Makes a layer of cells that are there already, of the size that the spec says.
    #[must_use]
    pub fn of_cells(spec: LayerSpec, cells: Cells) -> Self {
        Self { cells, capacity_items: spec.capacity_items, items: 0, placement: spec.placement }
    }

    /// Returns what the layer is made of, as if it were empty.
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
    /// [`OutOfMemory`] when the cells cannot be had.
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

    /// Returns where the probes of an item lie.
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

    /// Returns the cells, to be filled by a decoder or moved.
    pub fn cells_mut(&mut self) -> &mut Cells {
        &mut self.cells
    }

    /// Returns the items that the layer takes before it is full.
    #[must_use]
    #[inline(always)]
    pub fn capacity_items(&self) -> u64 {
        self.capacity_items
    }

    /// Returns items and set cells.
    #[must_use]
    #[inline(always)]
    pub fn counts(&self) -> LayerCounts {
        LayerCounts { items: self.items, set_cells: self.cells.set_cells() }
    }

    /// Returns whether the layer has taken as many items as it was sized for, or has as many cells set as fill it.
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
            // Of layers that were rounded up, or whose modulus is a smaller power of two, the rest is never set.
            (CellState::Bits, Layout::Modulo(layout)) => layout.modulus().divisor().min(size_bits),
            (CellState::Bits, _) => size_bits,
            _ => {
                let words = self.cells.view().words.len() as u64;
                words.saturating_mul(state.cell_type().measures().word_positions)
            }
        }
    }

    /// Returns what never changes about the layer, where its layout is one of our own.
    #[must_use]
    pub fn shape(&self) -> Option<Shape> {
        let cells = self.cells.state().cell_type();
        Shape::of(self.layout(), cells, self.positions(), self.capacity_items)
    }

    /// Returns where the layer lies in a dump, in bytes, behind layers that end at `end`. O(1).
    #[must_use]
    pub fn dump_range(&self, end: u64) -> Range<u64> {
        let start = self.address().unwrap_or(end);
        start..start.saturating_add(self.cells.size_bytes())
    }

    /// Returns where the layer begins in a dump, where that does not follow from the layers before it.
    #[must_use]
    pub fn address(&self) -> Option<u64> {
        self.cells.columns().map(|state| state.address)
    }

    /// Returns whether the layer has no items and no set cells.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let occurrences = self.cells.counters().map_or(0, |state| state.occurrences);
        self.counts() == LayerCounts::default() && occurrences == 0
    }

    /// Returns the new items that the layer takes before it is full.
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

    /// Sets the hash of the items, for a filter whose bytes do not say all about it.
    pub(super) fn set_hash(&mut self, hash: Hash) {
        self.placement = Placement::new(hash, self.layout());
    }

    /// Returns whether the item is there. O(probes).
    #[must_use]
    #[inline(always)]
    pub(super) fn contains<D: Probe>(&self, item: D, at: Moment, prefetch: impl Prefetch) -> bool {
        // What most layers are is a part of the caller, the rest a function: the compiler would compute beforehand what each layout
        // needs, wherever this is in a loop over layers.
        match (self.placement.probing(), self.cells.state(), item.pair()) {
            (LayoutRef::Scattered(layout), CellState::Bits, Some(pair)) => {
                let view = self.cells.view();
                match layout.probes() {
                    SCATTERED_PROBES => {
                        layout.with::<SCATTERED_PROBES>().contains::<Bits>(view, pair, at, prefetch)
                    }
                    _ => layout.contains::<Bits>(view, pair, at, prefetch),
                }
            }
            (LayoutRef::Modulo(layout), CellState::Bits, Some(pair)) => {
                layout.contains::<Bits>(self.cells.view(), pair, at, prefetch)
            }
            (LayoutRef::Prime(layout), CellState::Bits, Some(pair)) => {
                layout.contains::<Bits>(self.cells.view(), pair, at, prefetch)
            }
            _ => D::contains(self, item, at, prefetch),
        }
    }

    /// Adds an item. Returns whether it was new to the layer. O(probes).
    #[inline(always)]
    pub(super) fn insert<D: Probe>(&mut self, item: D, at: Moment, prefetch: impl Prefetch) -> bool {
        let Inserted { new_cells, set_cells } =
            match (self.placement.probing(), self.cells.state(), item.pair()) {
                // As above.
                (LayoutRef::Scattered(layout), CellState::Bits, Some(pair)) => {
                    let view = &mut self.cells.view_mut();
                    match layout.probes() {
                        SCATTERED_PROBES => {
                            layout.with::<SCATTERED_PROBES>().insert::<Bits>(view, pair, at, prefetch)
                        }
                        _ => layout.insert::<Bits>(view, pair, at, prefetch),
                    }
                }
                _ => D::insert(self, item, at, prefetch),
            };
        self.cells.count_set(set_cells);
        new_cells != 0
    }

    /// Adds items in turn, as long as the layer takes them. O(items * probes).
    #[inline(always)]
    pub(super) fn take_each<D: Probe>(&mut self, items: &[D], taking: Taking) -> Taken {
        let taken = D::take_each(self, items, taking);
        self.cells.count_set(taken.set_cells);
        taken
    }

    /// Removes an item from cells that count. Returns whether it was there. O(probes).
    pub(super) fn remove(&mut self, item: ItemHash) -> bool {
        if self.cells.counters().is_none() {
            return false;
        }
        let Some(cleared_cells) = self.unset(item) else { return false };
        self.cells.count_set(u64::from(cleared_cells).wrapping_neg());
        // The item is certainly gone where one of its counters is 0 now.
        self.count_deletions((cleared_cells > 0).into(), 1);
        true
    }

    /// Counts more items. Every item that is counted sets a cell that was clear, so more items than cells are met only where bits
    /// came without being counted; a client's count, which began with an estimate, may be higher.
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

    /// Counts more items, and so many adds of items.
    #[inline(always)]
    pub(super) fn count_occurrences(&mut self, items: u64, occurrences: u64) {
        self.count_items(items);
        if let Some(state) = self.cells.counters_mut() {
            state.count(occurrences);
        }
    }

    /// Counts items that were deleted: so many adds less, and an item less for each that is certainly gone.
    pub(super) fn count_deletions(&mut self, items: u64, occurrences: u64) {
        let Some(state) = self.cells.counters_mut() else { return };
        state.occurrences = state.occurrences.saturating_sub(occurrences);
        // Every item that is there has an occurrence.
        self.items = self.items.saturating_sub(items).min(state.occurrences);
    }
}

/// The number of probes for which there is code of its own in scattered layers: that at 1 %.
const SCATTERED_PROBES: u32 = 7;

/// A digest that layers are probed with: chooses the engine of a layer's layout and cells.
pub(super) trait Probe: Digest {
    /// [`Engine::contains`].
    fn contains(layer: &Layer, item: Self, at: Moment, prefetch: impl Prefetch) -> bool;
    /// [`Engine::contains_each`].
    fn contains_each(layer: &Layer, items: &[Self], wanted: ItemSet, part: Part, at: Moment) -> ItemSet;
    /// [`Engine::contains_each`], in steps of so many items, each of which is asked for while the one before is looked at.
    fn contains_in_steps(
        layer: &Layer,
        items: &[Self],
        wanted: ItemSet,
        part: Part,
        at: Moment,
        items_per_step: usize,
        prefetch: impl Prefetch,
    ) -> ItemSet;
    /// [`Engine::insert`].
    fn insert(layer: &mut Layer, item: Self, at: Moment, prefetch: impl Prefetch) -> Inserted;
    /// [`Engine::take_each`].
    fn take_each(layer: &mut Layer, items: &[Self], taking: Taking) -> Taken;
    /// [`Engine::prefetch_each`].
    fn prefetch(
        layer: &Layer,
        items: &[Self],
        wanted: ItemSet,
        part: Part,
        purpose: Purpose,
        prefetch: impl Prefetch,
    );
}

/// The same code for the layout of a layer whose items have two words of hash, and its kind of cells; `$none` for another layout.
macro_rules! with_pair_layout {
    ($layer:expr, $layout:ident, $cells:ident => $body:expr, $none:expr) => {
        match $layer.placement.probing() {
            LayoutRef::Scattered($layout) => match $layout.probes() {
                SCATTERED_PROBES => {
                    let $layout = $layout.with::<SCATTERED_PROBES>();
                    with_cells!($layer.cells.state(), $cells => $body)
                }
                _ => with_cells!($layer.cells.state(), $cells => $body),
            },
            LayoutRef::Paged(paged) => {
                with_per_line!(paged, $layout => with_cells!($layer.cells.state(), $cells => $body))
            }
            // The cells of other modules' layouts are bits.
            LayoutRef::Modulo($layout) => {
                type $cells = Bits;
                $body
            }
            LayoutRef::Prime($layout) => {
                type $cells = Bits;
                $body
            }
            LayoutRef::Scheme(_) => $none,
        }
    };
}

/// As [`with_pair_layout`], where it makes no difference how many probes a line has.
macro_rules! with_pair_lines {
    ($layer:expr, $layout:ident, $cells:ident => $body:expr, $none:expr) => {
        match $layer.placement.probing() {
            LayoutRef::Scattered($layout) => with_cells!($layer.cells.state(), $cells => $body),
            LayoutRef::Paged($layout) => with_cells!($layer.cells.state(), $cells => $body),
            LayoutRef::Modulo($layout) => {
                type $cells = Bits;
                $body
            }
            LayoutRef::Prime($layout) => {
                type $cells = Bits;
                $body
            }
            LayoutRef::Scheme(_) => $none,
        }
    };
}

/// As [`with_pair_layout`], of layers of our own layouts with one type of cells.
macro_rules! with_own_layout {
    ($layer:expr, $layout:ident => $body:expr, $none:expr) => {
        match $layer.placement.probing() {
            LayoutRef::Scattered($layout) => $body,
            LayoutRef::Paged(paged) => with_per_line!(paged, $layout => $body),
            LayoutRef::Modulo(_) | LayoutRef::Prime(_) | LayoutRef::Scheme(_) => $none,
        }
    };
}

/// As [`with_pair_layout`], for items that have the hash of a client's scheme.
macro_rules! with_scheme_layout {
    ($layer:expr, $layout:ident, $cells:ident => $body:expr, $none:expr) => {
        match $layer.placement.probing() {
            LayoutRef::Scheme($layout) => {
                type $cells = Bits;
                $body
            }
            _ => $none,
        }
    };
}

macro_rules! probes {
    ($digest:ty, $with_layout:ident, $with_lines:ident) => {
        impl Probe for $digest {
            #[inline(never)]
            fn contains(layer: &Layer, item: Self, at: Moment, prefetch: impl Prefetch) -> bool {
                let view = layer.cells.view();
                $with_layout!(layer, layout, C => layout.contains::<C>(view, item, at, prefetch), false)
            }

            #[inline(never)]
            fn contains_each(layer: &Layer, items: &[Self], wanted: ItemSet, part: Part, at: Moment) -> ItemSet {
                let view = layer.cells.view();
                $with_layout!(layer, layout, C => layout.contains_each::<C>(view, items, wanted, part, at), 0)
            }

            #[inline(never)]
            fn contains_in_steps(
                layer: &Layer,
                items: &[Self],
                wanted: ItemSet,
                part: Part,
                at: Moment,
                items_per_step: usize,
                prefetch: impl Prefetch,
            ) -> ItemSet {
                let (view, mut found) = (layer.cells.view(), 0);
                $with_layout!(
                    layer, layout, C => {
                        let ask = |(): &mut (), step| {
                            layout.prefetch_each::<C>(view, items, step, part, Purpose::Look, prefetch);
                        };
                        in_steps(&mut (), wanted, items_per_step, ask, |(), step| {
                            found |= layout.contains_each::<C>(view, items, step, part, at);
                            true
                        });
                        found
                    },
                    0
                )
            }

            #[inline(never)]
            fn insert(layer: &mut Layer, item: Self, at: Moment, prefetch: impl Prefetch) -> Inserted {
                $with_layout!(
                    layer, layout, C => layout.insert::<C>(&mut layer.cells.view_mut(), item, at, prefetch),
                    Inserted::default()
                )
            }

            #[inline(never)]
            fn take_each(layer: &mut Layer, items: &[Self], taking: Taking) -> Taken {
                $with_layout!(
                    layer, layout, C => layout.take_each::<C>(&mut layer.cells.view_mut(), items, taking),
                    Taken::default()
                )
            }

            #[inline(never)]
            fn prefetch(
                layer: &Layer,
                items: &[Self],
                wanted: ItemSet,
                part: Part,
                purpose: Purpose,
                prefetch: impl Prefetch,
            ) {
                let view = layer.cells.view();
                $with_lines!(
                    layer, layout, C => layout.prefetch_each::<C>(view, items, wanted, part, purpose, prefetch),
                    ()
                );
            }
        }
    };
}

probes!(ItemHash, with_pair_layout, with_pair_lines);
probes!(SchemeHash, with_scheme_layout, with_scheme_layout);

/// What only some cells can do, with hashes that only our own layers have.
impl Layer {
    /// [`Engine::find`], of columns.
    #[inline(never)]
    pub(super) fn find(&self, item: ItemHash, at: Moment, prefetch: impl Prefetch) -> Found {
        let view = self.cells.view();
        with_own_layout!(self, layout => layout.find::<Columns>(view, item, at, prefetch), Found::default())
    }

    /// [`Engine::find_each`], of columns.
    #[inline(never)]
    pub(super) fn find_each(&self, items: &[ItemHash], wanted: ItemSet, at: Moment) -> FoundEach {
        let view = self.cells.view();
        with_own_layout!(self, layout => layout.find_each::<Columns>(view, items, wanted, at), FoundEach::default())
    }

    /// [`Engine::remove`], of counters.
    #[inline(never)]
    fn unset(&mut self, item: ItemHash) -> Option<u32> {
        let mut view = self.cells.view_mut();
        with_own_layout!(self, layout => layout.remove::<Counters>(&mut view, item), None)
    }
}
