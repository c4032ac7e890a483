//! Probing of a layer: selects the engine of its layout and cells, once per item or group of items.

use super::batch::in_steps;
use super::cells::{Bits, CellState, Columns, Counters, Found, Purpose, with_cells};
use super::engine::{Engine, FoundEach, Inserted, Taken, Taking};
use super::group::ItemSet;
use super::hash::scheme::SchemeHash;
use super::hash::{Digest, ItemHash};
use super::layer::Layer;
use super::layout::with_per_line;
use super::placement::LayoutRef;
use super::prefetch::{Part, Prefetch};
use super::window::Moment;

/// The number of probes for which scattered layers have specialized code: that of 1 %.
const SCATTERED_PROBES: u32 = 7;

impl Layer {
    /// Returns whether the item is present. O(probes).
    #[must_use]
    #[inline(always)]
    pub(super) fn contains<D: Probe>(&self, item: D, at: Moment, prefetch: impl Prefetch) -> bool {
        // The case of most layers is inlined in the caller, the others are a function. Otherwise the compiler would
        // compute values for every layout before each loop over layers.
        match (self.placement().probing(), self.cells().state(), item.pair()) {
            (LayoutRef::Scattered(layout), CellState::Bits, Some(pair)) => {
                let view = self.cells().view();
                match layout.probes() {
                    SCATTERED_PROBES => {
                        layout.with::<SCATTERED_PROBES>().contains::<Bits>(view, pair, at, prefetch)
                    }
                    _ => layout.contains::<Bits>(view, pair, at, prefetch),
                }
            }
            (LayoutRef::Modulo(layout), CellState::Bits, Some(pair)) => {
                layout.contains::<Bits>(self.cells().view(), pair, at, prefetch)
            }
            (LayoutRef::Prime(layout), CellState::Bits, Some(pair)) => {
                layout.contains::<Bits>(self.cells().view(), pair, at, prefetch)
            }
            _ => D::contains(self, item, at, prefetch),
        }
    }

    /// Does [`Engine::may_contain`]. O(1).
    #[inline(always)]
    pub(super) fn may_contain<D: Probe>(&self, item: D, at: Moment) -> bool {
        if self.has_expired(at) {
            return false;
        }
        match (self.placement().probing(), self.cells().state(), item.pair()) {
            // Inlined for the same reason as in `contains`.
            (LayoutRef::Scattered(layout), CellState::Bits | CellState::Burst(_), Some(pair)) => {
                layout.may_contain::<Bits>(self.cells().view_of_bits(), pair, at)
            }
            (LayoutRef::Modulo(layout), CellState::Bits, Some(pair)) => {
                layout.may_contain::<Bits>(self.cells().view(), pair, at)
            }
            _ => D::may_contain(self, item, at),
        }
    }

    /// Does [`Engine::contains_rest`]. O(probes).
    #[inline(always)]
    pub(super) fn contains_rest<D: Probe>(&self, item: D, at: Moment) -> bool {
        match (self.placement().probing(), self.cells().state(), item.pair()) {
            // Inlined for the same reason as in `contains`.
            (LayoutRef::Scattered(layout), CellState::Bits | CellState::Burst(_), Some(pair)) => {
                layout.contains_rest::<Bits>(self.cells().view_of_bits(), pair, at)
            }
            (LayoutRef::Modulo(layout), CellState::Bits, Some(pair)) => {
                layout.contains_rest::<Bits>(self.cells().view(), pair, at)
            }
            _ => D::contains_rest(self, item, at),
        }
    }

    /// Does [`Engine::prefetch_first`]. O(1).
    #[inline(always)]
    pub(super) fn prefetch_first<D: Probe>(&self, item: D, prefetch: impl Prefetch) {
        match (self.placement().probing(), self.cells().state(), item.pair()) {
            // Inlined for the same reason as in `contains`.
            (LayoutRef::Scattered(layout), CellState::Bits, Some(pair)) => {
                layout.prefetch_first::<Bits>(self.cells().view(), pair, prefetch);
            }
            (LayoutRef::Modulo(layout), CellState::Bits, Some(pair)) => {
                layout.prefetch_first::<Bits>(self.cells().view(), pair, prefetch);
            }
            _ => D::prefetch_first(self, item, prefetch),
        }
    }

