//! The contents of the layers of a merge, and an index of the layers by shape, which finds the layer that a source's
//! layer is merged into.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash as HashBy, Hasher};

use crate::bloom::bits::estimate::{added_anywhere, clients_items, deviation, full_rate_anywhere};
use crate::bloom::bits::{BitArray, Layer, Layout};
use crate::bloom::hash::Hash;
use crate::bloom::memory::Memory;
use crate::bloom::number::whole;

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

impl<'f> Contents<'f> {
    /// Returns the current contents of a layer. O(1).
    pub(super) fn of(layer: &'f Layer) -> Self {
        let counts = layer.counts();
        let contents = Self { shape: layer, set_bits: counts.set_bits, items: counts.items };
        // A merge or chunks set bits without counting items. So the count is exact only if it explains the fill. Items
        // that were false positives when they were added were not counted, so they are added to the count first.
        let by_fill = contents.items_by_fill(counts.set_bits);
        let (positions, probes) = (layer.positions(), layer.layout().probes());
        let noise = 1.0 + DEVIATIONS * deviation(by_fill as f64, positions, probes);
        let is_counted = (added_anywhere(counts.items, positions, probes) - by_fill as f64).abs() <= noise;
        Self { items: if is_counted { counts.items } else { by_fill }, ..contents }
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
        let counted = self.counts().items;
        // A decoder accepts at most the capacity, or the initial count of a client's layer if that is higher.
        let most = self.capacity_items().min(self.bits().size_bits()).max(counted);
        self.set_items(items.min(most).max(counted));
    }
}

/// A layer, compared by its shape: layers of one shape can be united.
#[derive(Clone, Copy, Debug)]
struct ByShape<'f>(&'f Layer);

impl PartialEq for ByShape<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.has_shape_of(other.0)
    }
}

// No field is ever NaN, because layouts are validated on creation.
impl Eq for ByShape<'_> {}

impl HashBy for ByShape<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.bits().size_bits(), self.0.capacity_items(), self.0.layout().probes()).hash(state);
        // Many layers of one size differ in these.
        match (self.0.hash(), self.0.layout()) {
            (Hash::Keyed(key), _) => key.bytes().hash(state),
            (Hash::ValkeyBloom(seed), _) => seed.bytes().hash(state),
            (_, Layout::Modulo(layout)) => layout.error_rate().to_bits().hash(state),
            _ => {}
        }
    }
}

/// An index of layers by shape.
#[derive(Debug, Default)]
pub(super) struct ShapeIndex<'f>(HashMap<ByShape<'f>, Group>);

/// The layers of one shape.
#[derive(Debug, Default)]
struct Group {
    /// The number of set bits and the index of each layer.
    by_set_bits: BTreeSet<(u64, usize)>,
    /// The index of each layer, and the first word of its bits.
    first_words: Vec<(usize, u64)>,
    /// The largest number of set bits whose estimated items are within the capacity.
    most_set_bits: OnceCell<u64>,
}

impl<'f> ShapeIndex<'f> {
    fn group(&self, contents: &Contents<'f>) -> Option<&Group> {
        self.0.get(&ByShape(contents.shape))
    }

    /// Adds a layer. Layers of one shape must be added in the order of their indices. O(log layers).
    pub(super) fn insert(&mut self, number: usize, layer: &Contents<'f>) {
        let group = self.0.entry(ByShape(layer.shape)).or_default();
        group.by_set_bits.insert((layer.set_bits, number));
        group.first_words.push((number, first_word(layer.shape.bits())));
    }

    /// Replaces the contents of a layer after it was merged with `from`. O(log layers).
    pub(super) fn update(
        &mut self,
        number: usize,
        before: &Contents<'f>,
        then: &Contents<'f>,
        from: &BitArray,
    ) {
        let Some(group) = self.0.get_mut(&ByShape(before.shape)) else { return };
        group.by_set_bits.remove(&(before.set_bits, number));
        group.by_set_bits.insert((then.set_bits, number));
        if let Ok(place) = group.first_words.binary_search_by_key(&number, |(number, _)| *number)
            && let Some((_, word)) = group.first_words.get_mut(place)
        {
            *word |= first_word(from);
        }
    }

    /// Returns the indices of the layers of the same shape, those with the fewest set bits first.
    pub(super) fn emptiest(&self, contents: &Contents<'f>) -> impl Iterator<Item = usize> {
        let group = self.group(contents);
        group.into_iter().flat_map(|group| group.by_set_bits.iter().map(|(_, number)| *number))
    }

    /// Returns the largest number of set bits of a layer of the same shape whose estimated items are within the
    /// capacity. O(log bits) the first time, then O(1).
    pub(super) fn most_set_bits(&self, contents: &Contents<'f>) -> u64 {
        self.group(contents).map_or(0, |group| *group.most_set_bits.get_or_init(|| contents.most_set_bits()))
    }

    /// Returns whether a layer of the same shape has all bits of this one. O(bytes), but one word rules out most
    /// layers.
    pub(super) fn is_covered<'c>(
        &self,
        contents: &Contents<'f>,
        bits_of: impl Fn(usize) -> Option<&'c BitArray>,
    ) -> bool {
        let Some(group) = self.group(contents) else { return false };
        let from = contents.shape.bits();
        let first = first_word(from);
        let place = from.words().iter().position(|word| *word != 0).unwrap_or(0);
        let word_at = |bits: &BitArray| bits.words().get(place).copied().unwrap_or(0);
        let mut candidates = group.first_words.iter().filter(|(_, word)| first & !word == 0);
        candidates.any(|(number, _)| {
            bits_of(*number).is_some_and(|bits| word_at(from) & !word_at(bits) == 0 && bits.covers(from))
        })
    }
}

fn first_word(bits: &BitArray) -> u64 {
    bits.words().first().copied().unwrap_or(0)
}
