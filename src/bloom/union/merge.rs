//! Taking filters into another: what becomes of each of their layers is decided before anything is changed.
//!
//! A layer whose shape the destination has is set in that layer, bit by bit, where that stays within what it
//! was sized for; any other is appended. What is decided depends on nothing but the filters, so a replica
//! that has the same ones comes to the same bits. All of this is part of the format: a release that decides
//! otherwise differs from its primary.

use std::fmt;

use super::facts::{Holding, View};
use super::family::Union;
use super::placement::UnionPlacement;
use crate::bloom::bits::Bits;
use crate::bloom::everbloom::Everbloom;
use crate::bloom::extent::Extent;
use crate::bloom::layer::Layer;
use crate::bloom::memory::{Memory, OutOfMemory};
use crate::bloom::outcome::{ByteLimit, ReserveError};
use crate::bloom::placement::Probes;
use crate::bloom::storage::Storage;

/// Arrays up to this size are always compared: 4 MiB are read in under a millisecond. Of a larger one that
/// surely has room the bits are counted while they are set, in one pass.
const COMPARED_MAX_BITS: u64 = 32 << 20;

/// What a merge may do to its destination.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// What it promises, once it is a filter of our own.
    pub promise: Everbloom,
    /// Whether layers may be appended to it: to filters of our own format.
    pub takes_layers: bool,
    /// Whether it is merged into although that breaks the promised error rate.
    pub is_forced: bool,
}

/// Why filters are not merged; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MergeError {
    /// The filter would be too large, or have too many layers or probes.
    Reserve(ReserveError),
    /// The destination's format holds no layer of the shape or hash of one of the source's.
    Mismatch,
    /// A layer of the destination would hold more than it was sized for.
    TooFull,
    /// The filter would err more often than it promises.
    ErrorRate {
        /// Its error rate.
        rate: f64,
        /// What it promises.
        promised: f64,
    },
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserve(error) => error.fmt(f),
            Self::Mismatch => f.write_str("the destination has no layer of that shape and hash"),
            Self::TooFull => f.write_str("a layer would hold more items than it was sized for"),
            Self::ErrorRate { rate, promised } => {
                write!(f, "the filter would err at a rate of {rate}, and promises {promised}")
            }
        }
    }
}

impl std::error::Error for MergeError {}

impl From<ReserveError> for MergeError {
    fn from(error: ReserveError) -> Self {
        Self::Reserve(error)
    }
}

impl From<OutOfMemory> for MergeError {
    fn from(OutOfMemory: OutOfMemory) -> Self {
        Self::Reserve(ReserveError::OutOfMemory)
    }
}

/// A layer of a source that is set in one of the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Which layer of the source, 0 being the oldest.
    pub source_layer: usize,
    /// Which layer of the destination.
    pub layer: usize,
}

/// A merge into one filter, as far as it is decided: what its layers will hold, and the layers that it gains.
#[derive(Debug)]
pub struct Merge {
    destination: Destination,
    layers: Vec<Holding>,
    added: Vec<Layer<UnionPlacement>>,
}

