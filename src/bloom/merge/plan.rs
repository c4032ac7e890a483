//! What becomes of layers of bits and counters.

use super::alike::Groups;
use super::holding::{Holding, spent};
use super::{LastLayer, MergeError, Merged, Order};
use crate::bloom::cells::{CellState, CellType, Cells};
use crate::bloom::extent::Extent;
use crate::bloom::filter::Filter;
use crate::bloom::hash::Hash;
use crate::bloom::layer::Layer;
use crate::bloom::limits::CAPACITY_MAX_ITEMS;
use crate::bloom::memory::Memory;
use crate::bloom::outcome::{ByteLimit, ReserveError};
use crate::bloom::sizing::Shape;

/// Layers up to this size are always compared: 4 MiB are read in under a millisecond. Of a larger one that surely has room the
/// bits are counted while they are set, in one pass.
const COMPARED_MAX_BITS: u64 = 32 << 20;

/// Words that are compared at most to find a layer with which one has many items in common, where two layers have not more.
const SEARCHED_WORDS: usize = 256;

/// Which layers a filter takes that it has none like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appends {
    /// None: its format holds no others, or its items could not be told apart.
    Nothing,
    /// Those of one hash.
    OfHash(Hash),
    /// All.
    Any,
}

/// A merge into one filter, as far as it is decided: what its layers will hold, and the layers that it gains.
#[derive(Debug)]
pub(super) struct Merge<'f, 's: 'f> {
    filter: &'f Filter,
    appends: Appends,
    is_forced: bool,
    /// What its layers will hold, and what those hold that it gains.
    layers: Vec<Holding<'f>>,
    orders: Vec<Order<'s>>,
    added: Vec<Layer>,
    /// All layers.
    groups: Groups<'f>,
    /// Of all layers but a last one that is empty and may leave.
    extent: Extent,
}

