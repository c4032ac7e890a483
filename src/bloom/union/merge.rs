//! Taking filters into another: what becomes of each of their layers is decided before anything is changed.
//!
//! A layer whose shape the destination has is set in that layer, bit by bit, where that stays within what it
//! was sized for; any other is appended. What is decided depends on nothing but the filters, so a replica
//! that has the same ones comes to the same bits. All of this is part of the format: a release that decides
//! otherwise differs from its primary.
//!
//! The destination promises an error rate over its whole life. So its budget ([`crate::bloom::budget`]) has to have room for the
//! layers as they are, for the last one once it is full, and for those that it grows by later.

use super::alike::Groups;
use super::facts::{Holding, View, spent};
use super::family::Union;
use super::layers::LastLayer;
use super::outcome::{Destination, MergeError, Merged, Order};
use super::placement::UnionPlacement;
use crate::bloom::bits::Bits;
use crate::bloom::extent::Extent;
use crate::bloom::layer::Layer;
use crate::bloom::limits::CAPACITY_MAX_ITEMS;
use crate::bloom::memory::Memory;
use crate::bloom::outcome::{ByteLimit, ReserveError};
use crate::bloom::placement::Probes;
use crate::bloom::storage::Storage;

/// Arrays up to this size are always compared: 4 MiB are read in under a millisecond. Of a larger one that
/// surely has room the bits are counted while they are set, in one pass.
const COMPARED_MAX_BITS: u64 = 32 << 20;

/// Words of layers that are compared at most with one of a source, to find a layer that has many items in common with it. Two
/// layers are compared whatever their size.
const SEARCHED_WORDS: usize = 256;

/// A merge into one filter, as far as it is decided: what its layers will hold, and the layers that it gains.
#[derive(Debug)]
pub struct Merge<'v> {
    destination: Destination,
    /// The destination's layers as they are.
    into: &'v [View<'v>],
    /// What its layers will hold, and what those hold that it gains.
    layers: Vec<Holding>,
    added: Vec<Layer<UnionPlacement>>,
    /// All layers.
    groups: Groups,
    /// Of the layers that stay whatever is decided, and of those that the destination gains.
    extent: Extent,
}

