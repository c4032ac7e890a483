//! A filter: a chain of layers.

use super::family::Family;
use super::layer::Layer;
use super::mark::{Header, Marks, Origin, StateMark};
use super::memory::{Memory, OutOfMemory};
use super::outcome::{ByteLimit, ReserveError};
use super::placement::{Placement, Probes};
use super::storage::Storage;

/// A filter of one or more layers, oldest first. New items go to the last.
#[derive(Debug)]
pub struct Chain<F: Family> {
    pub(super) layers: Vec<Layer<F::Placement>>,
    pub(super) family: F,
    /// None for most filters: those that never were dumped or loaded in pieces.
    pub(super) marks: Option<Box<Marks>>,
}

impl<F: Family> Chain<F> {
    /// The kind of filter and its parameters.
    #[must_use]
    pub fn family(&self) -> &F {
        &self.family
    }

    /// The kind of filter and its parameters, for a decoder's host that knows more about them than the bytes
    /// say.
    pub fn family_mut(&mut self) -> &mut F {
        &mut self.family
    }

    /// The layers, oldest first; never none.
    #[must_use]
    pub fn layers(&self) -> &[Layer<F::Placement>] {
        &self.layers
    }

    /// The layers, for a decoder that fills them.
    pub fn layers_mut(&mut self) -> &mut [Layer<F::Placement>] {
        &mut self.layers
    }

    /// Items added, over all layers. O(layers).
    #[must_use]
    pub fn items(&self) -> u64 {
        items_of(&self.layers)
    }

    /// Returns the number of layers, and the items of those from the last on of the first `layers`. O(such layers).
    #[inline(always)]
    pub(super) fn counts_since(&self, layers: usize) -> (usize, u64) {
        let first = layers.min(self.layers.len()).saturating_sub(1);
        let items = match self.layers.get(first..).unwrap_or_default() {
            [last] => last.counts().items,
            layers => items_of(layers),
        };
        (self.layers.len(), items)
    }

    /// Items the layers were sized for. O(layers).
    #[must_use]
    pub fn capacity_items(&self) -> u64 {
        self.capacity_items_from(0)
    }

    /// Items the layers from `first` on were sized for. O(layers).
    #[must_use]
    pub fn capacity_items_from(&self, first: usize) -> u64 {
        let layers = self.layers.iter().skip(first);
        layers.fold(0, |sum, layer| sum.saturating_add(layer.capacity_items()))
    }

    /// Bits set, over all layers. O(layers).
    #[must_use]
    pub fn set_bits(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.counts().set_bits))
    }

    /// Marks the state that the filter is in now, for a header that describes it and the chunks that follow:
    /// as the header before where nothing has changed since, else with `fresh`, a number that no other state
    /// has. O(layers).
    pub fn mark_state(&mut self, fresh: u64) {
        let (state, end) = (self.state(), self.dump_end());
        self.marks.get_or_insert_default().mark(state, end, fresh);
        self.layers.iter_mut().for_each(|layer| layer.storage_mut().begin_dump());
    }

    /// Returns the mark of the state that the last header described; 0 when there was none.
    #[must_use]
    pub fn state_mark(&self) -> StateMark {
        self.last_header().map_or(0, |header| header.mark)
    }

    /// Returns where the dump that the last header began ends, in bytes of all layers: chunks from there on are no part of
    /// it. `u64::MAX` when there was no header.
    #[must_use]
    pub fn marked_end(&self) -> u64 {
        self.last_header().map_or(u64::MAX, |header| header.end)
    }

    fn last_header(&self) -> Option<Header> {
        self.marks.as_ref()?.last
    }

    /// Returns where a dump of all layers ends. O(layers).
    fn dump_end(&self) -> u64 {
        self.layers.iter().fold(0, |end, layer| layer.dump_range(end).end)
    }

    /// The header that made the filter.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.marks.as_ref().map_or(Origin::NoHeader, |marks| marks.origin)
    }

    /// Says which header made the filter, and the sum of its storages' [states](Storage::state) once all
    /// chunks are in, where the header tells: of bit arrays, the bits that are set.
    pub fn set_origin(&mut self, origin: Origin, state: Option<u64>) {
        self.marks = Some(Box::new(Marks::of_header(origin, state, self.dump_end())));
    }

    /// A number that tells apart all states that the filter ever goes through. O(layers).
    fn state(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.wrapping_add(layer.storage().state()))
    }

    /// Memory of the filter in bytes: its structs and storages. O(layers).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let structs_bytes = Self::needed_bytes(self.layers.len(), 0);
        self.layers.iter().fold(structs_bytes, |sum, layer| sum.saturating_add(layer.storage().size_bytes()))
    }

    /// Memory in bytes that a filter of so many layers, no more than there may be, takes whose storages take
    /// `array_bytes` together. O(1).
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
        any_contains(&self.layers, digest)
    }

    /// Whether the filter is as [`try_emptied`](Self::try_emptied) makes it: one layer without items or set bits, and no
    /// dump whose chunks it takes. O(layers).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let is_untouched = self.layers.len() == 1 && self.items() == 0 && self.set_bits() == 0;
        is_untouched && self.origin() == Origin::NoHeader
    }

    /// An empty filter as this one was when it was made, by its parameters: for kinds whose first layer may be
    /// gone with its items, or be of a filter that was merged into it.
    ///
    /// # Errors
    /// When it is larger than `limit` allows, or than the memory there is.
    pub fn try_made_anew(&self, limit: &dyn ByteLimit) -> Result<Self, ReserveError> {
        Self::try_new(self.family.emptied(), limit)
    }

    /// An empty filter with the parameters of this one, of one layer that is like the first of this one. O(1), for memory
    /// is zeroed when it is first used.
    ///
    /// # Errors
    /// [`OutOfMemory`] when its storage cannot be had.
    pub fn try_emptied(&self) -> Result<Self, OutOfMemory> {
        let mut layers = Vec::new();
        layers.try_reserve_exact(1).map_err(|_| OutOfMemory)?;
        for layer in self.layers.iter().take(1) {
            layers.push(layer.try_emptied()?);
        }
        Ok(Self { layers, family: self.family.emptied(), marks: None })
    }

    /// A copy with its own storages.
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
}

#[inline(never)]
fn items_of<P: Probes>(layers: &[Layer<P>]) -> u64 {
    layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.counts().items))
}

/// Whether one of the layers, asked from the newest on, may contain the item.
// A loop, for it has to be part of its callers: `any` may become a call for every layer.
#[inline(always)]
pub(super) fn any_contains<D: Copy, P: Placement<D>>(layers: &[Layer<P>], digest: D) -> bool {
    for layer in layers.iter().rev() {
        if layer.contains(digest) {
            return true;
        }
    }
    false
}
