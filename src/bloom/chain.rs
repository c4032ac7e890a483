//! A filter: a chain of layers that grows.

use super::bits::OutOfMemory;
use super::everbloom::Everbloom;
use super::extent::Extent;
use super::family::Family;
use super::layer::Layer;
use super::mark::{Marks, Origin, StateMark};
use super::memory::Memory;
use super::outcome::{AddError, Added, ByteLimit, ReserveError};
use super::placement::{LayerPlan, Placement};

/// A filter of one or more layers, oldest first. New items go to the last.
#[derive(Debug)]
pub struct Chain<F: Family = Everbloom> {
    layers: Vec<Layer<F::Placement>>,
    family: F,
    /// None for most filters: those that never were dumped or loaded in pieces.
    marks: Option<Box<Marks>>,
}

impl<F: Family> Chain<F> {
    /// An empty filter of one layer.
    ///
    /// # Errors
    /// When the first layer is larger than `limit` allows or than the memory there is.
    pub fn try_new(family: F, limit: &dyn ByteLimit) -> Result<Self, ReserveError> {
        let mut chain = Self { layers: Vec::new(), family, marks: None };
        match chain.grow(limit) {
            Ok(()) => Ok(chain),
            Err(AddError::CannotGrow(error)) => Err(error),
            Err(AddError::Full | AddError::NotEncodable(_)) => Err(ReserveError::TooLong),
        }
    }

    /// A filter from layers that a decoder has built and validated. `None` when there is no layer, or when they are or
    /// probe too many. O(layers).
    #[must_use]
    pub fn from_layers(family: F, layers: Vec<Layer<F::Placement>>) -> Option<Self> {
        let may_be = !layers.is_empty() && Extent::of::<F>(&layers).is_countable();
        may_be.then_some(Self { layers, family, marks: None })
    }

    /// The kind of filter and its parameters.
    #[must_use]
    pub fn family(&self) -> &F {
        &self.family
    }

    /// The kind of filter and its parameters, for a decoder's host that knows more about them than the bytes say.
    pub fn family_mut(&mut self) -> &mut F {
        &mut self.family
    }

    /// The layers, oldest first; never none.
    #[must_use]
    pub fn layers(&self) -> &[Layer<F::Placement>] {
        &self.layers
    }

    /// The layers, for a decoder that fills them and for defragmentation.
    pub fn layers_mut(&mut self) -> &mut [Layer<F::Placement>] {
        &mut self.layers
    }

    /// Lets `relocate` move the vector of layers, as active defragmentation does. What it returns must hold the same
    /// layers.
    pub fn relocate_layers(
        &mut self,
        relocate: impl FnOnce(Vec<Layer<F::Placement>>) -> Vec<Layer<F::Placement>>,
    ) {
        self.layers = relocate(std::mem::take(&mut self.layers));
    }

    /// Items added, over all layers. O(layers).
    #[must_use]
    pub fn items(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.counts().items))
    }

    /// Items the layers were sized for. O(layers).
    #[must_use]
    pub fn capacity_items(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.capacity_items()))
    }

    /// Bits set, over all layers. O(layers).
    #[must_use]
    pub fn set_bits(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.counts().set_bits))
    }

    /// Marks the state that the filter is in now, for a header that describes it and the chunks that follow: as the last
    /// time where nothing has changed since, else with `fresh`, a number that no other state has. O(layers).
    pub fn mark_state(&mut self, fresh: u64) {
        let set_bits = self.set_bits();
        self.marks.get_or_insert_default().mark(set_bits, fresh);
    }

    /// The mark of the state that the last header described; 0 when there was none.
    #[must_use]
    pub fn state_mark(&self) -> StateMark {
        self.marks.as_ref().map_or(0, |marks| marks.last())
    }

    /// The header that made the filter.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.marks.as_ref().map_or(Origin::NoHeader, |marks| marks.origin)
    }

    /// Says which header made the filter, and how many bits it has once all chunks are in, where the header tells.
    pub fn set_origin(&mut self, origin: Origin, set_bits: Option<u64>) {
        self.marks = Some(Box::new(Marks::of_header(origin, set_bits)));
    }

    /// Memory of the filter in bytes: its structs and bit arrays. O(layers).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let structs_bytes = Self::needed_bytes(self.layers.len(), 0);
        self.layers.iter().fold(structs_bytes, |sum, layer| sum.saturating_add(layer.bits().size_bytes()))
    }

    /// Memory in bytes that a filter of so many layers, no more than there may be, takes whose bit arrays take `array_bytes`
    /// together. O(1).
    #[must_use]
    pub const fn needed_bytes(layers: usize, array_bytes: u64) -> u64 {
        let structs = size_of::<Self>() + layers * size_of::<Layer<F::Placement>>();
        array_bytes.saturating_add(structs as u64)
    }

    /// The digest of an item, to ask for it or to add it. O(length).
    #[must_use]
    #[inline(always)]
    pub fn digest<'i>(&self, item: &'i [u8]) -> F::Digest<'i> {
        self.family.digest(item)
    }

    /// Whether the item may be in the filter: never false for an item that was added. O(layers * probes).
    #[must_use]
    #[inline(always)]
    pub fn contains(&self, digest: F::Digest<'_>) -> bool {
        self.layers.iter().rev().any(|layer| layer.contains(digest))
    }

    /// Adds an item, growing the filter when its last layer is full. O(layers * probes).
    ///
    /// # Errors
    /// [`AddError`] when a new item finds no room; the filter is then as it was.
    #[inline(always)]
    pub fn add(&mut self, digest: F::Digest<'_>, limit: &dyn ByteLimit) -> Result<Added, AddError> {
        self.family.admit(digest)?;
        let Some((last, older)) = self.layers.split_last_mut() else { return Err(AddError::Full) };
        if last.is_full() {
            if self.contains(digest) {
                return Ok(Added::Present);
            }
            self.grow(limit)?;
        } else if older.iter().rev().any(|layer| layer.contains(digest)) {
            return Ok(Added::Present);
        }
        // One pass: setting the bits of an item that is there changes none.
        let is_new = self.layers.last_mut().is_some_and(|layer| layer.insert(digest));
        Ok(if is_new { Added::New } else { Added::Present })
    }

    /// A copy with its own arrays.
    ///
    /// # Errors
    /// [`OutOfMemory`] when they cannot be had.
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        // Exactly as many: a vector that is collected through results has room for four.
        let mut layers = Vec::new();
        layers.try_reserve_exact(self.layers.len()).map_err(|_| OutOfMemory)?;
        for layer in &self.layers {
            layers.push(layer.try_clone(memory)?);
        }
        Ok(Self { layers, family: self.family, marks: None })
    }

    /// Appends the layer that comes next.
    fn grow(&mut self, limit: &dyn ByteLimit) -> Result<(), AddError> {
        let plan = self.family.next_layer(&self.layers)?;
        self.push_layer(plan, limit).map_err(AddError::CannotGrow)
    }

    fn push_layer(
        &mut self,
        plan: LayerPlan<F::Placement>,
        limit: &dyn ByteLimit,
    ) -> Result<(), ReserveError> {
        let probes = <F::Placement as Placement<F::Digest<'_>>>::probes(&plan.placement);
        Extent::of::<F>(&self.layers).and_layer(plan.size_bits.div_ceil(8), probes).check::<F>(limit)?;
        // Exactly one more: a growing vector would hold four layers for the one that most filters have.
        self.layers.try_reserve_exact(1).map_err(|_| ReserveError::OutOfMemory)?;
        self.layers.push(Layer::try_new(plan)?);
        Ok(())
    }
}
