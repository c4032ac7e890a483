//! Groups of layers of one shape, to find the one that a layer of a source is set in.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};

use super::facts::Holding;
use super::placement::UnionPlacement;
use crate::bloom::bits::Bits;
use crate::bloom::placement::Probes;

/// What layers have in common whose bits can be united: an item sets the same bits in each, and all are sized for as many items.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    placement: UnionPlacement,
    size_bits: u64,
    capacity_items: u64,
}

// No field is ever NaN: a placement is validated when it is made.
impl Eq for Shape {}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.size_bits, self.capacity_items, self.placement.probes()).hash(state);
        // What tells apart many layers of one size.
        match &self.placement {
            UnionPlacement::Keyed(_, key) => key.bytes().hash(state),
            UnionPlacement::ValkeyBloom(_, seed) => seed.bytes().hash(state),
            UnionPlacement::RedisBloom(probing, _) => probing.error_rate().to_bits().hash(state),
            UnionPlacement::Own(_) | UnionPlacement::Client(_) => {}
        }
    }
}

impl From<&Holding> for Shape {
    fn from(holding: &Holding) -> Self {
        let Holding { placement, size_bits, capacity_items, .. } = *holding;
        Self { placement, size_bits, capacity_items }
    }
}

/// Layers by their shapes.
#[derive(Debug, Default)]
pub(super) struct Groups(HashMap<Shape, Group>);

/// The layers of one shape.
#[derive(Debug, Default)]
struct Group {
    /// The set bits of each, with its number.
    by_set_bits: BTreeSet<(u64, usize)>,
    /// The number of each, and the first word of its bits.
    first_words: Vec<(usize, u64)>,
    /// The most set bits that stand for no more items than each has capacity for.
    most_set_bits: OnceCell<u64>,
}

impl Groups {
    /// Takes in a layer; of one shape, layers come in the order of their numbers. O(log layers).
    pub(super) fn insert(&mut self, number: usize, layer: &Holding, bits: &Bits) {
        let group = self.0.entry(layer.into()).or_default();
        group.by_set_bits.insert((layer.set_bits, number));
        group.first_words.push((number, first_word(bits)));
    }

    /// Notes that a layer holds `from` as well, and how much it holds then. O(log layers).
    pub(super) fn set_in(&mut self, number: usize, before: &Holding, then: &Holding, from: &Bits) {
        let Some(group) = self.0.get_mut(&before.into()) else { return };
        group.by_set_bits.remove(&(before.set_bits, number));
        group.by_set_bits.insert((then.set_bits, number));
        if let Ok(place) = group.first_words.binary_search_by_key(&number, |(number, _)| *number)
            && let Some((_, word)) = group.first_words.get_mut(place)
        {
            *word |= first_word(from);
        }
    }

    /// Returns whether a layer has the shape of another. O(log layers).
    pub(super) fn is_alike(&self, number: usize, layer: &Holding, other: &Holding) -> bool {
        let group = self.0.get(&other.into());
        group.is_some_and(|group| group.by_set_bits.contains(&(layer.set_bits, number)))
    }

    /// Returns the layers of that shape, those with the fewest set bits first.
    pub(super) fn emptiest(&self, holding: &Holding) -> impl Iterator<Item = usize> {
        let group = self.0.get(&holding.into());
        group.into_iter().flat_map(|group| group.by_set_bits.iter().map(|(_, number)| *number))
    }

    /// Returns the most set bits that stand for no more items than a layer of that shape has capacity for. O(log bits), and O(1)
    /// from then on.
    pub(super) fn most_set_bits(&self, holding: &Holding) -> u64 {
        let group = self.0.get(&holding.into());
        group.map_or(0, |group| *group.most_set_bits.get_or_init(|| holding.most_set_bits()))
    }

    /// Returns whether a layer of that shape has all bits of `from`. O(bytes), and for each layer of the shape next to nothing:
    /// a word tells most.
    pub(super) fn is_covered<'b>(
        &self,
        holding: &Holding,
        from: &Bits,
        bits_of: impl Fn(usize) -> Option<&'b Bits>,
    ) -> bool {
        let Some(group) = self.0.get(&holding.into()) else { return false };
        let first = first_word(from);
        let place = from.words().iter().position(|word| *word != 0).unwrap_or(0);
        let word_at = |bits: &Bits| bits.words().get(place).copied().unwrap_or(0);
        let mut candidates = group.first_words.iter().filter(|(_, word)| first & !word == 0);
        candidates.any(|(number, _)| {
            bits_of(*number).is_some_and(|bits| word_at(from) & !word_at(bits) == 0 && bits.covers(from))
        })
    }
}

fn first_word(bits: &Bits) -> u64 {
    bits.words().first().copied().unwrap_or(0)
}
