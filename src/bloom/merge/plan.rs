//! The plan of a merge of layers of bits and counters.

use super::contents::{Contents, ShapeIndex, spent};
use super::{LastLayer, MergeError, MergePlan, Union};
use crate::bloom::cells::{CellState, CellType, Cells};
use crate::bloom::extent::Extent;
use crate::bloom::filter::Filter;
use crate::bloom::hash::Hash;
use crate::bloom::layer::Layer;
use crate::bloom::limits::CAPACITY_MAX_ITEMS;
use crate::bloom::memory::Memory;
use crate::bloom::outcome::{ByteLimit, ReserveError};
use crate::bloom::sizing::Shape;

/// Largest layers that are always compared first: 4 MiB are read in less than a millisecond. The bits of a larger
/// layer that certainly fits are counted while they are set, in one pass.
const COMPARED_MAX_BITS: u64 = 32 << 20;

/// Most words that are compared to find a layer with many common items. The first two layers are compared whatever
/// their size.
const SEARCHED_WORDS: usize = 256;

/// Which layers are appended if the destination has no layer of their shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appends {
    /// None: the format has no other layers, or deletions could go to the wrong one.
    Nothing,
    /// Layers of this hash.
    OfHash(Hash),
    /// All.
    Any,
}

/// A plan under construction.
#[derive(Debug)]
pub(super) struct Planner<'f, 's: 'f> {
    filter: &'f Filter,
    appends: Appends,
    is_forced: bool,
    /// The contents of the destination's layers after the planned unions, then those of the added layers.
    layers: Vec<Contents<'f>>,
    /// An index of `layers`.
    index: ShapeIndex<'f>,
    /// The extent of all layers, except a last one that can be replaced.
    extent: Extent,
    plan: MergePlan<'s>,
}

