//! One storage of a chain, with its placement and counts.

use std::ops::Range;

use super::bits::Bits;
use super::group::ItemSet;
use super::memory::{Memory, OutOfMemory};
use super::placement::{LayerPlan, Placement, Probes};
use super::prefetch::{Part, Prefetch};
use super::storage::Storage;

/// What changes about a layer beside its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerCounts {
    /// Items added.
    pub items: u64,
    /// Bits set.
    pub set_bits: u64,
}

/// One storage, of bits in most kinds of filters, with its placement and counts.
#[derive(Debug)]
pub struct Layer<P: Probes> {
    storage: P::Storage,
    capacity_items: u64,
    items: u64,
    placement: P,
}

impl<P: Probes<Storage = Bits>> Layer<P> {
    /// A layer of bits that are there already.
    #[must_use]
    pub fn of_bits(placement: P, bits: Bits, capacity_items: u64, items: u64) -> Self {
        Self { storage: bits, capacity_items, items, placement }
    }

    /// The bit array.
    #[must_use]
    pub fn bits(&self) -> &Bits {
        &self.storage
    }

    /// The bit array, to be filled by a decoder.
    pub fn bits_mut(&mut self) -> &mut Bits {
        &mut self.storage
    }
}

impl<P: Probes> Layer<P> {
    /// An empty layer.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the storage cannot be had.
    pub fn try_new(plan: LayerPlan<P>) -> Result<Self, OutOfMemory> {
        let storage = P::Storage::try_empty(plan.size_bits, plan.has_head)?;
        Ok(Self { storage, capacity_items: plan.capacity_items, items: 0, placement: plan.placement })
    }

    /// The same layer with its placement told in other words. Nothing is copied.
    #[must_use]
    pub fn placed<Q: Probes<Storage = P::Storage>>(self, told: impl FnOnce(P) -> Q) -> Layer<Q> {
        let Self { storage, capacity_items, items, placement } = self;
        Layer { storage, capacity_items, items, placement: told(placement) }
    }

    /// How the layer places probes.
    #[must_use]
    pub fn placement(&self) -> P {
        self.placement
    }

    /// What the placement probes.
    #[must_use]
    pub fn storage(&self) -> &P::Storage {
        &self.storage
    }

    /// What the placement probes, to be filled by a decoder or moved by defragmentation.
    pub fn storage_mut(&mut self) -> &mut P::Storage {
        &mut self.storage
    }

    /// Items the layer takes before it is full.
    #[must_use]
    pub fn capacity_items(&self) -> u64 {
        self.capacity_items
    }

    /// Items and set bits.
    #[must_use]
    pub fn counts(&self) -> LayerCounts {
        LayerCounts { items: self.items, set_bits: self.storage.set_bits() }
    }

    /// Returns whether the layer has taken as many items as it was sized for; see [`Probes::is_full`].
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.placement.is_full(&self.storage, self.items, self.capacity_items)
    }

    /// Gets the count of a full layer ready for one item more. Every item sets a cell that was clear, so a count beyond the
    /// cells is met only when a decoder has taken cells back; it ends there, for no decoder takes a higher one.
    pub(super) fn count_beyond_capacity(&mut self) {
        self.items = self.items.min(self.storage.size_bits().saturating_sub(1));
    }

    /// Returns where the layer lies in a dump, in bytes, behind layers that end at `end`. O(1).
    #[must_use]
    pub fn dump_range(&self, end: u64) -> Range<u64> {
        let start = self.placement.address().unwrap_or(end);
        start..start.saturating_add(self.storage.size_bytes())
    }

    /// Says how many items the storage stands for; a decoder's last step.
    pub fn set_items(&mut self, items: u64) {
        self.items = items;
    }

    /// Whether the item may be in the layer. O(probes).
    #[must_use]
    pub fn contains<D>(&self, digest: D) -> bool
    where
        P: Placement<D>,
    {
        self.placement.contains(&self.storage, digest)
    }

    /// One bit for each of the `wanted` items of a group; see [`Placement::contains_each`].
    #[must_use]
    pub fn contains_each<D>(&self, digests: &[D], wanted: ItemSet) -> ItemSet
    where
        P: Placement<D>,
    {
        self.placement.contains_each(&self.storage, digests, wanted)
    }

    /// One bit for each of the `wanted` items of a group; see [`Placement::first_probes_set`].
    #[must_use]
    pub fn first_probes_set<D>(&self, digests: &[D], wanted: ItemSet) -> ItemSet
    where
        P: Placement<D>,
    {
        self.placement.first_probes_set(&self.storage, digests, wanted)
    }

    /// Adds an item; answers whether it was new to the layer, which changes nothing otherwise. O(probes).
    pub fn insert<D>(&mut self, digest: D) -> bool
    where
        P: Placement<D>,
    {
        let is_new = self.placement.insert(&mut self.storage, digest) != 0;
        self.items = self.items.saturating_add(is_new.into()).min(self.placement.most_items(&self.storage));
        is_new
    }

    /// [`insert`](Self::insert) of one item after another, a group at most; answers those that were new. O(items *
    /// probes).
    #[inline(always)]
    pub fn insert_each<D>(&mut self, digests: &[D]) -> ItemSet
    where
        P: Placement<D>,
        D: Copy,
    {
        let new = self.placement.insert_each(&mut self.storage, digests);
        let items = self.items.saturating_add(new.count_ones().into());
        self.items = items.min(self.placement.most_items(&self.storage));
        new
    }

    /// Counts an occurrence of an item; answers whether it was new to the layer. O(probes).
    pub fn count<D>(&mut self, digest: D) -> bool
    where
        P: Placement<D>,
    {
        let is_new = self.placement.insert(&mut self.storage, digest) != 0;
        self.items = self.items.saturating_add(1).min(self.placement.most_items(&self.storage));
        is_new
    }

    /// Asks for the memory that an item's add touches. O(probes).
    pub fn prefetch_to_add<D>(&self, digest: D, prefetch: impl Prefetch)
    where
        P: Placement<D>,
    {
        self.placement.prefetch_to_add(&self.storage, digest, prefetch);
    }

    /// Asks for the memory that the item's probes, or a part of them, lie in. O(probes).
    pub fn prefetch<D>(&self, digest: D, part: Part, prefetch: impl Prefetch)
    where
        P: Placement<D>,
    {
        self.placement.prefetch(&self.storage, digest, part, prefetch);
    }

    /// Asks for that memory of each of the `wanted` items of a group; see [`Placement::prefetch_each`].
    #[inline(always)]
    pub fn prefetch_each<D>(&self, digests: &[D], wanted: ItemSet, part: Part, prefetch: impl Prefetch)
    where
        P: Placement<D>,
        D: Copy,
    {
        self.placement.prefetch_each(&self.storage, digests, wanted, part, prefetch);
    }

    /// An empty layer like this one.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the storage cannot be had.
    pub fn try_emptied(&self) -> Result<Self, OutOfMemory> {
        Self::try_new(LayerPlan {
            placement: self.placement,
            size_bits: self.storage.size_bits(),
            capacity_items: self.capacity_items,
            has_head: self.storage.has_head(),
        })
    }

    /// A copy with its own storage.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the storage cannot be had.
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        Ok(Self { storage: self.storage.try_clone(memory)?, ..*self })
    }
}
