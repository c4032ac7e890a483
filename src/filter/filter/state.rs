//! The parts of a filter, and what follows from them.

use super::dump_state::LoadOrigin;
use super::kind::{Format, Kind};
use super::parts::Parts;
use super::policy::imported::clients_layer;
use super::policy::{Growth, Imported, PartSpec, Policy, Promise, RedisBloom};
use super::size::{FILTER_BYTES, Footprint};
use crate::bits::estimate::clients_items;
use crate::bits::layout::SchemeLayout;
use crate::bits::{BitArray, Layer, Layout};
use crate::generation::Generation;
use crate::hash::Hash;
use crate::hash::murmur2::Murmur2;
use crate::memory::{Memory, OutOfMemory};
use crate::outcome::{ByteLimit, ReserveError};
use crate::table::Table;

/// A filter: layers of [bits](crate::bits), at most one [table](crate::table), and a policy.
///
/// The layers have the older items. Where there is a table, it takes all new ones.
#[derive(Debug)]
pub struct Filter {
    pub(super) parts: Parts,
    pub(super) policy: Policy,
    /// `None` for filters that were not loaded in chunks, which are most.
    pub(super) origin: Option<Box<LoadOrigin>>,
}

// A lookup changes nothing that it borrows, so several threads may read a filter, and one of them may save it.
const _: () = {
    const fn is_shared<T: Sync>() {}
    is_shared::<Filter>();
};

const _: () = assert!(size_of::<Layer>() == 56 && size_of::<Filter>() == FILTER_BYTES);

/// The parameters of a filter to create.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterSpec {
    /// The promise of the filter and its growth.
    pub policy: Policy,
    /// The hash of its items.
    pub hash: Hash,
}

/// The counts of those parts of a filter that adds can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCounts {
    /// The number of all parts: layers, and the table.
    pub parts: usize,
    /// Items in these parts; 0 for a window: see [`Filter::counted_items`].
    pub items: u64,
    /// What these parts add to the [capacity](Filter::capacity_items).
    pub capacity_items: u64,
    /// Bytes of the table.
    pub table_bytes: u64,
}

/// How much of a filter is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// All but bits and entries: O(layers).
    Parts,
    /// Bits and entries too: O(bytes).
    Contents,
}

impl Filter {
    /// Creates an empty filter. The spec must be valid.
    ///
    /// # Errors
    /// If its first part is larger than `limit` or than the available memory.
    pub fn reserve(spec: FilterSpec, limit: &dyn ByteLimit) -> Result<Self, ReserveError> {
        let FilterSpec { policy, hash } = spec;
        let part = policy.first_part(hash)?;
        let mut filter = Self { parts: Parts::default(), policy, origin: None };
        filter.push(part, limit)?;
        Ok(filter)
    }

