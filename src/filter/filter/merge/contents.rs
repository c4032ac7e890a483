//! The contents of the layers of a merge.

use crate::bits::Layer;
use crate::bits::estimate::{added_anywhere, clients_items, deviation, full_rate_anywhere};
use crate::memory::Memory;
use crate::number::whole;

/// The contents of a layer, now or after the planned unions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contents<'f> {
    /// The layer; for a layer that this merge appends, a source's layer of the same shape.
    pub(super) shape: &'f Layer,
    /// Set bits.
    pub(super) set_bits: u64,
    /// Distinct items: the count if it is exact, otherwise an estimate from the fill.
    pub(super) items: u64,
}

/// Standard deviations from the estimate within which a count is treated as exact.
const DEVIATIONS: f64 = 4.0;
/// The same after a chunk of a dump. A copy of a filter that has not changed must have the same count, also in a million
/// copies.
const LOADED_DEVIATIONS: f64 = 6.0;

impl<'f> Contents<'f> {
    /// Returns the current contents of a layer. O(1).
    pub(super) fn of(layer: &'f Layer) -> Self {
        let contents = Self::counted(layer);
        // A merge sets bits without counting items. So the count is exact only if it explains the fill.
        let (excess, deviation) = contents.excess();
        let is_counted = excess.abs() <= 1.0 + DEVIATIONS * deviation;
        let items = if is_counted { contents.items } else { contents.items_by_fill(contents.set_bits) };
        Self { items, ..contents }
    }

    /// Returns the contents with the count of the layer.
    fn counted(layer: &'f Layer) -> Self {
        let counts = layer.counts();
        Self { shape: layer, set_bits: counts.set_bits, items: counts.items }
    }

    /// Returns by how many items the estimate from the fill is above what the count explains, and the standard deviation of the
    /// estimate. Items that were false positives when they were added were not counted, so they are added to the count first.
    fn excess(&self) -> (f64, f64) {
        let by_fill = self.items_by_fill(self.set_bits) as f64;
        let (positions, probes) = (self.shape.positions(), self.shape.layout().probes());
        (by_fill - added_anywhere(self.items, positions, probes), deviation(by_fill, positions, probes))
    }

    /// Returns the same contents with `shape`, another layer of the same shape.
    pub(super) const fn of_shape<'s>(&self, shape: &'s Layer) -> Contents<'s> {
        Contents { shape, set_bits: self.set_bits, items: self.items }
    }

    /// Returns the estimated number of distinct items that have set `set_bits` bits. O(1).
    pub(super) fn items_by_fill(&self, set_bits: u64) -> u64 {
        match self.shape.shape() {
            Some(shape) => whole(shape.estimated_items(set_bits)),
            None => clients_items(set_bits, self.shape.positions(), self.shape.layout().probes()),
        }
    }

    /// Returns the largest number of set bits whose estimated items are within the capacity. O(log bits).
    pub(super) fn most_set_bits(&self) -> u64 {
        let (mut fewest, mut most) = (0, self.shape.positions());
        while fewest < most {
            let middle = fewest + (most - fewest).div_ceil(2);
            if self.items_by_fill(middle) <= self.shape.capacity_items() {
                fewest = middle;
            } else {
                most = middle - 1;
            }
        }
        fewest
    }

    /// Returns the error rate by the fill. O(1).
    pub(super) fn error_rate(&self) -> f64 {
        self.shape.error_rate_at(self.set_bits.min(self.shape.positions()))
    }

    /// Returns the error rate when the layer has as many items as its capacity; at least the current one. O(probes).
    pub(super) fn full_error_rate(&self) -> f64 {
        let full = match self.shape.shape() {
            Some(shape) => shape.full_rate(),
            None => {
                let (positions, probes) = (self.shape.positions(), self.shape.layout().probes());
                full_rate_anywhere(self.shape.capacity_items(), positions, probes)
            }
        };
        full.max(self.error_rate())
    }

    /// Returns whether the items of both are within the capacity, by the sum of their counts or by the expected fill.
    pub(super) fn fits_with(&self, other: &Self) -> bool {
        self.items.saturating_add(other.items) <= self.shape.capacity_items()
            || self.items_by_fill(self.expected_set_bits_with(other)) <= self.shape.capacity_items()
    }

    /// Returns the expected set bits of both together if they have no items in common. With common items there are
    /// fewer.
    pub(super) fn expected_set_bits_with(&self, other: &Self) -> u64 {
        let positions = self.shape.positions().max(1) as f64;
        let clear = (1.0 - self.set_bits as f64 / positions) * (1.0 - other.set_bits as f64 / positions);
        whole(((1.0 - clear) * positions).ceil())
    }

    /// Returns the items of both together, with `set_bits` set bits: the estimate from the fill, at least the larger of
    /// both numbers of items and at most their sum.
    pub(super) fn items_with(&self, other: &Self, set_bits: u64) -> u64 {
        let least = self.items.max(other.items);
        let most = self.items.saturating_add(other.items);
        self.items_by_fill(set_bits).clamp(least, most.max(least))
    }
}

impl Layer {
    /// Merges a layer of the same shape into this one. The item count becomes the estimate from the fill. O(bytes).
    pub(super) fn unite(&mut self, from: &Self, memory: impl Memory) {
        let (before, other) = (Contents::of(self).of_shape(from), Contents::of(from));
        self.bits_mut().unite(from.bits(), memory);
        let items = before.items_with(&other, self.counts().set_bits);
        self.raise_items(items);
    }

    /// Counts the items that chunks of a dump have brought besides those that its header counted: those that were added
    /// during the dump. Without this a copy would take as many again, above its error rate. O(1).
    pub(in crate::filter) fn count_loaded(&mut self) {
        let contents = Contents::counted(self);
        let (excess, deviation) = contents.excess();
        if excess > 1.0 + LOADED_DEVIATIONS * deviation {
            let items = contents.items_by_fill(contents.set_bits);
            self.raise_items(items);
        }
    }

    /// Raises the number of items to an estimate.
    fn raise_items(&mut self, items: u64) {
        let counted = self.counts().items;
        // A decoder accepts at most the capacity, or the initial count of a client's layer if that is higher.
        let most = self.capacity_items().min(self.bits().size_bits()).max(counted);
        self.set_items(items.min(most).max(counted));
    }
}
