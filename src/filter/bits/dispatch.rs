//! The operations of a layer on items. Each chooses the layout once per item or group of items, and calls the engine
//! that is compiled for the layout.

use super::Layer;
use super::engine::{AddRequest, Engine, LayerAdds};
use super::layout::{Layout, Words, WordsMut, with_per_line};
use crate::group::{ItemSet, in_steps};
use crate::hash::{Digest, Digests};
use crate::prefetch::{Prefetch, ProbeRange};
use crate::work::count_slots;

/// The number of probes for which scattered layers have specialized code: the one for an error rate of 1 %.
const SCATTERED_PROBES: u32 = 7;

/// Compiles `$body` for each layout with its form of digest. Evaluates `$none` if the digest has another form.
macro_rules! with_layout {
    ($layer:expr, $digest:expr, ($layout:ident, $item:ident) => $body:expr, $none:expr) => {
        match ($layer.placement().probing(), $digest) {
            (Layout::Scattered($layout), Digest::Pair($item)) => with_probes!($layout => $body),
            (Layout::Paged(paged), Digest::Pair($item)) => with_per_line!(paged, $layout => $body),
            (Layout::Modulo($layout), Digest::Pair($item)) => $body,
            (Layout::Prime($layout), Digest::Pair($item)) => $body,
            (Layout::Scheme($layout), Digest::Scheme($item)) => $body,
            _ => $none,
        }
    };
}

/// Compiles `$body` for scattered layers and for RedisBloom's. Evaluates `$other` for all other layouts.
macro_rules! with_near_layout {
    ($layer:expr, $digest:expr, ($layout:ident, $item:ident) => $body:expr, $other:expr) => {
        match ($layer.placement().probing(), $digest) {
            (Layout::Scattered($layout), Digest::Pair($item)) => with_probes!($layout => $body),
            (Layout::Modulo($layout), Digest::Pair($item)) => $body,
            _ => $other,
        }
    };
}

macro_rules! with_probes {
    ($layout:ident => $body:expr) => {
        match $layout.probes() {
            SCATTERED_PROBES => {
                let $layout = $layout.with::<SCATTERED_PROBES>();
                $body
            }
            _ => $body,
        }
    };
}

/// Operations on one item. The code for scattered layers and RedisBloom's is inlined in the caller, and the code for
/// other layouts is a function. Otherwise the compiler would compute values for every layout before each loop over
/// layers.
impl Layer {
    /// Does [`Engine::contains`]. O(probes).
    #[inline(always)]
    pub(crate) fn contains(&self, item: Digest, prefetch: impl Prefetch) -> bool {
        #[inline(never)]
        fn other(layer: &Layer, item: Digest, prefetch: impl Prefetch) -> bool {
            with_layout!(layer, item, (layout, item) => layout.contains(layer.words(), item, prefetch), false)
        }
        with_near_layout!(
            self, item, (layout, item) => layout.contains(self.words(), item, prefetch),
            other(self, item, prefetch)
        )
    }

    /// Does [`Engine::may_contain`]. O(1).
    #[inline(always)]
    pub(crate) fn may_contain(&self, item: Digest) -> bool {
        #[inline(never)]
        fn other(layer: &Layer, item: Digest) -> bool {
            with_layout!(layer, item, (layout, item) => layout.may_contain(layer.words(), item), false)
        }
        with_near_layout!(
            self, item, (layout, item) => layout.may_contain(self.words(), item), other(self, item)
        )
    }

    /// Does [`Engine::contains_rest`]. O(probes).
    #[inline(always)]
    pub(crate) fn contains_rest(&self, item: Digest) -> bool {
        #[inline(never)]
        fn other(layer: &Layer, item: Digest) -> bool {
            with_layout!(layer, item, (layout, item) => layout.contains_rest(layer.words(), item), false)
        }
        with_near_layout!(
            self, item, (layout, item) => layout.contains_rest(self.words(), item), other(self, item)
        )
    }

    /// Does [`Engine::prefetch_first`]. O(1).
    #[inline(always)]
    pub(crate) fn prefetch_first(&self, item: Digest, prefetch: impl Prefetch) {
        #[inline(never)]
        fn other(layer: &Layer, item: Digest, prefetch: impl Prefetch) {
            with_layout!(
                layer, item, (layout, item) => layout.prefetch_first(layer.words(), item, prefetch), ()
            );
        }
        with_near_layout!(
            self, item, (layout, item) => layout.prefetch_first(self.words(), item, prefetch),
            other(self, item, prefetch)
        );
    }

    /// Adds an item. Returns whether it was new to the layer. O(probes).
    #[inline(always)]
    pub(crate) fn insert(&mut self, item: Digest, prefetch: impl Prefetch) -> bool {
        #[inline(never)]
        fn other(layer: &mut Layer, item: Digest, prefetch: impl Prefetch) -> u32 {
            with_layout!(layer, item, (layout, item) => layout.insert(layer.words_mut(), item, prefetch), 0)
        }
        let new_bits = with_near_layout!(
            self, item, (layout, item) => layout.insert(self.words_mut(), item, prefetch),
            other(self, item, prefetch)
        );
        self.bits_mut().count_set(new_bits.into());
        new_bits != 0
    }
}

/// Operations on groups of items.
impl Layer {
    /// Does [`Engine::contains_each`].
    #[inline(never)]
    pub(crate) fn contains_each(&self, items: Digests<'_>, wanted: ItemSet, range: ProbeRange) -> ItemSet {
        with_layout!(
            self, items, (layout, items) => layout.contains_each(self.words(), items, wanted, range), 0
        )
    }

    /// Does [`Engine::contains_each`] in steps of `items_per_step`. Each step is prefetched while the one before it
    /// is looked up.
    #[inline(never)]
    pub(crate) fn contains_in_steps(
        &self,
        items: Digests<'_>,
        wanted: ItemSet,
        range: ProbeRange,
        items_per_step: usize,
        prefetch: impl Prefetch,
    ) -> ItemSet {
        let (words, mut found) = (self.words(), 0);
        with_layout!(
            self, items, (layout, items) => {
                let ask = |(): &mut (), step| layout.prefetch_each(words, items, step, range, prefetch);
                in_steps(&mut (), wanted, items_per_step, ask, |(), step| {
                    found |= layout.contains_each(words, items, step, range);
                    true
                });
                found
            },
            0
        )
    }

    /// Adds items in order, up to the first one that the full layer refuses. O(items * probes).
    #[inline(never)]
    pub(crate) fn insert_each(&mut self, items: Digests<'_>, request: AddRequest) -> LayerAdds {
        let outcome = with_layout!(
            self, items, (layout, items) => layout.insert_each(self.words_mut(), items, request),
            LayerAdds::default()
        );
        self.bits_mut().count_set(outcome.new_bits);
        outcome
    }

    /// Does [`Engine::prefetch_each`].
    #[inline(never)]
    pub(crate) fn prefetch_each(
        &self,
        items: Digests<'_>,
        wanted: ItemSet,
        range: ProbeRange,
        prefetch: impl Prefetch,
    ) {
        with_layout!(
            self, items,
            (layout, items) => layout.prefetch_each(self.words(), items, wanted, range, prefetch), ()
        );
    }

    #[inline(always)]
    fn words(&self) -> Words<'_> {
        count_slots(|| 0);
        let [first, rest] = self.bits().pieces();
        Words { first, rest }
    }

    #[inline(always)]
    fn words_mut(&mut self) -> WordsMut<'_> {
        count_slots(|| 0);
        let [first, rest] = self.bits_mut().pieces_mut();
        WordsMut { first, rest }
    }
}