    /// Creates a filter from what a decoder has built. O(layers).
    ///
    /// # Errors
    /// The rule of filters that is broken: see [`internal_validate`](Self::internal_validate).
    pub fn from_parts(
        policy: Policy,
        layers: Vec<Layer>,
        table: Option<(Table, Hash)>,
    ) -> Result<Self, &'static str> {
        let filter = Self { parts: Parts::of(layers, table), policy, origin: None };
        filter.internal_validate(Validation::Parts)?;
        Ok(filter)
    }

    /// Returns a filter with a client's array; `None` if it breaks a rule. `bits` must have
    /// [`SchemeLayout::array_bits`]. The item count starts with an estimate from the fill, which replaces
    /// `estimated_items` of `policy`.
    #[must_use]
    pub fn import(
        layout: SchemeLayout,
        bits: BitArray,
        capacity_items: u64,
        policy: Imported,
    ) -> Option<Self> {
        let estimated_items = clients_items(bits.set_bits(), bits.size_bits(), layout.parameters().probes);
        let mut layer = Layer::of_bits(clients_layer(layout, capacity_items), bits);
        layer.set_items(estimated_items);
        let policy = Imported { estimated_items, ..policy }.into();
        Self::from_parts(policy, vec![layer], None).ok()
    }

    /// Checks every rule of a filter. Tests and fuzz targets call it after every step.
    ///
    /// # Errors
    /// The name of the part that breaks a rule.
    pub fn internal_validate(&self, validation: Validation) -> Result<(), &'static str> {
        if !Footprint::of(self.layers()).is_countable() {
            return Err("layer count");
        }
        self.layers().iter().try_for_each(Layer::validate)?;
        self.policy.validate(self.layers(), self.parts.table().map(|(table, hash)| (table.kind(), hash)))?;
        if self.is_ahead_of(u64::MAX) {
            return Err("the time of the newest item");
        }
        match validation {
            Validation::Parts => Ok(()),
            Validation::Contents => {
                self.layers().iter().try_for_each(|layer| layer.bits().validate())?;
                self.table().map_or(Ok(()), Table::internal_validate)
            }
        }
    }

    /// Returns the parameters of the filter.
    #[must_use]
    pub fn spec(&self) -> FilterSpec {
        FilterSpec { policy: self.policy.emptied(), hash: self.hash() }
    }

    /// Returns the policy: the promise of the filter and its growth.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the kind of the filter. O(1).
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.policy.kind(&self.hash())
    }

    /// Returns the data format of the filter. O(1).
    #[must_use]
    pub fn format(&self) -> Format {
        self.kind().row().format
    }

    /// Returns the promise of the filter. If its policy has none, returns the promise of a filter of everbloom's own
    /// format with the same parameters.
    #[must_use]
    pub fn promise(&self) -> Promise {
        self.policy.promise_with(self.layers())
    }

    /// Returns the client's layer of an imported filter and its layout.
    #[must_use]
    pub fn clients_layer(&self) -> Option<(SchemeLayout, &Layer)> {
        let layer = self.layers().first().filter(|_| self.policy.imported().is_some())?;
        if let Layout::Scheme(layout) = layer.layout() { Some((layout, layer)) } else { None }
    }

    /// Returns the layers, oldest first.
    #[must_use]
    #[inline(always)]
    pub fn layers(&self) -> &[Layer] {
        self.parts.layers()
    }

    /// Returns the mutable layers, for a decoder that fills them.
    pub fn layers_mut(&mut self) -> &mut [Layer] {
        self.parts.layers_mut()
    }

    /// Returns the table, if there is one.
    #[must_use]
    #[inline(always)]
    pub fn table(&self) -> Option<&Table> {
        self.parts.table().map(|(table, _)| table)
    }

    /// Returns the mutable table, for a decoder that fills it.
    pub fn table_mut(&mut self) -> Option<&mut Table> {
        self.parts.table_mut().map(|(table, _)| table)
    }

    /// Returns the hash of the items of the table, if there is one.
    #[must_use]
    pub fn table_hash(&self) -> Option<&Hash> {
        self.parts.table().map(|(_, hash)| hash)
    }

    /// Returns the hash of the items of the first layer; without layers, that of the table.
    #[must_use]
    pub fn hash(&self) -> Hash {
        let of_layer = self.layers().first().map(Layer::hash);
        *of_layer.or(self.table_hash()).unwrap_or(&Hash::Murmur3)
    }

    /// Returns the number of layers.
    #[must_use]
    #[inline(always)]
    pub fn layer_count(&self) -> usize {
        self.layers().len()
    }

    /// Returns the number of layers, and one more if there is a table.
    #[must_use]
    #[inline(always)]
    pub fn part_count(&self) -> usize {
        self.layer_count().saturating_add(self.table().is_some().into())
    }

    /// Returns whether the hashes of all parts have a secret key, so that clients cannot craft false positives.
    #[must_use]
    pub fn is_keyed(&self) -> bool {
        self.layers().iter().map(Layer::hash).chain(self.table_hash()).all(Hash::is_secret)
    }

    /// Returns the number of added items without the deleted ones; in a window, the number of live items. O(layers).
    #[must_use]
    #[inline]
    pub fn items(&self) -> u64 {
        self.items_in(self.now())
    }

    /// Returns the number of items as [`items`](Self::items), at the generation `now`. O(layers).
    #[must_use]
    #[inline]
    pub fn items_in(&self, now: Generation) -> u64 {
        let of_table = self.table().map_or(0, |table| table.items(now));
        self.layers().iter().fold(of_table, |sum, layer| sum.saturating_add(layer.counts().items))
    }

    /// Returns the number of items if only commands change it; 0 for a window, whose items expire without a command.
    /// O(layers).
    #[must_use]
    pub fn counted_items(&self) -> u64 {
        self.counts_since(0).items
    }

    /// Returns the counts of the parts that adds can have changed since the filter had `parts` parts: the layer that
    /// was the last one then, newer layers, and the table. A `parts` above the current number counts as that number.
    /// O(1) if no layer was added since.
    #[must_use]
    #[inline(always)]
    pub fn counts_since(&self, parts: usize) -> FilterCounts {
        let layers = self.layers();
        let changed = layers.get(parts.min(layers.len()).saturating_sub(1)..).unwrap_or_default();
        let mut counts = FilterCounts { parts: self.part_count(), ..FilterCounts::default() };
        for layer in changed {
            counts.items = counts.items.saturating_add(layer.counts().items);
            counts.capacity_items = counts.capacity_items.saturating_add(layer.capacity_items());
        }
        if let Some(table) = self.table() {
            let items = if self.window().is_some() { 0 } else { table.items(0) };
            counts.items = counts.items.saturating_add(items);
            counts.capacity_items = counts.capacity_items.saturating_add(self.table_capacity_items(table));
            counts.table_bytes = table.size_bytes();
        }
        counts
    }

    /// Returns the number of items that count towards the capacity: as [`items`](Self::items), but a counting filter
    /// counts each item once. O(layers).
    #[must_use]
    pub fn distinct_items(&self) -> u64 {
        let of_table = self.table().map_or(0, |table| table.distinct_items(self.now()));
        self.layers().iter().fold(of_table, |sum, layer| sum.saturating_add(layer.counts().items))
    }

    /// Returns the capacity: at least [`distinct_items`](Self::distinct_items) if the filter grows. For a filter with
    /// layers it is the sum of their capacities and of that of the table. For a filter without layers it is the promised
    /// capacity, or that of the table if there are more items. For a window it is the promised capacity, or the number of
    /// live items if that is larger. O(layers).
    #[must_use]
    pub fn capacity_items(&self) -> u64 {
        self.capacity_items_in(self.now())
    }

    /// Returns the capacity as [`capacity_items`](Self::capacity_items), at the generation `now`. O(layers).
    #[must_use]
    pub fn capacity_items_in(&self, now: Generation) -> u64 {
        let live_items = if self.window().is_some() { self.items_in(now) } else { 0 };
        self.counted_capacity_items().max(live_items)
    }

    /// Returns the capacity if only commands change it; the promised one for a window, whose items expire without a
    /// command. O(layers).
    #[must_use]
    pub fn counted_capacity_items(&self) -> u64 {
        self.counts_since(0).capacity_items
    }

    /// Returns the part of the capacity that the table adds. O(1).
    #[inline(always)]
    fn table_capacity_items(&self, table: &Table) -> u64 {
        match self.policy.promise() {
            Some(promise) if self.layers().is_empty() => {
                let may_outgrow = self.window().is_none() && !promise.growth.is_fixed_size();
                let is_outgrown = may_outgrow && table.distinct_items(0) > promise.capacity_items;
                if is_outgrown { table.capacity_items() } else { promise.capacity_items }
            }
            _ => table.capacity_items(),
        }
    }

    /// Returns the memory of the filter in bytes: its structs, bits and table. O(layers).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.footprint().needed_bytes()
    }

    /// Returns the size of all parts. O(layers).
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        Footprint::of(self.layers()).with_table(self.table().map_or(0, Table::size_bytes))
    }

    /// Returns the bytes of the filter without those of its table. O(layers).
    #[must_use]
    #[inline(always)]
    pub fn bytes_besides_table(&self) -> u64 {
        match &self.parts {
            Parts::Table(_) => size_of::<Self>() as u64,
            _ => Footprint::of(self.layers()).needed_bytes(),
        }
    }

    /// Returns what happens when the capacity is reached.
    #[must_use]
    #[inline(always)]
    pub fn growth(&self) -> Growth {
        self.policy.growth()
    }

    /// Returns whether the filter equals the result of [`try_emptied`](Self::try_emptied): it has no items and no set
    /// bits, counts no deletions, and accepts the chunks of no dump. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layers().iter().all(Layer::is_empty)
            && self.table().is_none_or(Table::is_empty)
            && self.policy.counting().is_none_or(|counting| counting.deletions == 0)
            && self.origin().is_none()
    }

    /// Creates an empty filter with the parameters of this one. O(1).
    ///
    /// # Errors
    /// [`ReserveError::OutOfMemory`] if an allocation fails. [`ReserveError`] also if the policy has a promise and the
    /// first part of the filter exceeds `limit`, which is possible for parameters from a header.
    pub fn try_emptied(&self, limit: &dyn ByteLimit) -> Result<Self, ReserveError> {
        // Without a promise, the first layer is copied: it may have parameters that no new layer would have. With a
        // promise, the first layer may come from another filter by a merge, so the policy gives the first part.
        if self.policy.promise().is_none() {
            let first = self.layers().first().ok_or(ReserveError::TooLong)?;
            let parts = Parts::Layer(Layer::try_new(first.spec())?);
            return Ok(Self { parts, policy: self.policy.emptied(), origin: None });
        }
        let hash = if self.policy.has_several_hashes() { Hash::Murmur3 } else { self.hash() };
        Self::reserve(FilterSpec { hash, ..self.spec() }, limit)
    }

    /// Makes a copy with its own memory. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`] if an allocation fails.
    pub fn try_clone(&self, memory: impl Memory) -> Result<Self, OutOfMemory> {
        Ok(Self { parts: self.parts.try_clone(memory)?, policy: self.policy.clone(), origin: None })
    }

    /// Sets the hash of RedisBloom 1.1 if that release may have written the filter. The saved bytes do not show which
    /// release did.
    pub fn assume_redisbloom_1_1(&mut self) {
        if self.policy.redisbloom().is_some_and(RedisBloom::may_be_of_release_1_1) {
            let hash = Hash::RedisBloom(Murmur2::WideCutSeeds);
            self.layers_mut().iter_mut().for_each(|layer| layer.set_hash(hash));
        }
    }

    /// Appends an empty layer, or sets an empty table.
    pub(super) fn push(&mut self, part: PartSpec, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        match part {
            PartSpec::Layer(spec) => {
                self.footprint().with_layer_spec(&spec).check(limit)?;
                self.parts.try_push_layer(Layer::try_new(spec)?)?;
            }
            PartSpec::Table(spec, hash) => {
                self.footprint().with_table(spec.empty_bytes()).check(limit)?;
                self.parts.set_table(Some((Table::new(spec), hash)));
            }
        }
        Ok(())
    }
}