impl Merge {
    /// Into a filter with these layers; nothing is decided yet.
    #[must_use]
    pub fn new(destination: Destination, layers: &[View<'_>]) -> Self {
        Self { destination, layers: layers.iter().map(View::holding).collect(), added: Vec::new() }
    }

    /// Decides what becomes of each layer of a source, and makes copies of those that are to be appended.
    /// `into` are the destination's layers. The layers that are to be set in the destination's are answered,
    /// to be set once all sources are found possible. O(layers of the source * layers, and the bytes that
    /// must be compared or copied).
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn decide(
        &mut self,
        into: &[View<'_>],
        source: &[View<'_>],
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<Vec<Order>, MergeError> {
        let mut orders = Vec::new();
        for (source_layer, from) in source.iter().enumerate() {
            if from.bits.set_bits() == 0 {
                continue;
            }
            if self.is_covered(into, from) {
                continue;
            }
            match self.place_of(into, from, source_layer)? {
                Some(layer) => orders.push(Order { source_layer, layer }),
                None if self.is_in_added(from, memory) => {}
                None if self.destination.takes_layers => self.append(from, limit, memory)?,
                None => return Err(MergeError::Mismatch),
            }
        }
        Ok(orders)
    }

    /// Whether a layer of the destination has all bits of a source's: the same source was merged before.
    fn is_covered(&self, into: &[View<'_>], from: &View<'_>) -> bool {
        let holding = from.holding();
        let covers = |(layer, view): (&Holding, &View<'_>)| {
            layer.has_shape_of(&holding) && view.bits.covers(from.bits)
        };
        self.layers.iter().zip(into).any(covers)
    }

    /// The layer of the destination that a source's layer is set in, if there is one.
    fn place_of(
        &mut self,
        into: &[View<'_>],
        from: &View<'_>,
        number: usize,
    ) -> Result<Option<usize>, MergeError> {
        let holding = from.holding();
        // The one of the same number first: filters that were made alike grow alike.
        let order = std::iter::once(number).chain((0..self.layers.len()).filter(|index| *index != number));
        let alike: Vec<usize> = order
            .filter(|index| self.layers.get(*index).is_some_and(|layer| layer.has_shape_of(&holding)))
            .collect();
        let roomy = |index: &&usize| self.layers.get(**index).is_some_and(|layer| has_room(layer, &holding));
        let Some(index) = alike.iter().find(roomy).or(alike.first()) else { return Ok(None) };
        let (Some(layer), Some(view)) = (self.layers.get_mut(*index), into.get(*index)) else {
            return Ok(None);
        };
        let set_bits = layer.set_bits_with(&holding);
        let set_bits = if layer.size_bits <= COMPARED_MAX_BITS || !has_room(layer, &holding) {
            // What is set here already and is not yet: exact for the first source, no less than the truth
            // after.
            layer.set_bits.saturating_add(view.bits.count_beyond(from.bits)).min(layer.size_bits)
        } else {
            set_bits
        };
        let items = layer.items_with(&holding, set_bits);
        let fits = has_room(layer, &holding) || layer.items_by_fill(set_bits) <= layer.capacity_items;
        if !fits && self.destination.takes_layers {
            return Ok(None);
        }
        if !fits && !self.destination.is_forced {
            return Err(MergeError::TooFull);
        }
        (layer.set_bits, layer.items) = (set_bits, items);
        Ok(Some(*index))
    }

    /// Sets a source's layer in one that was appended before, if that has room for it.
    fn is_in_added(&mut self, from: &View<'_>, memory: impl Memory) -> bool {
        let holding = from.holding();
        for layer in &mut self.added {
            let view = View::of(layer, layer.placement());
            let to = view.holding();
            if !to.has_shape_of(&holding) {
                continue;
            }
            let fits = || {
                let set_bits = to.set_bits.saturating_add(view.bits.count_beyond(from.bits));
                to.items_by_fill(set_bits) <= to.capacity_items
            };
            if view.bits.covers(from.bits) || has_room(&to, &holding) || fits() {
                set_in(layer, from, memory);
                return true;
            }
        }
        false
    }

    fn append(
        &mut self,
        from: &View<'_>,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<(), MergeError> {
        self.check_extent(from.bits.size_bytes(), from.placement.probes(), limit)?;
        self.added.try_reserve(1).map_err(|_| ReserveError::OutOfMemory)?;
        let bits = from.bits.try_clone(memory)?;
        let counted = match from.placement {
            // One that saturates may count more, which only its own filter can write down.
            UnionPlacement::Own(_) | UnionPlacement::Keyed(..) => 0,
            _ => from.items,
        };
        let most = from.capacity_items.min(from.bits.len()).max(counted);
        let items = from.holding().items.min(most);
        self.added.push(Layer::of_bits(from.placement, bits, from.capacity_items, items));
        Ok(())
    }

    /// Checks that there may be a filter with one more layer.
    fn check_extent(&self, size_bytes: u64, probes: u32, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        let of_layers = self.layers.iter().fold(Extent::default(), |extent, layer| {
            extent.and_layer(layer.size_bits.div_ceil(8), layer.placement.probes())
        });
        let extent = self.added.iter().fold(of_layers, |extent, layer| {
            extent.and_layer(layer.bits().size_bytes(), layer.placement().probes())
        });
        extent.and_layer(size_bytes, probes).check::<Union>(limit)
    }

    /// Checks what all sources together come to, and answers the layers that the destination gains.
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn finish(mut self, limit: &dyn ByteLimit) -> Result<Vec<Layer<UnionPlacement>>, MergeError> {
        let holdings = || {
            self.layers
                .iter()
                .copied()
                .chain(self.added.iter().map(|layer| View::of(layer, layer.placement()).holding()))
        };
        let rate: f64 = holdings().map(|layer| layer.error_rate()).sum();
        let promised = self.destination.promise.error_rate;
        if !self.added.is_empty() && rate > promised && !self.destination.is_forced {
            return Err(MergeError::ErrorRate { rate, promised });
        }
        let takes_items = self.layers.last().is_some_and(|layer| layer.placement.takes_all_items());
        if !self.added.is_empty() && !takes_items {
            self.add_own_layer(limit)?;
        }
        Ok(self.added)
    }

    /// Appends an empty layer of our own, for new items.
    fn add_own_layer(&mut self, limit: &dyn ByteLimit) -> Result<(), MergeError> {
        let Destination { promise, .. } = self.destination;
        let before = self.layers.len().saturating_add(self.added.len());
        let plan = Union(promise).own_plan(before, promise.capacity_items)?;
        self.check_extent(plan.size_bits.div_ceil(8), plan.placement.probes(), limit)?;
        self.added.try_reserve(1).map_err(|_| ReserveError::OutOfMemory)?;
        self.added.push(Layer::try_new(plan)?);
        Ok(())
    }
}

/// Whether there is room for the items of both by their counts, all of them taken for different ones, or by
/// what the bits of both will be then.
fn has_room(layer: &Holding, other: &Holding) -> bool {
    layer.items.saturating_add(other.items) <= layer.capacity_items
        || layer.items_by_fill(layer.set_bits_with(other)) <= layer.capacity_items
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