    /// Adds an item. Returns whether it was new to the layer. O(probes).
    #[inline(always)]
    pub(super) fn insert<D: Probe>(&mut self, item: D, at: Moment, prefetch: impl Prefetch) -> bool {
        let Inserted { new_cells, set_cells } =
            match (self.placement().probing(), self.cells().state(), item.pair()) {
                // Inlined for the same reason as in `contains`.
                (LayoutRef::Scattered(layout), CellState::Bits, Some(pair)) => {
                    let view = &mut self.cells_mut().view_mut();
                    match layout.probes() {
                        SCATTERED_PROBES => {
                            layout.with::<SCATTERED_PROBES>().insert::<Bits>(view, pair, at, prefetch)
                        }
                        _ => layout.insert::<Bits>(view, pair, at, prefetch),
                    }
                }
                _ => D::insert(self, item, at, prefetch),
            };
        self.cells_mut().count_set(set_cells);
        new_cells != 0
    }

    /// Adds items one after another, as long as the layer takes them. O(items * probes).
    #[inline(always)]
    pub(super) fn take_each<D: Probe>(&mut self, items: &[D], taking: Taking) -> Taken {
        let taken = D::take_each(self, items, taking);
        self.cells_mut().count_set(taken.set_cells);
        taken
    }

    /// Removes an item from counters. Returns whether it was present. O(probes).
    pub(super) fn remove(&mut self, item: ItemHash) -> bool {
        if self.cells().counters().is_none() {
            return false;
        }
        let Some(cleared_cells) = self.unset(item) else { return false };
        self.cells_mut().count_set(u64::from(cleared_cells).wrapping_neg());
        // If one of its counters is 0 now, the item is certainly gone.
        self.count_deletions((cleared_cells > 0).into(), 1);
        true
    }
}

/// A digest by which layers are probed: selects the engine of a layer's layout and cells.
pub(super) trait Probe: Digest {
    /// See [`Engine::contains`].
    fn contains(layer: &Layer, item: Self, at: Moment, prefetch: impl Prefetch) -> bool;
    /// See [`Engine::may_contain`].
    fn may_contain(layer: &Layer, item: Self, at: Moment) -> bool;
    /// See [`Engine::contains_rest`].
    fn contains_rest(layer: &Layer, item: Self, at: Moment) -> bool;
    /// See [`Engine::prefetch_first`].
    fn prefetch_first(layer: &Layer, item: Self, prefetch: impl Prefetch);
    /// See [`Engine::contains_each`].
    fn contains_each(layer: &Layer, items: &[Self], wanted: ItemSet, part: Part, at: Moment) -> ItemSet;
    /// Does [`Engine::contains_each`] in steps of `items_per_step`. Each step is prefetched while the one before it
    /// is looked up.
    fn contains_in_steps(
        layer: &Layer,
        items: &[Self],
        wanted: ItemSet,
        part: Part,
        at: Moment,
        items_per_step: usize,
        prefetch: impl Prefetch,
    ) -> ItemSet;
    /// See [`Engine::insert`].
    fn insert(layer: &mut Layer, item: Self, at: Moment, prefetch: impl Prefetch) -> Inserted;
    /// See [`Engine::take_each`].
    fn take_each(layer: &mut Layer, items: &[Self], taking: Taking) -> Taken;
    /// See [`Engine::prefetch_each`].
    fn prefetch(
        layer: &Layer,
        items: &[Self],
        wanted: ItemSet,
        part: Part,
        purpose: Purpose,
        prefetch: impl Prefetch,
    );
}

/// Compiles the same code for the layouts of other modules, whose cells are bits; gives `$none` for any other layout.
macro_rules! with_foreign_layout {
    ($foreign:ident, $layout:ident, $cells:ident => $body:expr, $none:expr) => {
        match $foreign {
            LayoutRef::Modulo($layout) => {
                type $cells = Bits;
                $body
            }
            LayoutRef::Prime($layout) => {
                type $cells = Bits;
                $body
            }
            _ => $none,
        }
    };
}

/// Compiles the same code for each layout of items with two words of hash and each cell type; gives `$none` for
/// another layout.
macro_rules! with_pair_layout {
    ($layer:expr, $layout:ident, $cells:ident => $body:expr, $none:expr) => {
        match $layer.placement().probing() {
            LayoutRef::Scattered($layout) => match $layout.probes() {
                SCATTERED_PROBES => {
                    let $layout = $layout.with::<SCATTERED_PROBES>();
                    with_cells!($layer.cells().state(), $cells => $body)
                }
                _ => with_cells!($layer.cells().state(), $cells => $body),
            },
            LayoutRef::Paged(paged) => {
                with_per_line!(paged, $layout => with_cells!($layer.cells().state(), $cells => $body))
            }
            foreign => with_foreign_layout!(foreign, $layout, $cells => $body, $none),
        }
    };
}