impl<'f, 's: 'f> Merge<'f, 's> {
    /// Returns a merge of which nothing is decided yet. O(layers log layers).
    pub(super) fn new(filter: &'f Filter, appends: Appends, is_forced: bool) -> Self {
        let layers: Vec<Holding<'f>> = filter.layers().iter().map(Holding::of).collect();
        let mut groups = Groups::default();
        layers.iter().enumerate().for_each(|(number, layer)| groups.insert(number, layer));
        let (orders, added, extent) = (Vec::new(), Vec::new(), Extent::default());
        let mut merge = Self { filter, appends, is_forced, layers, orders, added, groups, extent };
        let staying = filter.layer_count().saturating_sub(usize::from(merge.may_leave()));
        merge.extent = Extent::of(filter.layers().get(..staying).unwrap_or_default());
        merge
    }

    /// Returns the number of layers that the destination has now.
    fn layer_count(&self) -> usize {
        self.filter.layer_count()
    }

    /// Returns what the destination's last layer will hold.
    fn last(&self) -> Option<&Holding<'f>> {
        self.layers.get(self.layer_count().checked_sub(1)?)
    }

    /// Returns whether the destination's last layer can be replaced by another: it takes new items, and has none.
    fn may_leave(&self) -> bool {
        self.last().is_some_and(|last| last.set_cells == 0 && last.shape.hash().takes_all_items())
    }

    /// Returns the cells of a layer of the destination as they are, or of one that it gains.
    fn cells(&self, number: usize) -> Option<&Cells> {
        let layer = match number.checked_sub(self.layer_count()) {
            None => self.filter.layers().get(number),
            Some(number) => self.added.get(number),
        };
        layer.map(Layer::cells)
    }

    /// Decides what becomes of each layer of a source, and makes copies of those that are to be appended. O(layers of the source *
    /// log layers, and the bytes that must be compared or copied); where thousands of layers have the shape of one, a word of each.
    ///
    /// # Errors
    /// [`MergeError`].
    pub(super) fn decide(
        &mut self,
        source: &'s Filter,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<(), MergeError> {
        for (number, from) in
            source.layers().iter().enumerate().filter(|(_, from)| from.counts().set_cells > 0)
        {
            let holding = Holding::of(from);
            // Counters are added up, whichever items they are of.
            let are_bits = matches!(from.cells().state(), CellState::Bits);
            if are_bits && self.groups.is_covered(&holding, |number| self.cells(number)) {
                continue;
            }
            match self.place_of(&holding, number)? {
                Some((layer, then)) if layer < self.layer_count() => {
                    self.note(layer, then, from.cells());
                    self.orders.push(Order { from, layer });
                }
                Some((layer, _)) => self.set_in_added(layer, &holding, memory),
                None => self.append(&holding, limit, memory)?,
            }
        }
        Ok(())
    }

    /// Returns the layer that a source's layer is united with, if there is one, and what it holds then: the one of the same
    /// number, for filters that were made alike grow alike, else the one with the fewest set cells. Where there is no room, one with
    /// which it has many items in common.
    fn place_of(
        &self,
        from: &Holding<'f>,
        number: usize,
    ) -> Result<Option<(usize, Holding<'f>)>, MergeError> {
        let of_same_number = self.layers.get(number).filter(|_| number < self.layer_count());
        let is_alike = of_same_number.is_some_and(|layer| self.groups.is_alike(number, layer, from));
        let candidates = || is_alike.then_some(number).into_iter().chain(self.groups.emptiest(from));
        let layers = || candidates().filter_map(|number| Some((number, self.layers.get(number)?)));
        if let Some((number, layer)) = layers().take(2).find(|(_, layer)| layer.has_room_for(from)) {
            let is_compared = from.shape.cells().size_bits() <= COMPARED_MAX_BITS;
            let set_cells =
                if is_compared { self.set_cells_with(number, from) } else { layer.set_cells_with(from) };
            return Ok(Some((number, layer.with(from, set_cells))));
        }
        let most_set_cells = self.groups.most_set_cells(from);
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

    /// Returns how many cells of a layer will be set with those of `from`: exact for the first source, and no less than the
    /// truth after. O(bytes).
    fn set_cells_with(&self, number: usize, from: &Holding<'f>) -> u64 {
        let Some((layer, cells)) = self.layers.get(number).zip(self.cells(number)) else { return 0 };
        layer
            .set_cells
            .saturating_add(cells.count_beyond(from.shape.cells()))
            .min(from.shape.cells().size_bits())
    }

    /// Notes that a layer will hold `from` too, and how much it holds then.
    fn note(&mut self, number: usize, then: Holding<'f>, from: &Cells) {
        if let Some(layer) = self.layers.get_mut(number) {
            self.groups.set_in(number, layer, &then, from);
            *layer = then;
        }
    }

    /// Sets a source's layer in one that was appended before.
    fn set_in_added(&mut self, number: usize, from: &Holding<'f>, memory: impl Memory) {
        let index = number.saturating_sub(self.layer_count());
        if let Some(layer) = self.added.get_mut(index) {
            layer.unite(from.shape, memory);
            let then = Holding::of(layer).of_shape(from.shape);
            self.note(number, then, from.shape.cells());
        }
    }

    fn append(
        &mut self,
        from: &Holding<'f>,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<(), MergeError> {
        let counted = from.shape.counts().items;
        self.extend(from.shape.cells().size_bytes(), from.shape.layout().probes(), limit)?;
        let mut layer = from.shape.try_clone(memory)?;
        // One that saturates may count more, which only its own filter can write down.
        let counted = if from.shape.shape().is_some() { 0 } else { counted };
        let most = from.capacity_items().min(layer.cells().size_bits()).max(counted);
        layer.set_items(from.items.min(most));
        let number = self.layers.len();
        let holding = Holding::of(&layer).of_shape(from.shape);
        self.groups.insert(number, &holding);
        self.layers.push(holding);
        self.added.push(layer);
        Ok(())
    }

    /// Checks that there may be a filter with one more layer, and that there is memory to note it.
    fn extend(&mut self, size_bytes: u64, probes: u32, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        self.extent = self.extent.and_layer(size_bytes, probes);
        self.extent.check(limit)?;
        let room = self.added.try_reserve(1).and_then(|()| self.layers.try_reserve(1));
        room.map_err(|_| ReserveError::OutOfMemory)
    }

    /// Checks what all sources together come to over the whole life of the destination, and returns what it gains. O(layers).
    ///
    /// A layer that takes no more items counts with the error rate that it has, the last one with the rate that it has when it is
    /// full. Where that is too much, a layer that is made for a part of what is left takes its place as the last one.
    ///
    /// # Errors
    /// [`MergeError`].
    pub(super) fn finish(mut self, limit: &dyn ByteLimit) -> Result<Merged<'s>, MergeError> {
        let (promise, is_forced, count) = (self.filter.promise(), self.is_forced, self.layer_count());
        let is_united = self.filter.policy().are_layers_united(self.filter.layers());
        if self.added.is_empty() && (!is_united || is_forced) {
            return Ok(Merged { orders: self.orders, ..Merged::default() });
        }
        let last = count.checked_sub(1);
        let may_leave = self.may_leave();
        let stays = promise.budget(self.layers.len(), spent(&self.layers, last));
        let staying = self.layers.len().saturating_sub(usize::from(may_leave));
        let closes = promise.budget(staying, spent(&self.layers, None));
        let takes_items = self.last().is_some_and(|last| last.shape.hash().takes_all_items());
        let refusal = MergeError::ErrorRate {
            rate: if takes_items { stays.most() } else { closes.with_next_layer() },
            promised: promise.error_rate,
            needed: closes.needed(),
        };
        if self.added.is_empty() {
            let before: Vec<Holding<'_>> = self.filter.layers().iter().map(Holding::of).collect();
            let is_worse = stays.spent > spent(&before, last);
            let merged = Merged { orders: self.orders, ..Merged::default() };
            return if is_worse && !stays.is_kept() { Err(refusal) } else { Ok(merged) };
        }
        let last = if takes_items && (stays.is_kept() || (is_forced && !closes.permits_layer())) {
            LastLayer::Stays
        } else if !closes.permits_layer() && !is_forced {
            return Err(refusal);
        } else if may_leave {
            LastLayer::Leaves
        } else {
            LastLayer::Closes
        };
        if last != LastLayer::Stays {
            let capacity_items =
                self.last().map_or(1, |last| last.capacity_items().clamp(1, CAPACITY_MAX_ITEMS));
            let shape = Shape::sized(CellType::Bits, capacity_items, closes.next_layer_error_rate());
            let spec = shape.spec(self.next_hash(), 0);
            self.extend(spec.size_bits.div_ceil(8), shape.probes, limit)?;
            self.added.push(Layer::try_new(spec)?);
        }
        if may_leave && last != LastLayer::Leaves {
            let staying =
                self.last().map(|last| (last.shape.cells().size_bytes(), last.shape.layout().probes()));
            staying.map_or(Ok(()), |(size_bytes, probes)| self.extend(size_bytes, probes, limit))?;
        }
        Ok(Merged { orders: self.orders, added: self.added, last })
    }

    /// Returns the hash of a new last layer: that of all others where it is one of our own.
    fn next_hash(&self) -> Hash {
        let first = self.filter.layers().first();
        let own = first.filter(|first| first.shape().is_some()).map(|first| *first.hash());
        own.filter(|hash| self.layers.iter().all(|layer| layer.shape.hash() == hash)).unwrap_or(Hash::Murmur3)
    }
}
