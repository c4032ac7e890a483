//! A layer: bits, the hash and layout of its items, and the number of items; and the rules of a layer.

use super::array::BitArray;
use super::head::head;
use super::layout::{LayerParameters, Layout, Placement};
use super::pieces::ArrayForm;
use super::sizing::LayerShape;
use super::sizing::estimate::{self, clients_items, fill};
use crate::hash::Hash;
use crate::limits::{CAPACITY_MAX_ITEMS, LAYER_MAX_BYTES, VALKEYBLOOM_CAPACITY_MAX_ITEMS};
use crate::memory::{Memory, OutOfMemory};

/// The parameters of a layer to create.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSpec {
    /// The hash and layout of its items.
    pub placement: Placement,
    /// The number of bits.
    pub size_bits: u64,
    /// Items that the layer takes before it is full.
    pub capacity_items: u64,
    /// Whether there is space for a head before the bits.
    pub has_head: bool,
}

impl LayerSpec {
    /// Returns the spec of the smallest layer of everbloom's own layouts that keeps `error_rate` with `capacity_items`
    /// distinct items: see [`LayerShape::sized`].
    #[must_use]
    pub fn sized(capacity_items: u64, error_rate: f64, hash: Hash) -> Self {
        Self::of_shape(LayerShape::sized(capacity_items, error_rate), hash)
    }

    /// Returns the spec of a layer of this shape, which must be valid.
    #[must_use]
    pub fn of_shape(shape: LayerShape, hash: Hash) -> Self {
        let LayerShape { positions, capacity_items, .. } = shape;
        let placement = Placement::new(hash, shape.layout());
        Self { placement, size_bits: positions, capacity_items, has_head: false }
    }

    /// Returns the arrangement of the bits in memory.
    fn form(&self) -> ArrayForm {
        match self.placement.layout() {
            _ if self.has_head => ArrayForm::Headed,
            Layout::Paged(_) => ArrayForm::Pages,
            _ => ArrayForm::Block,
        }
    }

    /// Returns the bytes of the two blocks of memory that the bits are in, without a head. The second one may be empty.
    #[must_use]
    pub fn blocks_bytes(&self) -> [u64; 2] {
        let size_bytes = self.size_bits.div_ceil(8);
        let first_bytes = self.form().first_bytes(size_bytes);
        [first_bytes, size_bytes.saturating_sub(first_bytes)]
    }
}

/// The counts of a layer, which adds change.
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
        let mut bits = BitArray::try_new(spec.size_bits, spec.form())?;
        let LayerSpec { placement, capacity_items, has_head, .. } = spec;
        if let Some(head) = head(&placement, bits.size_bytes()).filter(|_| has_head) {
            bits.set_head(&head);
        }
        Ok(Self { bits, capacity_items, items: 0, placement })
    }

    /// Creates a layer of existing bits, which must have the size in the spec.
    #[must_use]
    pub fn of_bits(spec: LayerSpec, bits: BitArray) -> Self {
        Self { bits, capacity_items: spec.capacity_items, items: 0, placement: spec.placement }
    }

    /// Returns the parameters with which an empty layer like this one is created.
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
    #[inline(always)]
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
    #[inline(always)]
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
    pub fn shape(&self) -> Option<LayerShape> {
        LayerShape::of(self.layout(), self.positions(), self.capacity_items)
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
    pub(crate) fn has_shape_of(&self, other: &Self) -> bool {
        self.bits.size_bits() == other.bits.size_bits()
            && self.capacity_items == other.capacity_items
            && self.placement == other.placement
    }

    /// Returns the error rate of the layer with `set_bits` set bits. O(1).
    #[must_use]
    pub fn error_rate_at(&self, set_bits: u64) -> f64 {
        match self.shape() {
            Some(shape) => shape.error_rate_now(set_bits),
            None => estimate::error_rate_now(fill(set_bits, self.positions()), self.layout().probes()),
        }
    }

    /// Returns the mutable hash and layout, for relocation.
    pub(crate) fn placement_mut(&mut self) -> &mut Placement {
        &mut self.placement
    }

    /// Sets the hash of the items, if the saved bytes did not determine it.
    pub(crate) fn set_hash(&mut self, hash: Hash) {
        self.placement = Placement::new(hash, self.layout());
    }

    /// Adds `more` to the item count, but not beyond the number of bits: see [`validate`](Self::validate). Every counted
    /// item sets a clear bit. So only two counts could exceed it: that of a dump's header, whose bits come later, and an
    /// estimate. Only the count of a client's layer may exceed it.
    #[inline(always)]
    pub(crate) fn count_items(&mut self, more: u64) {
        let counted = self.items.saturating_add(more);
        let is_too_many = counted > self.bits.size_bits();
        self.items = if is_too_many { self.most_items(counted) } else { counted };
    }

    #[cold]
    fn most_items(&self, counted: u64) -> u64 {
        let is_clients = matches!(self.layout(), Layout::Scheme(_));
        if is_clients { counted } else { self.items.max(self.bits.size_bits()) }
    }

    /// Checks the rules of a layer with its hash, layout and bits. O(1).
    ///
    /// # Errors
    /// The name of the part that breaks a rule.
    pub fn validate(&self) -> Result<(), &'static str> {
        let (size_bits, capacity_items) = (self.bits().size_bits(), self.capacity_items());
        if size_bits == 0 || self.bits().size_bytes() > LAYER_MAX_BYTES {
            return Err("size in bits");
        }
        if self
            .bits()
            .head()
            .is_some_and(|saved| head(&self.placement, self.bits().size_bytes()) != Some(*saved))
        {
            return Err("head");
        }
        let counts = self.counts();
        if counts.set_bits > size_bits {
            return Err("set bits");
        }
        // Each counted item has set a clear bit.
        let mut most_items = size_bits;
        let hashes = match (self.layout(), self.hash()) {
            (Layout::Scattered(_) | Layout::Paged(_), hash) if hash.is_own() => {
                let shape = self.shape().ok_or("layout")?;
                shape.validate()?;
                most_items = shape.positions;
                if shape.positions == size_bits { Ok(()) } else { Err("size in bits") }
            }
            (Layout::Modulo(layout), Hash::RedisBloom(_)) => {
                let written = LayerParameters::of(&layout, size_bits, capacity_items);
                if written.layout(size_bits / 8)? == layout { Ok(()) } else { Err("size in bits") }
            }
            (Layout::Prime(layout), Hash::ValkeyBloom(_)) => {
                layout.check(size_bits)?;
                let is_possible = (1..=VALKEYBLOOM_CAPACITY_MAX_ITEMS).contains(&capacity_items);
                if is_possible { Ok(()) } else { Err("capacity") }
            }
            // The count begins with an estimate, which may exceed the capacity and is at most that of a full array.
            // Every item that was counted since has set a clear bit. Only in an array that chunks filled after items
            // were added can the count be higher than that, up to the capacity.
            (Layout::Scheme(layout), Hash::Client(..)) => {
                if capacity_items == 0 || capacity_items > CAPACITY_MAX_ITEMS {
                    return Err("capacity");
                }
                let estimated = clients_items(size_bits, size_bits, layout.parameters().probes);
                most_items = estimated.saturating_add(size_bits).max(capacity_items);
                if layout.array_bits() == size_bits { Ok(()) } else { Err("size in bits") }
            }
            _ => Err("hash"),
        };
        hashes?;
        if counts.items > most_items { Err("items") } else { Ok(()) }
    }
}
