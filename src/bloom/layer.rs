//! One bit array of a chain.

use super::bits::{Bits, OutOfMemory, PAGE_BYTES};
use super::family::{LayerPlan, Placement};
use super::group::ItemSet;
use super::hash::ItemHash;
use super::layout::{LINE_PROBES_MAX, LINES_MAX, Layout, PAGE_BITS};
use super::limits::{CAPACITY_MAX_ITEMS, LAYER_MAX_BYTES, PROBES_MAX};
use super::memory::Memory;
use super::prefetch::{Part, Prefetch};
use super::sizing;

/// What never changes about a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// How probes are placed.
    pub layout: Layout,
    /// Probes per item.
    pub probes: u32,
    /// Bits of the array.
    pub size_bits: u64,
    /// Items the layer takes before it is full.
    pub capacity_items: u64,
}

/// What changes about a layer beside its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerCounts {
    /// Items added.
    pub items: u64,
    /// Bits set.
    pub set_bits: u64,
}

impl LayerShape {
    /// The smallest shape that holds `capacity_items` at `error_rate`.
    #[must_use]
    pub fn sized(capacity_items: u64, error_rate: f64) -> Self {
        let sizing::Size { layout, probes, size_bits } = sizing::size_for(capacity_items, error_rate);
        Self { layout, probes, size_bits, capacity_items }
    }

    /// Bytes of the bit array.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bits / 8
    }

    /// The first rule that the shape breaks, if it breaks one. Every decoder asks before it allocates.
    ///
    /// # Errors
    /// The name of the field that is out of its range.
    pub fn validate(&self) -> Result<(), &'static str> {
        let per_line = match self.layout {
            Layout::Scattered => PROBES_MAX,
            Layout::Paged { lines } if (1..=LINES_MAX).contains(&lines) => u32::from(lines) * LINE_PROBES_MAX,
            Layout::Paged { .. } => return Err("lines"),
        };
        if self.probes == 0 || self.probes > PROBES_MAX.min(per_line) {
            return Err("probes");
        }
        let unit_bits = if self.layout == Layout::Scattered { 64 } else { PAGE_BITS };
        if self.size_bits == 0
            || !self.size_bits.is_multiple_of(unit_bits)
            || self.size_bytes() > LAYER_MAX_BYTES
        {
            return Err("size in bits");
        }
        // Each item sets a bit that was clear, so no array is sized for more items than it has bits.
        if self.capacity_items == 0 || self.capacity_items > CAPACITY_MAX_ITEMS.min(self.size_bits) {
            return Err("capacity");
        }
        Ok(())
    }
}

/// How a layer of everbloom's own kind places probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probing {
    layout: Layout,
    probes: u8,
}

impl Probing {
    /// What never changes about a layer of this placement.
    #[must_use]
    pub fn shape(self, size_bits: u64, capacity_items: u64) -> LayerShape {
        LayerShape { layout: self.layout, probes: self.probes.into(), size_bits, capacity_items }
    }
}

impl Placement<ItemHash> for Probing {
    #[inline(always)]
    fn contains(&self, bits: &Bits, item: ItemHash) -> bool {
        self.layout.contains(bits, u32::from(self.probes), item)
    }

    fn contained(&self, bits: &Bits, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
        self.layout.contained(bits, u32::from(self.probes), items, wanted)
    }

    fn begun(&self, bits: &Bits, items: &[ItemHash], wanted: ItemSet) -> ItemSet {
        self.layout.begun(bits, u32::from(self.probes), items, wanted)
    }

    fn insert(&self, bits: &mut Bits, item: ItemHash) -> u32 {
        self.layout.insert(bits, u32::from(self.probes), item)
    }

    #[inline(always)]
    fn prefetch(&self, bits: &Bits, item: ItemHash, part: Part, prefetch: impl Prefetch) {
        self.layout.prefetch(bits, u32::from(self.probes), item, part, prefetch);
    }

    fn probes(&self) -> u32 {
        self.probes.into()
    }

    fn touched_lines(&self) -> u32 {
        self.layout.touched_lines(u32::from(self.probes))
    }
}

impl From<LayerShape> for LayerPlan<Probing> {
    /// Of a valid shape; the probes of any other are cut off at 255.
    fn from(shape: LayerShape) -> Self {
        let probes = u8::try_from(shape.probes).unwrap_or(u8::MAX);
        let placement = Probing { layout: shape.layout, probes };
        Self { placement, size_bits: shape.size_bits, capacity_items: shape.capacity_items, has_head: false }
    }
}

/// One bit array with its placement and counts.
#[derive(Debug)]
pub struct Layer<P = Probing> {
    bits: Bits,
    capacity_items: u64,
    items: u64,
    placement: P,
}

impl Layer {
    /// What never changes about the layer.
    #[must_use]
    pub fn shape(&self) -> LayerShape {
        self.placement.shape(self.bits.len(), self.capacity_items)
    }
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
