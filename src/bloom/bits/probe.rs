//! Probing of a layer: selects the engine of its layout, once per item or group of items.

use super::engine::{AddOutcome, AddRequest, Engine};
use super::layer::Layer;
use super::layout::with_per_line;
use super::placement::LayoutRef;
use crate::bloom::group::{ItemSet, in_steps};
use crate::bloom::hash::scheme::SchemeHash;
use crate::bloom::hash::{Digest, ItemHash};
use crate::bloom::prefetch::{Part, Prefetch};

/// The number of probes for which scattered layers have specialized code: that of 1 %.
const SCATTERED_PROBES: u32 = 7;

impl Layer {
    /// Returns whether the item is present. O(probes).
    #[must_use]
    #[inline(always)]
    pub(in crate::bloom) fn contains<D: Probe>(&self, item: D, prefetch: impl Prefetch) -> bool {
        let words = self.bits().words();
        // The layouts of most layers are inlined in the caller, the others are a function. Otherwise the compiler would
        // compute values for every layout before each loop over layers.
        match (self.placement().probing(), item.pair()) {
            (LayoutRef::Scattered(layout), Some(pair)) => match layout.probes() {
                SCATTERED_PROBES => layout.with::<SCATTERED_PROBES>().contains(words, pair, prefetch),
                _ => layout.contains(words, pair, prefetch),
            },
            (LayoutRef::Modulo(layout), Some(pair)) => layout.contains(words, pair, prefetch),
            (LayoutRef::Prime(layout), Some(pair)) => layout.contains(words, pair, prefetch),
            _ => D::contains(self, item, prefetch),
        }
    }

    /// Does [`Engine::may_contain`]. O(1).
    #[inline(always)]
    pub(in crate::bloom) fn may_contain<D: Probe>(&self, item: D) -> bool {
        match (self.placement().probing(), item.pair()) {
            // Inlined for the same reason as in `contains`.
            (LayoutRef::Scattered(layout), Some(pair)) => layout.may_contain(self.bits().words(), pair),
            (LayoutRef::Modulo(layout), Some(pair)) => layout.may_contain(self.bits().words(), pair),
            _ => D::may_contain(self, item),
        }
    }

    /// Does [`Engine::contains_rest`]. O(probes).
    #[inline(always)]
    pub(in crate::bloom) fn contains_rest<D: Probe>(&self, item: D) -> bool {
        match (self.placement().probing(), item.pair()) {
            // Inlined for the same reason as in `contains`.
            (LayoutRef::Scattered(layout), Some(pair)) => layout.contains_rest(self.bits().words(), pair),
            (LayoutRef::Modulo(layout), Some(pair)) => layout.contains_rest(self.bits().words(), pair),
            _ => D::contains_rest(self, item),
        }
    }

    /// Does [`Engine::prefetch_first`]. O(1).
    #[inline(always)]
    pub(in crate::bloom) fn prefetch_first<D: Probe>(&self, item: D, prefetch: impl Prefetch) {
        match (self.placement().probing(), item.pair()) {
            // Inlined for the same reason as in `contains`.
            (LayoutRef::Scattered(layout), Some(pair)) => {
                layout.prefetch_first(self.bits().words(), pair, prefetch);
            }
            (LayoutRef::Modulo(layout), Some(pair)) => {
                layout.prefetch_first(self.bits().words(), pair, prefetch);
            }
            _ => D::prefetch_first(self, item, prefetch),
        }
    }

    /// Adds an item. Returns whether it was new to the layer. O(probes).
    #[inline(always)]
    pub(in crate::bloom) fn insert<D: Probe>(&mut self, item: D, prefetch: impl Prefetch) -> bool {
        let new_bits = match (self.placement().probing(), item.pair()) {
            // Inlined for the same reason as in `contains`.
            (LayoutRef::Scattered(layout), Some(pair)) => {
                let words = self.bits_mut().words_mut();
                match layout.probes() {
                    SCATTERED_PROBES => layout.with::<SCATTERED_PROBES>().insert(words, pair, prefetch),
                    _ => layout.insert(words, pair, prefetch),
                }
            }
            _ => D::insert(self, item, prefetch),
        };
        self.bits_mut().count_set(new_bits.into());
        new_bits != 0
    }

    /// Adds items one after another, as long as the layer takes them. O(items * probes).
    #[inline(always)]
    pub(in crate::bloom) fn insert_each<D: Probe>(&mut self, items: &[D], request: AddRequest) -> AddOutcome {
        let outcome = D::insert_each(self, items, request);
        self.bits_mut().count_set(outcome.new_bits);
        outcome
    }
}