impl<'f, 's: 'f> Planner<'f, 's> {
    /// Returns a plan without sources. O(layers log layers).
    pub(super) fn new(filter: &'f Filter, appends: Appends, is_forced: bool) -> Self {
        let layers: Vec<Contents<'f>> = filter.layers().iter().map(Contents::of).collect();
        let mut index = ShapeIndex::default();
        layers.iter().enumerate().for_each(|(number, layer)| index.insert(number, layer));
        let (extent, plan) = (Extent::default(), MergePlan::default());
        let mut planner = Self { filter, appends, is_forced, layers, index, extent, plan };
        let staying = filter.layer_count().saturating_sub(usize::from(planner.is_last_replaceable()));
        planner.extent = Extent::of(filter.layers().get(..staying).unwrap_or_default());
        planner
    }

    /// Returns the current number of layers of the destination.
    fn layer_count(&self) -> usize {
        self.filter.layer_count()
    }

    /// Returns the contents of the destination's last layer after the planned unions.
    fn last(&self) -> Option<&Contents<'f>> {
        self.layers.get(self.layer_count().checked_sub(1)?)
    }

    /// Returns whether the destination's last layer can be replaced: it is empty and takes new items.
    fn is_last_replaceable(&self) -> bool {
        self.last().is_some_and(|last| last.set_cells == 0 && last.shape.hash().takes_all_items())
    }

    /// Returns the current cells of a layer of the destination, or those of an added layer.
    fn cells(&self, number: usize) -> Option<&Cells> {
        let layer = match number.checked_sub(self.layer_count()) {
            None => self.filter.layers().get(number),
            Some(number) => self.plan.added.get(number),
        };
        layer.map(Layer::cells)
    }

    /// Adds each layer of a source to the plan, with copies of those that are appended. O(layers of the source * log
    /// layers, and the bytes that are compared or copied). With thousands of layers of one shape, one word of each is
    /// compared.
    ///
    /// # Errors
    /// [`MergeError`].
    pub(super) fn plan_source(
        &mut self,
        source: &'s Filter,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<(), MergeError> {
        for (number, from) in
            source.layers().iter().enumerate().filter(|(_, from)| from.counts().set_cells > 0)
        {
            let contents = Contents::of(from);
            // Counters are added even if they are of the same items.
            let are_bits = matches!(from.cells().state(), CellState::Bits);
            if are_bits && self.index.is_covered(&contents, |number| self.cells(number)) {
                continue;
            }
            match self.target_of(&contents, number)? {
                Some((layer, then)) if layer < self.layer_count() => {
                    self.set_contents(layer, then, from.cells());
                    self.plan.unions.push(Union { from, layer });
                }
                Some((layer, _)) => self.unite_with_added(layer, &contents, memory),
                None => self.append(&contents, limit, memory)?,
            }
        }
        Ok(())
    }

    /// Returns the layer that a source's layer is merged into, if any, and its contents after that. It is the layer
    /// with the same index, because equal filters grow alike; otherwise the one with the fewest set cells. If neither
    /// fits, it is one with many common items.
    fn target_of(
        &self,
        from: &Contents<'f>,
        number: usize,
    ) -> Result<Option<(usize, Contents<'f>)>, MergeError> {
        let of_same_number = self.layers.get(number).filter(|_| number < self.layer_count());
        let has_shape = of_same_number.is_some_and(|layer| self.index.has_shape(number, layer, from));
        let candidates = || has_shape.then_some(number).into_iter().chain(self.index.emptiest(from));
        let layers = || candidates().filter_map(|number| Some((number, self.layers.get(number)?)));
        if let Some((number, layer)) = layers().take(2).find(|(_, layer)| layer.fits_with(from)) {
            let is_compared = from.shape.cells().size_bits() <= COMPARED_MAX_BITS;
            let set_cells =
                if is_compared { self.set_cells_with(number, from) } else { layer.set_cells_with(from) };
            return Ok(Some((number, layer.with(from, set_cells))));
        }
        let most_set_cells = self.index.most_set_cells(from);
        let searched = SEARCHED_WORDS / from.shape.cells().words().len().max(1);
        for (number, layer) in layers().take(searched.max(2)) {
            let set_cells = self.set_cells_with(number, from);
            if set_cells <= most_set_cells {
                return Ok(Some((number, layer.with(from, set_cells))));
            }
        }
        let is_appended = match &self.appends {
            Appends::Nothing => false,
            Appends::OfHash(hash) => from.shape.hash() == hash,
            Appends::Any => true,
        };
        match layers().next() {
            _ if is_appended => Ok(None),
            None => Err(MergeError::Mismatch),
            Some((number, layer)) if self.is_forced => {
                Ok(Some((number, layer.with(from, self.set_cells_with(number, from)))))
            }
            Some(_) => Err(MergeError::TooFull),
        }
    }

    /// Returns the set cells of a layer after a merge with `from`: exact for the first source, an upper bound for
    /// later ones. O(bytes).
    fn set_cells_with(&self, number: usize, from: &Contents<'f>) -> u64 {
        let Some((layer, cells)) = self.layers.get(number).zip(self.cells(number)) else { return 0 };
        layer
            .set_cells
            .saturating_add(cells.count_beyond(from.shape.cells()))
            .min(from.shape.cells().size_bits())
    }

    /// Replaces the contents of a layer after a merge with `from`.
    fn set_contents(&mut self, number: usize, then: Contents<'f>, from: &Cells) {
        if let Some(layer) = self.layers.get_mut(number) {
            self.index.update(number, layer, &then, from);
            *layer = then;
        }
    }

    /// Merges a source's layer into one that was appended before.
    fn unite_with_added(&mut self, number: usize, from: &Contents<'f>, memory: impl Memory) {
        let index = number.saturating_sub(self.layer_count());
        if let Some(layer) = self.plan.added.get_mut(index) {
            layer.unite(from.shape, memory);
            let then = Contents::of(layer).of_shape(from.shape);
            self.set_contents(number, then, from.shape.cells());
        }
    }

    fn append(
        &mut self,
        from: &Contents<'f>,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<(), MergeError> {
        let counted = from.shape.counts().items;
        self.extend(self.extent.with_layer(from.shape), limit)?;
        let mut layer = from.shape.try_clone(memory)?;
        // A saturating layer may have a higher count, which the format permits only in a saturating filter.
        let counted = if from.shape.shape().is_some() { 0 } else { counted };
        let most = from.capacity_items().min(layer.cells().size_bits()).max(counted);
        layer.set_items(from.items.min(most));
        let number = self.layers.len();
        let contents = Contents::of(&layer).of_shape(from.shape);
        self.index.insert(number, &contents);
        self.layers.push(contents);
        self.plan.added.push(layer);
        Ok(())
    }

    /// Sets the extent to one with another layer: checks its limits and reserves memory for the list of layers.
    fn extend(&mut self, extent: Extent, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        self.extent = extent;
        extent.check(limit)?;
        let reserved = self.plan.added.try_reserve(1).and_then(|()| self.layers.try_reserve(1));
        reserved.map_err(|_| ReserveError::OutOfMemory)
    }

    /// Returns the plan, after a check of the error rate over the whole life of the destination. O(layers).
    ///
    /// A layer that takes no more items counts with its current error rate, the last one with its rate when full. If
    /// the sum exceeds the promise, a new last layer is added. Its rate is a share of the remaining promise.
    ///
    /// # Errors
    /// [`MergeError`].
    pub(super) fn finish(mut self, limit: &dyn ByteLimit) -> Result<MergePlan<'s>, MergeError> {
        let (promise, is_forced, count) = (self.filter.promise(), self.is_forced, self.layer_count());
        let is_merged = self.filter.policy().has_merged_layers();
        if self.plan.added.is_empty() && (!is_merged || is_forced) {
            return Ok(self.plan);
        }
        let last = count.checked_sub(1);
        let is_replaceable = self.is_last_replaceable();
        let stays = promise.budget(self.layers.len(), spent(&self.layers, last));
        let staying = self.layers.len().saturating_sub(usize::from(is_replaceable));
        let closes = promise.budget(staying, spent(&self.layers, None));
        let takes_items = self.last().is_some_and(|last| last.shape.hash().takes_all_items());
        // The lowest rate that the merge can have.
        let rate = if self.plan.added.is_empty() {
            stays.most()
        } else if takes_items {
            stays.most().min(closes.with_next_layer())
        } else {
            closes.with_next_layer()
        };
        let needed = closes.needed().max(rate);
        let refusal = MergeError::ErrorRate { rate, promised: promise.error_rate, needed };
        if self.plan.added.is_empty() {
            let before: Vec<Contents<'_>> = self.filter.layers().iter().map(Contents::of).collect();
            let is_worse = stays.spent > spent(&before, last);
            return if is_worse && !stays.is_kept() { Err(refusal) } else { Ok(self.plan) };
        }
        self.plan.last = if takes_items && (stays.is_kept() || (is_forced && !closes.permits_layer())) {
            LastLayer::Kept
        } else if !closes.permits_layer() && !is_forced {
            return Err(refusal);
        } else if is_replaceable {
            LastLayer::Replaced
        } else {
            LastLayer::Closed
        };
        if self.plan.last != LastLayer::Kept {
            let capacity_items =
                self.last().map_or(1, |last| last.capacity_items().clamp(1, CAPACITY_MAX_ITEMS));
            let shape = Shape::sized(CellType::Bits, capacity_items, closes.next_layer_error_rate());
            let spec = shape.spec(self.next_hash(), 0);
            self.extend(self.extent.with_spec(&spec), limit)?;
            self.plan.added.push(Layer::try_new(spec)?);
        }
        if is_replaceable
            && self.plan.last != LastLayer::Replaced
            && let Some(last) = self.last()
        {
            self.extend(self.extent.with_layer(last.shape), limit)?;
        }
        Ok(self.plan)
    }

    /// Returns the hash of a new last layer: the hash of all layers if it is the same and one of everbloom's own,
    /// otherwise MurmurHash3.
    fn next_hash(&self) -> Hash {
        let first = self.filter.layers().first();
        let own = first.filter(|first| first.shape().is_some()).map(|first| *first.hash());
        own.filter(|hash| self.layers.iter().all(|layer| layer.shape.hash() == hash)).unwrap_or(Hash::Murmur3)
    }
}
