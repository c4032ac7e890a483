//! A filter: a chain of layers that grows.

use super::bits::OutOfMemory;
use super::extent::Extent;
use super::family::{Family, LayerPlan, Placement};
use super::growth::Growth;
use super::hash::{ItemHash, hash128};
use super::layer::{Layer, LayerShape, Probing};
use super::limits::{CAPACITY_DEFAULT_ITEMS, CAPACITY_MAX_ITEMS, ERROR_RATE_DEFAULT};
use super::mark::{Marks, Origin, StateMark};
use super::memory::Memory;
use super::scheme::ItemEncoding;

/// What a filter is reserved with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainParameters {
    /// Promised share of false positives among absent items, over all layers; strictly between 0 and 1.
    pub error_rate: f64,
    /// Items of the first layer.
    pub capacity_items: u64,
    /// What happens when it is full.
    pub growth: Growth,
}

impl Default for ChainParameters {
    fn default() -> Self {
        Self {
            error_rate: ERROR_RATE_DEFAULT,
            capacity_items: CAPACITY_DEFAULT_ITEMS,
            growth: Growth::default(),
        }
    }
}

impl ChainParameters {
    /// The first rule that the parameters break, if they break one.
    ///
    /// # Errors
    /// The name of the field that is out of its range.
    pub fn validate(&self) -> Result<(), &'static str> {
        if !(self.error_rate > 0.0 && self.error_rate < 1.0) {
            return Err("error rate");
        }
        if self.capacity_items == 0 || self.capacity_items > CAPACITY_MAX_ITEMS {
            return Err("capacity");
        }
        if self.growth.expansion() > super::limits::EXPANSION_MAX {
            return Err("expansion");
        }
        Ok(())
    }

    /// Items and error rate of layer `index`, 0 being the first, behind one with a capacity of `before` items.
    ///
    /// # Errors
    /// [`ReserveError::TooLong`] when it would hold more items than a layer may.
    pub(super) fn layer_parameters(
        &self,
        index: usize,
        before: Option<u64>,
    ) -> Result<(u64, f64), ReserveError> {
        let capacity_items = match before {
            None => Some(self.capacity_items),
            Some(capacity_items) => capacity_items.checked_mul(self.growth.expansion().into()),
        };
        let capacity_items =
            capacity_items.filter(|items| *items <= CAPACITY_MAX_ITEMS).ok_or(ReserveError::TooLong)?;
        Ok((capacity_items, self.growth.layer_error_rate(self.error_rate, index)))
    }
}

/// How many bytes a filter may take in all, structs and bit arrays: [`Chain::needed_bytes`]. Asked only when a layer is
/// about to be made, so it may be costly.
pub trait ByteLimit {
    /// The most bytes of one filter.
    fn max_filter_bytes(&self) -> u64;

    /// Checks that a filter may take so many bytes.
    ///
    /// # Errors
    /// The limit that it would break.
    fn permits(&self, needed_bytes: u64) -> Result<(), u64> {
        let limit_bytes = self.max_filter_bytes();
        if needed_bytes > limit_bytes { Err(limit_bytes) } else { Ok(()) }
    }
}

impl ByteLimit for u64 {
    fn max_filter_bytes(&self) -> u64 {
        *self
    }
}

/// Why a layer could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// The filter would take `needed_bytes`, more than `limit_bytes`.
    TooLarge {
        /// Bytes of the filter with the new layer.
        needed_bytes: u64,
        /// The limit it would break.
        limit_bytes: u64,
    },
    /// It would have more layers than [`LAYERS_MAX`](super::limits::LAYERS_MAX), more probes than
    /// [`PROBES_TOTAL_MAX`](super::limits::PROBES_TOTAL_MAX), or too many items in one layer.
    TooLong,
    /// The error rate of the next layer would be too small to tell from zero.
    ErrorRateVanishes,
    /// The allocator refused.
    OutOfMemory,
}

impl From<OutOfMemory> for ReserveError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// What adding an item came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The item was not there before.
    New,
    /// The item was there already, or is a false positive; nothing changed.
    Present,
}

/// Why an item could not be added; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// The filter is fixed and holds as many items as it was reserved for.
    Full,
    /// The filter is full and cannot grow.
    CannotGrow(ReserveError),
    /// The item cannot be written in the encoding of a client's filter that was taken over.
    NotEncodable(ItemEncoding),
}

impl Family for ChainParameters {
    type Digest<'i> = ItemHash;
    type Placement = Probing;

    #[inline(always)]
    fn digest(&self, item: &[u8]) -> ItemHash {
        hash128(item)
    }

    fn next_layer(&self, layers: &[Layer]) -> Result<LayerPlan<Probing>, AddError> {
        if !layers.is_empty() && self.growth == Growth::Fixed {
            return Err(AddError::Full);
        }
        let before = layers.last().map(Layer::capacity_items);
        let (capacity_items, error_rate) =
            self.layer_parameters(layers.len(), before).map_err(AddError::CannotGrow)?;
        Ok(LayerShape::sized(capacity_items, error_rate).into())
    }
}

/// A filter of one or more layers, oldest first. New items go to the last.
#[derive(Debug)]
pub struct Chain<F: Family = ChainParameters> {
    layers: Vec<Layer<F::Placement>>,
    family: F,
    /// None for most filters: those that never were dumped or loaded in pieces.
    marks: Option<Box<Marks>>,
}

impl Chain {
    /// An empty filter of one layer. The parameters must be valid.
    ///
    /// # Errors
    /// When the first layer is larger than `limit` allows or than the memory there is.
    pub fn reserve(parameters: ChainParameters, limit: &dyn ByteLimit) -> Result<Self, ReserveError> {
        Self::try_new(parameters, limit)
    }

    /// What the filter was reserved with.
    #[must_use]
    pub fn parameters(&self) -> ChainParameters {
        self.family
    }
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
