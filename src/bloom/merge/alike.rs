//! Groups of layers of one shape, to find the one that a layer of a source is united with.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash as HashBy, Hasher};

use super::holding::Holding;
use crate::bloom::cells::Cells;
use crate::bloom::hash::Hash;
use crate::bloom::layer::Layer;
use crate::bloom::placement::Layout;

/// A layer, compared by what layers have in common whose cells can be united.
#[derive(Clone, Copy, Debug)]
struct Alike<'f>(&'f Layer);

impl PartialEq for Alike<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.has_shape_of(other.0)
    }
}

// No field is ever NaN: a layout is validated when it is made.
impl Eq for Alike<'_> {}

impl HashBy for Alike<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.cells().size_bits(), self.0.capacity_items(), self.0.layout().probes()).hash(state);
        // What tells apart many layers of one size.
        match (self.0.hash(), self.0.layout()) {
            (Hash::Keyed(key), _) => key.bytes().hash(state),
            (Hash::ValkeyBloom(seed), _) => seed.bytes().hash(state),
            (_, Layout::Modulo(layout)) => layout.error_rate().to_bits().hash(state),
            _ => {}
        }
    }
}

/// Layers by their shapes.
#[derive(Debug, Default)]
pub(super) struct Groups<'f>(HashMap<Alike<'f>, Group>);

/// The layers of one shape.
#[derive(Debug, Default)]
struct Group {
    /// The set cells of each, with its number.
    by_set_cells: BTreeSet<(u64, usize)>,
    /// The number of each, and the first word of its cells.
    first_words: Vec<(usize, u64)>,
    /// The most set cells that stand for no more items than each has capacity for.
    most_set_cells: OnceCell<u64>,
}

impl<'f> Groups<'f> {
    fn group(&self, holding: &Holding<'f>) -> Option<&Group> {
        self.0.get(&Alike(holding.shape))
    }

    /// Takes in a layer; of one shape, layers come in the order of their numbers. O(log layers).
    pub(super) fn insert(&mut self, number: usize, layer: &Holding<'f>) {
        let group = self.0.entry(Alike(layer.shape)).or_default();
        group.by_set_cells.insert((layer.set_cells, number));
        group.first_words.push((number, first_word(layer.shape.cells())));
    }

    /// Notes that a layer holds `from` as well, and how much it holds then. O(log layers).
    pub(super) fn set_in(&mut self, number: usize, before: &Holding<'f>, then: &Holding<'f>, from: &Cells) {
        let Some(group) = self.0.get_mut(&Alike(before.shape)) else { return };
        group.by_set_cells.remove(&(before.set_cells, number));
        group.by_set_cells.insert((then.set_cells, number));
        if let Ok(place) = group.first_words.binary_search_by_key(&number, |(number, _)| *number)
            && let Some((_, word)) = group.first_words.get_mut(place)
        {
            *word |= first_word(from);
        }
    }

    /// Returns whether a layer has the shape of another. O(log layers).
    pub(super) fn is_alike(&self, number: usize, layer: &Holding<'f>, other: &Holding<'f>) -> bool {
        self.group(other).is_some_and(|group| group.by_set_cells.contains(&(layer.set_cells, number)))
    }

    /// Returns the layers of that shape, those with the fewest set cells first.
    pub(super) fn emptiest(&self, holding: &Holding<'f>) -> impl Iterator<Item = usize> {
        let group = self.group(holding);
        group.into_iter().flat_map(|group| group.by_set_cells.iter().map(|(_, number)| *number))
    }

    /// Returns the most set cells that stand for no more items than a layer of that shape has capacity for. O(log cells), and O(1)
    /// from then on.
    pub(super) fn most_set_cells(&self, holding: &Holding<'f>) -> u64 {
        self.group(holding).map_or(0, |group| *group.most_set_cells.get_or_init(|| holding.most_set_cells()))
    }

    /// Returns whether a layer of that shape has all bits of the one that `holding` is of. O(bytes), and for each layer of the
    /// shape next to nothing: a word tells most.
    pub(super) fn is_covered<'c>(
        &self,
        holding: &Holding<'f>,
        cells_of: impl Fn(usize) -> Option<&'c Cells>,
    ) -> bool {
        let Some(group) = self.group(holding) else { return false };
        let from = holding.shape.cells();
        let first = first_word(from);
        let place = from.words().iter().position(|word| *word != 0).unwrap_or(0);
        let word_at = |cells: &Cells| cells.words().get(place).copied().unwrap_or(0);
        let mut candidates = group.first_words.iter().filter(|(_, word)| first & !word == 0);
        candidates.any(|(number, _)| {
            cells_of(*number).is_some_and(|cells| word_at(from) & !word_at(cells) == 0 && cells.covers(from))
        })
    }
}

fn first_word(cells: &Cells) -> u64 {
    cells.words().first().copied().unwrap_or(0)
}