/// A digest by which layers are probed: selects the engine of a layer's layout.
pub(in crate::bloom) trait Probe: Digest {
    /// See [`Engine::contains`].
    fn contains(layer: &Layer, item: Self, prefetch: impl Prefetch) -> bool;
    /// See [`Engine::may_contain`].
    fn may_contain(layer: &Layer, item: Self) -> bool;
    /// See [`Engine::contains_rest`].
    fn contains_rest(layer: &Layer, item: Self) -> bool;
    /// See [`Engine::prefetch_first`].
    fn prefetch_first(layer: &Layer, item: Self, prefetch: impl Prefetch);
    /// See [`Engine::contains_each`].
    fn contains_each(layer: &Layer, items: &[Self], wanted: ItemSet, part: Part) -> ItemSet;
    /// Does [`Engine::contains_each`] in steps of `items_per_step`. Each step is prefetched while the one before it
    /// is looked up.
    fn contains_in_steps(
        layer: &Layer,
        items: &[Self],
        wanted: ItemSet,
        part: Part,
        items_per_step: usize,
        prefetch: impl Prefetch,
    ) -> ItemSet;
    /// See [`Engine::insert`].
    fn insert(layer: &mut Layer, item: Self, prefetch: impl Prefetch) -> u32;
    /// See [`Engine::insert_each`].
    fn insert_each(layer: &mut Layer, items: &[Self], request: AddRequest) -> AddOutcome;
    /// See [`Engine::prefetch_each`].
    fn prefetch(layer: &Layer, items: &[Self], wanted: ItemSet, part: Part, prefetch: impl Prefetch);
}

/// Compiles the same code for each layout of items with two words of hash; gives `$none` for another layout.
macro_rules! with_pair_layout {
    ($layer:expr, $layout:ident => $body:expr, $none:expr) => {
        match $layer.placement().probing() {
            LayoutRef::Scattered($layout) => match $layout.probes() {
                SCATTERED_PROBES => {
                    let $layout = $layout.with::<SCATTERED_PROBES>();
                    $body
                }
                _ => $body,
            },
            LayoutRef::Paged(paged) => with_per_line!(paged, $layout => $body),
            LayoutRef::Modulo($layout) => $body,
            LayoutRef::Prime($layout) => $body,
            LayoutRef::Scheme(_) => $none,
        }
    };
}

/// As [`with_pair_layout`], if the number of probes per line need not be known.
macro_rules! with_pair_lines {
    ($layer:expr, $layout:ident => $body:expr, $none:expr) => {
        match $layer.placement().probing() {
            LayoutRef::Scattered($layout) => $body,
            LayoutRef::Paged($layout) => $body,
            LayoutRef::Modulo($layout) => $body,
            LayoutRef::Prime($layout) => $body,
            LayoutRef::Scheme(_) => $none,
        }
    };
}

/// As [`with_pair_layout`], for items with the hash of a client's scheme.
macro_rules! with_scheme_layout {
    ($layer:expr, $layout:ident => $body:expr, $none:expr) => {
        match $layer.placement().probing() {
            LayoutRef::Scheme($layout) => $body,
            _ => $none,
        }
    };
}

macro_rules! probes {
    ($digest:ty, $with_layout:ident, $with_lines:ident) => {
        impl Probe for $digest {
            #[inline(never)]
            fn contains(layer: &Layer, item: Self, prefetch: impl Prefetch) -> bool {
                let words = layer.bits().words();
                $with_layout!(layer, layout => layout.contains(words, item, prefetch), false)
            }

            #[inline(never)]
            fn may_contain(layer: &Layer, item: Self) -> bool {
                let words = layer.bits().words();
                $with_lines!(layer, layout => layout.may_contain(words, item), false)
            }

            #[inline(never)]
            fn contains_rest(layer: &Layer, item: Self) -> bool {
                let words = layer.bits().words();
                $with_layout!(layer, layout => layout.contains_rest(words, item), false)
            }

            #[inline(never)]
            fn prefetch_first(layer: &Layer, item: Self, prefetch: impl Prefetch) {
                let words = layer.bits().words();
                $with_lines!(layer, layout => layout.prefetch_first(words, item, prefetch), ());
            }

            #[inline(never)]
            fn contains_each(layer: &Layer, items: &[Self], wanted: ItemSet, part: Part) -> ItemSet {
                let words = layer.bits().words();
                $with_layout!(layer, layout => layout.contains_each(words, items, wanted, part), 0)
            }

            #[inline(never)]
            fn contains_in_steps(
                layer: &Layer,
                items: &[Self],
                wanted: ItemSet,
                part: Part,
                items_per_step: usize,
                prefetch: impl Prefetch,
            ) -> ItemSet {
                let (words, mut found) = (layer.bits().words(), 0);
                $with_layout!(
                    layer, layout => {
                        let ask = |(): &mut (), step| layout.prefetch_each(words, items, step, part, prefetch);
                        in_steps(&mut (), wanted, items_per_step, ask, |(), step| {
                            found |= layout.contains_each(words, items, step, part);
                            true
                        });
                        found
                    },
                    0
                )
            }

            #[inline(never)]
            fn insert(layer: &mut Layer, item: Self, prefetch: impl Prefetch) -> u32 {
                $with_layout!(
                    layer, layout => layout.insert(layer.bits_mut().words_mut(), item, prefetch), 0
                )
            }

            #[inline(never)]
            fn insert_each(layer: &mut Layer, items: &[Self], request: AddRequest) -> AddOutcome {
                $with_layout!(
                    layer, layout => layout.insert_each(layer.bits_mut().words_mut(), items, request),
                    AddOutcome::default()
                )
            }

            #[inline(never)]
            fn prefetch(
                layer: &Layer,
                items: &[Self],
                wanted: ItemSet,
                part: Part,
                prefetch: impl Prefetch,
            ) {
                let words = layer.bits().words();
                $with_lines!(layer, layout => layout.prefetch_each(words, items, wanted, part, prefetch), ());
            }
        }
    };
}

probes!(ItemHash, with_pair_layout, with_pair_lines);
probes!(SchemeHash, with_scheme_layout, with_scheme_layout);