impl<'v> Merge<'v> {
    /// Returns a merge into a filter with these layers, of which nothing is decided yet. O(layers log layers).
    #[must_use]
    pub fn new(destination: Destination, into: &'v [View<'v>]) -> Self {
        let layers: Vec<Holding> = into.iter().map(View::holding).collect();
        let mut groups = Groups::default();
        for (number, (layer, view)) in layers.iter().zip(into).enumerate() {
            groups.insert(number, layer, view.bits);
        }
        let mut merge =
            Self { destination, into, layers, added: Vec::new(), groups, extent: Extent::default() };
        merge.extent = merge.extent_without_last(merge.may_leave());
        merge
    }

    /// Returns the extent of all layers, with or without the destination's last one. O(layers).
    fn extent_without_last(&self, is_without: bool) -> Extent {
        let last = self.into.len().checked_sub(1).filter(|_| is_without);
        let layers = self.layers.iter().enumerate().filter(|(number, _)| Some(*number) != last);
        layers.fold(Extent::default(), |extent, (_, layer)| {
            extent.and_layer(layer.size_bits.div_ceil(8), layer.placement.probes())
        })
    }

    /// Returns what the destination's last layer will hold.
    fn last(&self) -> Option<&Holding> {
        self.layers.get(self.into.len().checked_sub(1)?)
    }

    /// Returns whether the destination's last layer can be replaced by another: it takes new items, and has none.
    fn may_leave(&self) -> bool {
        self.last().is_some_and(|last| last.set_bits == 0 && last.placement.takes_all_items())
    }

    /// Returns the bits of a layer of the destination as they are, or of one that it gains.
    fn bits(&self, number: usize) -> Option<&Bits> {
        match number.checked_sub(self.into.len()) {
            None => self.into.get(number).map(|view| view.bits),
            Some(number) => self.added.get(number).map(Layer::bits),
        }
    }

    /// Decides what becomes of each layer of a source, and makes copies of those that are to be appended. Returns the layers
    /// that are to be set in the destination's, once all sources are found possible. O(bytes + layers of the source * log
    /// layers), and a word for each layer of the same shape.
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn decide(
        &mut self,
        source: &[View<'_>],
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<Vec<Order>, MergeError> {
        let mut orders = Vec::new();
        for (source_layer, from) in source.iter().enumerate().filter(|(_, from)| from.bits.set_bits() > 0) {
            let holding = from.holding();
            if self.groups.is_covered(&holding, from.bits, |number| self.bits(number)) {
                continue;
            }
            match self.place_of(from, &holding, source_layer)? {
                Some((layer, then)) if layer < self.into.len() => {
                    self.note(layer, then, from);
                    orders.push(Order { source_layer, layer });
                }
                Some((layer, _)) => self.set_in_added(layer, from, memory),
                None => self.append(from, &holding, limit, memory)?,
            }
        }
        Ok(orders)
    }

    /// Returns the layer that a source's layer is set in, if there is one, and what it holds then: the one of the same
    /// number, since filters that were made alike grow alike, else the one with the fewest set bits. If neither has room, it is one
    /// that has many items in common with the source's.
    fn place_of(
        &self,
        from: &View<'_>,
        holding: &Holding,
        number: usize,
    ) -> Result<Option<(usize, Holding)>, MergeError> {
        let Destination { takes_layers, is_forced, .. } = self.destination;
        let of_same_number = self.layers.get(number).filter(|_| number < self.into.len());
        let is_alike = of_same_number.is_some_and(|layer| self.groups.is_alike(number, layer, holding));
        let candidates = || is_alike.then_some(number).into_iter().chain(self.groups.emptiest(holding));
        let layers = || candidates().filter_map(|number| Some((number, self.layers.get(number)?)));
        if let Some((number, layer)) = layers().take(2).find(|(_, layer)| layer.has_room_for(holding)) {
            let is_compared = layer.size_bits <= COMPARED_MAX_BITS;
            let set_bits =
                if is_compared { self.set_bits_with(number, from) } else { layer.set_bits_with(holding) };
            return Ok(Some((number, layer.with(holding, set_bits))));
        }
        let most_set_bits = self.groups.most_set_bits(holding);
        let searched = SEARCHED_WORDS / from.bits.words().len().max(1);
        for (number, layer) in layers().take(searched.max(2)) {
            let set_bits = self.set_bits_with(number, from);
            if set_bits <= most_set_bits {
                return Ok(Some((number, layer.with(holding, set_bits))));
            }
        }
        match layers().next() {
            _ if takes_layers => Ok(None),
            None => Err(MergeError::Mismatch),
            Some((number, layer)) if is_forced => {
                Ok(Some((number, layer.with(holding, self.set_bits_with(number, from)))))
            }
            Some(_) => Err(MergeError::TooFull),
        }
    }

    /// Returns how many bits of a layer will be set with those of `from`: exact for the first source, and no less than the
    /// truth after. O(bytes).
    fn set_bits_with(&self, number: usize, from: &View<'_>) -> u64 {
        let Some((layer, bits)) = self.layers.get(number).zip(self.bits(number)) else { return 0 };
        layer.set_bits.saturating_add(bits.count_beyond(from.bits)).min(layer.size_bits)
    }

    /// Notes that a layer will hold `from` too, and how much it holds then.
    fn note(&mut self, number: usize, then: Holding, from: &View<'_>) {
        if let Some(layer) = self.layers.get_mut(number) {
            self.groups.set_in(number, layer, &then, from.bits);
            *layer = then;
        }
    }

    /// Sets a source's layer in one that was appended before.
    fn set_in_added(&mut self, number: usize, from: &View<'_>, memory: impl Memory) {
        let index = number.saturating_sub(self.into.len());
        if let Some(layer) = self.added.get_mut(index) {
            set_in(layer, from, memory);
            let then = View::of(layer, layer.placement()).holding();
            self.note(number, then, from);
        }
    }

    fn append(
        &mut self,
        from: &View<'_>,
        holding: &Holding,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<(), MergeError> {
        self.extend(from.bits.size_bytes(), from.placement.probes(), limit)?;
        let bits = from.bits.try_clone(memory)?;
        let counted = match from.placement {
            // One that saturates may count more, which only its own filter can write down.
            UnionPlacement::Own(_) | UnionPlacement::Keyed(..) => 0,
            _ => from.items,
        };
        let most = from.capacity_items.min(from.bits.len()).max(counted);
        let layer = Layer::of_bits(from.placement, bits, from.capacity_items, holding.items.min(most));
        let number = self.layers.len();
        let holding = View::of(&layer, from.placement).holding();
        self.groups.insert(number, &holding, from.bits);
        self.layers.push(holding);
        self.added.push(layer);
        Ok(())
    }

    /// Checks that there may be a filter with one more layer, and that there is memory to note it.
    fn extend(&mut self, size_bytes: u64, probes: u32, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        self.extent = self.extent.and_layer(size_bytes, probes);
        self.extent.check::<Union>(limit)?;
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
    pub fn finish(mut self, limit: &dyn ByteLimit) -> Result<Merged, MergeError> {
        let Destination { promise, is_united, is_forced, .. } = self.destination;
        if self.added.is_empty() && (!is_united || is_forced) {
            return Ok(Merged::default());
        }
        let last = self.into.len().checked_sub(1);
        let may_leave = self.may_leave();
        let stays = promise.budget(self.layers.len(), spent(&self.layers, last));
        let closes = promise
            .budget(self.layers.len().saturating_sub(usize::from(may_leave)), spent(&self.layers, None));
        let takes_items = self.last().is_some_and(|last| last.placement.takes_all_items());
        let refusal = MergeError::ErrorRate {
            rate: if takes_items { stays.most() } else { closes.with_next_layer() },
            promised: promise.error_rate,
            needed: closes.needed(),
        };
        if self.added.is_empty() {
            let before: Vec<Holding> = self.into.iter().map(View::holding).collect();
            let is_worse = stays.spent > spent(&before, last);
            return if is_worse && !stays.is_kept() { Err(refusal) } else { Ok(Merged::default()) };
        }
        let last = if takes_items && (stays.is_kept() || (is_forced && !closes.has_room())) {
            LastLayer::Stays
        } else if !closes.has_room() && !is_forced {
            return Err(refusal);
        } else if may_leave {
            LastLayer::Leaves
        } else {
            LastLayer::Closes
        };
        self.extent = self.extent_without_last(last == LastLayer::Leaves);
        self.extent.check::<Union>(limit)?;
        if last != LastLayer::Stays {
            let capacity_items =
                self.last().map_or(1, |last| last.capacity_items.clamp(1, CAPACITY_MAX_ITEMS));
            let plan = Union::own_plan(capacity_items, closes.next_layer_error_rate());
            self.extend(plan.size_bits.div_ceil(8), plan.placement.probes(), limit)?;
            self.added.push(Layer::try_new(plan)?);
        }
        Ok(Merged { added: self.added, last })
    }
}

/// Sets the bits of a source's layer in another of its shape, which then counts what its fill tells.
/// O(bytes).
pub fn set_in<P: Probes<Storage = Bits>>(layer: &mut Layer<P>, from: &View<'_>, memory: impl Memory) {
    let (before, other) = (View::of(layer, from.placement).holding(), from.holding());
    layer.bits_mut().unite(from.bits, memory);
    let items = before.items_with(&other, layer.bits().set_bits());
    let counted = layer.counts().items;
    // No decoder takes more than the capacity; of a client's layer, which may begin with more, no more than
    // that.
    let most = layer.capacity_items().min(layer.bits().len()).max(counted);
    layer.set_items(items.min(most).max(counted));
}
