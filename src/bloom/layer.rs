//! One bit array of a chain.

use super::bits::{Bits, OutOfMemory, PAGE_BYTES};
use super::everbloom::Probing;
use super::group::ItemSet;
use super::memory::Memory;
use super::placement::{LayerPlan, Placement};
use super::prefetch::{Part, Prefetch};

/// What changes about a layer beside its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerCounts {
    /// Items added.
    pub items: u64,
    /// Bits set.
    pub set_bits: u64,
}

/// One bit array with its placement and counts.
#[derive(Debug)]
pub struct Layer<P = Probing> {
    bits: Bits,
    capacity_items: u64,
    items: u64,
    placement: P,
}

impl<P: Copy> Layer<P> {
    /// A layer of bits that are there already.
    #[must_use]
    pub fn of_bits(placement: P, bits: Bits, capacity_items: u64, items: u64) -> Self {
        Self { bits, capacity_items, items, placement }
    }

    /// An empty layer.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the array cannot be had.
    pub fn try_new(plan: LayerPlan<P>) -> Result<Self, OutOfMemory> {
        let bits = Bits::try_zeroed_behind(plan.size_bits, plan.has_head)?;
        Ok(Self { bits, capacity_items: plan.capacity_items, items: 0, placement: plan.placement })
    }

    /// How the layer places probes.
    #[must_use]
    pub fn placement(&self) -> P {
        self.placement
    }

    /// Items the layer takes before it is full.
    #[must_use]
    pub fn capacity_items(&self) -> u64 {
        self.capacity_items
    }

    /// Items and set bits.
    #[must_use]
    pub fn counts(&self) -> LayerCounts {
        LayerCounts { items: self.items, set_bits: self.bits.set_bits() }
    }

    /// Whether the layer has taken as many items as it was sized for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.items >= self.capacity_items
    }

    /// The bit array.
    #[must_use]
    pub fn bits(&self) -> &Bits {
        &self.bits
    }

    /// The bit array, to be filled by a decoder or moved by defragmentation.
    pub fn bits_mut(&mut self) -> &mut Bits {
        &mut self.bits
    }

    /// Says how many items the bits stand for; a decoder's last step.
    pub fn set_items(&mut self, items: u64) {
        self.items = items;
    }

    /// Whether the item may be in the layer. O(probes).
    #[must_use]
    pub fn contains<D>(&self, digest: D) -> bool
    where
        P: Placement<D>,
    {
        self.placement.contains(&self.bits, digest)
    }

    /// One bit for each of the `wanted` items of a group; see [`Placement::contained`].
    #[must_use]
    pub fn contained<D>(&self, digests: &[D], wanted: ItemSet) -> ItemSet
    where
        P: Placement<D>,
    {
        self.placement.contained(&self.bits, digests, wanted)
    }

    /// One bit for each of the `wanted` items of a group; see [`Placement::begun`].
    #[must_use]
    pub fn begun<D>(&self, digests: &[D], wanted: ItemSet) -> ItemSet
    where
        P: Placement<D>,
    {
        self.placement.begun(&self.bits, digests, wanted)
    }

    /// Adds an item; answers whether it was new to the layer, which changes nothing otherwise. O(probes).
    pub fn insert<D>(&mut self, digest: D) -> bool
    where
        P: Placement<D>,
    {
        let is_new = self.placement.insert(&mut self.bits, digest) != 0;
        self.items = self.items.saturating_add(is_new.into()).min(self.placement.most_items(&self.bits));
        is_new
    }

    /// Asks for the memory that the item's probes, or a part of them, lie in. O(probes).
    pub fn prefetch<D>(&self, digest: D, part: Part, prefetch: impl Prefetch)
    where
        P: Placement<D>,
    {
        self.placement.prefetch(&self.bits, digest, part, prefetch);
    }

    /// A copy with its own array.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the array cannot be had.
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        Ok(Self { bits: self.bits.try_clone(memory)?, ..*self })
    }
}

const _: () = assert!(PAGE_BYTES.is_multiple_of(64), "a page is whole lines");
