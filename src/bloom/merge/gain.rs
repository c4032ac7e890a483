//! Changing the destination of a merge, once that is decided.

use super::LastLayer;
use super::holding::Holding;
use crate::bloom::cells::CellState;
use crate::bloom::filter::Filter;
use crate::bloom::layer::Layer;
use crate::bloom::memory::{Memory, OutOfMemory};
use crate::bloom::policy::Policy;

/// Where a filter has gained layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gained {
    at: usize,
    count: usize,
}

impl Gained {
    /// Returns where a layer is now that was at that place before.
    pub(super) const fn place_of(self, layer: usize) -> usize {
        if layer < self.at { layer } else { layer.saturating_add(self.count) }
    }
}

impl Filter {
    /// Adds layers before, behind or in place of the last one. The filter is one of several kinds from then on unless all of its
    /// layers are alike. Returns where they are now. O(layers).
    ///
    /// # Errors
    /// [`OutOfMemory`]; nothing has changed then.
    pub(super) fn gain_layers(&mut self, added: Vec<Layer>, last: LastLayer) -> Result<Gained, OutOfMemory> {
        if added.is_empty() {
            return Ok(Gained::default());
        }
        self.layers.try_reserve_exact(added.len()).map_err(|_| OutOfMemory)?;
        let hash = self.layers.first().map(|first| *first.hash());
        let stays_alike = match &self.policy {
            Policy::Window(_) => true,
            Policy::Promise(_) => {
                added.iter().all(|layer| Some(*layer.hash()) == hash && layer.shape().is_some())
            }
            _ => false,
        };
        if !stays_alike {
            self.policy = Policy::United(Box::new(self.promise()));
        }
        let count = added.len();
        let at = self.layers.len().saturating_sub(usize::from(last != LastLayer::Closes));
        if last == LastLayer::Leaves {
            self.layers.pop();
        }
        self.layers.insert_many(at, added);
        // A dump that has begun is of other layers.
        self.marks = None;
        self.address_layers(at);
        Ok(Gained { at, count })
    }

    /// Gives the layers of columns from `first` on addresses behind those before them.
    fn address_layers(&mut self, first: usize) {
        let mut end = 0;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            if index >= first
                && let Some(state) = layer.cells_mut().columns_mut()
            {
                state.address = end;
            }
            end = layer.dump_range(end).end;
        }
    }

    /// Takes another layer of its shape into a layer, 0 being the oldest. O(bytes).
    pub(super) fn unite_layer(&mut self, layer: usize, from: &Layer, memory: impl Memory) {
        self.note_change();
        if let Some(layer) = self.layers.get_mut(layer) {
            layer.unite(from, memory);
        }
    }
}

impl Layer {
    /// Returns whether an item sets the same cells in both, and both are sized for as many items.
    pub(super) fn has_shape_of(&self, other: &Self) -> bool {
        self.cells().state().cell_type() == other.cells().state().cell_type()
            && self.cells().size_bits() == other.cells().size_bits()
            && self.capacity_items() == other.capacity_items()
            && self.placement() == other.placement()
    }

    /// Takes in another layer of its shape, and counts from then on what its fill tells. O(bytes).
    pub(super) fn unite(&mut self, from: &Self, memory: impl Memory) {
        if let CellState::Columns(_) = self.cells().state() {
            // Which items both have is not known: they count in every generation of both.
            self.cells_mut().unite(from.cells(), memory);
            return;
        }
        let (before, other) = (Holding::of(self).of_shape(from), Holding::of(from));
        self.cells_mut().unite(from.cells(), memory);
        let items = before.items_with(&other, self.counts().set_cells);
        let counted = self.counts().items;
        // No decoder takes more than the capacity; of a client's layer, which may begin with more, no more than
        // that.
        let most = self.capacity_items().min(self.cells().size_bits()).max(counted);
        self.set_items(items.min(most).max(counted));
        let occurrences = from.cells().counters().map_or(0, |state| state.occurrences);
        self.count_occurrences(0, occurrences);
    }
}