/// As [`with_pair_layout`], if the number of probes per line need not be known.
macro_rules! with_pair_lines {
    ($layer:expr, $layout:ident, $cells:ident => $body:expr, $none:expr) => {
        match $layer.placement().probing() {
            LayoutRef::Scattered($layout) => with_cells!($layer.cells().state(), $cells => $body),
            LayoutRef::Paged($layout) => with_cells!($layer.cells().state(), $cells => $body),
            foreign => with_foreign_layout!(foreign, $layout, $cells => $body, $none),
        }
    };
}

/// As [`with_pair_layout`], for everbloom's own layouts with one cell type.
macro_rules! with_own_layout {
    ($layer:expr, $layout:ident => $body:expr, $none:expr) => {
        match $layer.placement().probing() {
            LayoutRef::Scattered($layout) => $body,
            LayoutRef::Paged(paged) => with_per_line!(paged, $layout => $body),
            LayoutRef::Modulo(_) | LayoutRef::Prime(_) | LayoutRef::Scheme(_) => $none,
        }
    };
}

/// As [`with_pair_layout`], for items with the hash of a client's scheme.
macro_rules! with_scheme_layout {
    ($layer:expr, $layout:ident, $cells:ident => $body:expr, $none:expr) => {
        match $layer.placement().probing() {
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
                if layer.has_expired(at) {
                    return false;
                }
                let view = layer.cells().view();
                $with_layout!(layer, layout, C => layout.contains::<C>(view, item, at, prefetch), false)
            }

            #[inline(never)]
            fn may_contain(layer: &Layer, item: Self, at: Moment) -> bool {
                let view = layer.cells().view();
                $with_lines!(layer, layout, C => layout.may_contain::<C>(view, item, at), false)
            }

            #[inline(never)]
            fn contains_rest(layer: &Layer, item: Self, at: Moment) -> bool {
                let view = layer.cells().view();
                $with_layout!(layer, layout, C => layout.contains_rest::<C>(view, item, at), false)
            }

            #[inline(never)]
            fn prefetch_first(layer: &Layer, item: Self, prefetch: impl Prefetch) {
                let view = layer.cells().view();
                $with_lines!(layer, layout, C => layout.prefetch_first::<C>(view, item, prefetch), ());
            }

            #[inline(never)]
            fn contains_each(layer: &Layer, items: &[Self], wanted: ItemSet, part: Part, at: Moment) -> ItemSet {
                if layer.has_expired(at) {
                    return 0;
                }
                let view = layer.cells().view();
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
                if layer.has_expired(at) {
                    return 0;
                }
                let (view, mut found) = (layer.cells().view(), 0);
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
                    layer, layout, C => layout.insert::<C>(&mut layer.cells_mut().view_mut(), item, at, prefetch),
                    Inserted::default()
                )
            }

            #[inline(never)]
            fn take_each(layer: &mut Layer, items: &[Self], taking: Taking) -> Taken {
                $with_layout!(
                    layer, layout, C => layout.take_each::<C>(&mut layer.cells_mut().view_mut(), items, taking),
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
                let view = layer.cells().view();
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

/// Operations that only some cell types have, with the hashes of everbloom's own layers.
impl Layer {
    /// See [`Engine::find`]; for columns and burst layers.
    #[inline(never)]
    pub(super) fn find(&self, item: ItemHash, at: Moment, prefetch: impl Prefetch) -> Found {
        if let CellState::Burst(state) = self.cells().state() {
            let is_live = self.contains(item, at, prefetch);
            return Found { is_live, is_current: is_live && state.history.newest == at.added };
        }
        let view = self.cells().view();
        with_own_layout!(self, layout => layout.find::<Columns>(view, item, at, prefetch), Found::default())
    }

    /// See [`Engine::find_each`]; for columns.
    #[inline(never)]
    pub(super) fn find_each(&self, items: &[ItemHash], wanted: ItemSet, at: Moment) -> FoundEach {
        let view = self.cells().view();
        with_own_layout!(self, layout => layout.find_each::<Columns>(view, items, wanted, at), FoundEach::default())
    }

    /// See [`Engine::remove`]; for counters.
    #[inline(never)]
    fn unset(&mut self, item: ItemHash) -> Option<u32> {
        with_own_layout!(self, layout => layout.remove::<Counters>(&mut self.cells_mut().view_mut(), item), None)
    }
}
