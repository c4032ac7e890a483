//! A layer: bits, the hash and layout of their items, and the number of items.

use std::ops::Range;

use super::array::BitArray;
use super::estimate::{self, fill};
use super::placement::{Layout, Placement};
use super::sizing::{self, Shape};
use crate::bloom::hash::Hash;
use crate::bloom::memory::{Memory, OutOfMemory};

/// The parameters of a layer to create.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSpec {
    /// The hash and layout of its items.
    pub placement: Placement,
    /// Its bits.
    pub size_bits: u64,
    /// Items it takes before it is full.
    pub capacity_items: u64,
    /// Whether there is space for a head before the bits.
    pub has_head: bool,
}

/// The changing part of a layer besides its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerCounts {
    /// Items added.
    pub items: u64,
    /// Bits set.
    pub set_bits: u64,
}

/// A layer of a filter.
#[derive(Debug)]
pub struct Layer {
    bits: BitArray,
    capacity_items: u64,
    items: u64,
    placement: Placement,
}

impl Layer {
    /// Creates an empty layer.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the bits cannot be allocated.
    pub fn try_new(spec: LayerSpec) -> Result<Self, OutOfMemory> {
        let LayerSpec { placement, size_bits, capacity_items, has_head } = spec;
        let bits = BitArray::try_new(size_bits, has_head)?;
        Ok(Self { bits, capacity_items, items: 0, placement })
    }

    /// Creates a layer of existing bits, which have the size in the spec.
    #[must_use]
    pub fn of_bits(spec: LayerSpec, bits: BitArray) -> Self {
        Self { bits, capacity_items: spec.capacity_items, items: 0, placement: spec.placement }
    }

    /// Returns the parameters of the layer, as for an empty one.
    #[must_use]
    pub fn spec(&self) -> LayerSpec {
        LayerSpec {
            placement: self.placement.clone(),
            size_bits: self.bits.size_bits(),
            capacity_items: self.capacity_items,
            has_head: self.bits.has_head(),
        }
    }

    /// Makes a copy with its own memory.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the bits cannot be allocated.
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        let (bits, placement) = (self.bits.try_clone(memory)?, self.placement.clone());
        Ok(Self { bits, placement, ..*self })
    }

    /// Returns the hash and layout.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Returns the hash of the items.
    #[must_use]
    #[inline(always)]
    pub fn hash(&self) -> &Hash {
        self.placement.hash()
    }

    /// Returns the layout: the positions of an item's probes.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.placement.layout()
    }

    /// Returns the bits.
    #[must_use]
    #[inline(always)]
    pub fn bits(&self) -> &BitArray {
        &self.bits
    }

    /// Returns the mutable bits, for a decoder or for relocation.
    pub fn bits_mut(&mut self) -> &mut BitArray {
        &mut self.bits
    }

    /// Returns the capacity in items.
    #[must_use]
    #[inline(always)]
    pub fn capacity_items(&self) -> u64 {
        self.capacity_items
    }

    /// Returns the number of items and of set bits.
    #[must_use]
    #[inline(always)]
    pub fn counts(&self) -> LayerCounts {
        LayerCounts { items: self.items, set_bits: self.bits.set_bits() }
    }

    /// Returns whether the layer has as many items as its capacity.
    #[must_use]
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.items >= self.capacity_items
    }

    /// Sets the number of items, for a decoder.
    pub fn set_items(&mut self, items: u64) {
        self.items = items;
    }

    /// Returns the number of positions that probes can reach.
    #[must_use]
    pub fn positions(&self) -> u64 {
        let size_bits = self.bits.size_bits();
        match self.layout() {
            // If the layer was rounded up, or its modulus is a smaller power of two, the rest of the bits is never set.
            Layout::Modulo(layout) => layout.modulus().divisor().min(size_bits),
            _ => size_bits,
        }
    }

    /// Returns the fixed parameters of the layer if its layout is one of everbloom's own.
    #[must_use]
    pub fn shape(&self) -> Option<Shape> {
        Shape::of(self.layout(), self.positions(), self.capacity_items)
    }

    /// Returns the byte range of the layer in a dump, after layers that end at `end`. O(1).
    #[must_use]
    pub fn dump_range(&self, end: u64) -> Range<u64> {
        end..end.saturating_add(self.bits.size_bytes())
    }

    /// Returns whether the layer has no items and no set bits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts() == LayerCounts::default()
    }

    /// Returns how many new items the layer takes before it is full.
    #[must_use]
    #[inline(always)]
    pub fn room_items(&self) -> u64 {
        self.capacity_items.saturating_sub(self.items)
    }

    /// Returns whether an item sets the same bits in both layers, and both have the same capacity.
    #[must_use]
    pub(in crate::bloom) fn has_shape_of(&self, other: &Self) -> bool {
        self.bits.size_bits() == other.bits.size_bits()
            && self.capacity_items == other.capacity_items
            && self.placement == other.placement
    }

    /// Returns the error rate of the layer with `set_bits` set bits. O(1).
    #[must_use]
    pub fn error_rate_at(&self, set_bits: u64) -> f64 {
        match self.shape() {
            Some(shape) => sizing::error_rate_now(&shape, set_bits),
            None => estimate::error_rate_now(fill(set_bits, self.positions()), self.layout().probes()),
        }
    }

    /// Returns the block of the allocator of the hash and layout, if any.
    pub(in crate::bloom) fn placement_mut(&mut self) -> &mut Placement {
        &mut self.placement
    }

    /// Sets the hash of the items, if the saved bytes did not determine it.
    pub(in crate::bloom) fn set_hash(&mut self, hash: Hash) {
        self.placement = Placement::new(hash, self.layout());
    }

    /// Adds `more` to the item count. Every counted item sets a clear bit, so there can be more items than bits only if
    /// bits were set without being counted. A client's count begins with an estimate and may be higher.
    #[inline(always)]
    pub(in crate::bloom) fn count_items(&mut self, more: u64) {
        let counted = self.items.saturating_add(more);
        let is_too_many = counted > self.bits.size_bits();
        self.items = if is_too_many { self.most_items(counted) } else { counted };
    }

    #[cold]
    fn most_items(&self, counted: u64) -> u64 {
        let is_clients = matches!(self.layout(), Layout::Scheme(_));
        if is_clients { counted } else { self.items.max(self.bits.size_bits()) }
    }
}
