//! The plan of a merge of bits.

use super::contents::{Contents, ShapeIndex, spent};
use super::{LastLayer, MergeError, MergePlan, Union};
use crate::bloom::bits::{BitArray, Layer, LayerSpec};
use crate::bloom::filter::Filter;
use crate::bloom::filter::policy::{BITS_SHARE, Promise};
use crate::bloom::filter::size::Footprint;
use crate::bloom::hash::Hash;
use crate::bloom::limits::CAPACITY_MAX_ITEMS;
use crate::bloom::memory::Memory;
use crate::bloom::outcome::{ByteLimit, ReserveError};
use crate::bloom::table::Table;

/// Largest layers that are always compared first: 4 MiB are read in less than a millisecond. The bits of a larger
/// layer that certainly fits are counted while they are set, in one pass.
const COMPARED_MAX_BITS: u64 = 32 << 20;

/// Most words that are compared to find a layer with many common items. The first two layers are compared whatever
/// their size.
const SEARCHED_WORDS: usize = 256;

/// Which layers are appended if the destination has no layer of their shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appends {
    /// None: the format has no other layers.
    Nothing,
    /// Layers of this hash.
    OfHash(Hash),
    /// All.
    Any,
}

/// A plan under construction.
#[derive(Debug)]
pub(super) struct Planner<'f, 's: 'f> {
    filter: &'f Filter,
    appends: Appends,
    is_forced: bool,
    /// The contents of the destination's layers after the planned unions, then those of the added layers.
    layers: Vec<Contents<'f>>,
    /// An index of `layers`.
    index: ShapeIndex<'f>,
    /// The footprint of all parts, except a last layer that can be replaced.
    footprint: Footprint,
    plan: MergePlan<'s>,
}

impl<'f, 's: 'f> Planner<'f, 's> {
    /// Returns a plan without sources. O(layers log layers).
    pub(super) fn new(filter: &'f Filter, appends: Appends, is_forced: bool) -> Self {
        let layers: Vec<Contents<'f>> = filter.layers().iter().map(Contents::of).collect();
        let mut index = ShapeIndex::default();
        layers.iter().enumerate().for_each(|(number, layer)| index.insert(number, layer));
        let (footprint, plan) = (Footprint::default(), MergePlan::default());
        let mut planner = Self { filter, appends, is_forced, layers, index, footprint, plan };
        let staying = filter.layer_count().saturating_sub(usize::from(planner.is_last_replaceable()));
        let footprint = Footprint::of(filter.layers().get(..staying).unwrap_or_default());
        planner.footprint = footprint.with_table(filter.table().map_or(0, Table::size_bytes));
        planner
    }

    /// Returns the current number of layers of the destination.
    fn layer_count(&self) -> usize {
        self.filter.layer_count()
    }

    /// Returns the contents of the destination's last layer after the planned unions.
    fn last(&self) -> Option<&Contents<'f>> {
        self.layers.get(self.layer_count().checked_sub(1)?)
    }

    /// Returns whether the destination's last layer can be replaced: it is empty and takes new items.
    fn is_last_replaceable(&self) -> bool {
        self.filter.table().is_none()
            && self.last().is_some_and(|last| last.set_bits == 0 && last.shape.hash().takes_all_items())
    }

    /// Returns the current bits of a layer of the destination, or those of an added layer.
    fn bits(&self, number: usize) -> Option<&BitArray> {
        let layer = match number.checked_sub(self.layer_count()) {
            None => self.filter.layers().get(number),
            Some(number) => self.plan.added.get(number),
        };
        layer.map(Layer::bits)
    }

    /// Returns whether the plan changes a layer.
    pub(super) fn has_changes(&self) -> bool {
        !self.plan.added.is_empty() || !self.plan.unions.is_empty()
    }

    /// Adds each layer of a source to the plan, with copies of those that are appended. O(layers of the source * log
    /// layers, and the bytes that are compared or copied). With thousands of layers of one shape, one word of each is
    /// compared.
    ///
    /// # Errors
    /// [`MergeError`].
    pub(super) fn plan_source(
        &mut self,
        source: &'s Filter,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<(), MergeError> {
        for (number, from) in
            source.layers().iter().enumerate().filter(|(_, from)| from.counts().set_bits > 0)
        {
            let contents = Contents::of(from);
            if self.index.is_covered(&contents, |number| self.bits(number)) {
                continue;
            }
            match self.target_of(&contents, number)? {
                Some((layer, then)) if layer < self.layer_count() => {
                    self.set_contents(layer, then, from.bits());
                    self.plan.unions.push(Union { from, layer });
                }
                Some((layer, _)) => self.unite_with_added(layer, &contents, memory),
                None => self.append(&contents, limit, memory)?,
            }
        }
        Ok(())
    }

    /// Returns the layer that a source's layer is merged into, if any, and its contents after that. It is the layer
    /// with the same index, because equal filters grow alike; otherwise the one with the fewest set bits. If neither
    /// fits, it is one with many common items.
    fn target_of(
        &self,
        from: &Contents<'f>,
        number: usize,
    ) -> Result<Option<(usize, Contents<'f>)>, MergeError> {
        let of_same_number = self.layers.get(number).filter(|_| number < self.layer_count());
        let has_shape = of_same_number.is_some_and(|layer| self.index.has_shape(number, layer, from));
        let candidates = || has_shape.then_some(number).into_iter().chain(self.index.emptiest(from));
        let layers = || candidates().filter_map(|number| Some((number, self.layers.get(number)?)));
        if let Some((number, layer)) = layers().take(2).find(|(_, layer)| layer.fits_with(from)) {
            let is_compared = from.shape.bits().size_bits() <= COMPARED_MAX_BITS;
            let set_bits =
                if is_compared { self.set_bits_with(number, from) } else { layer.set_bits_with(from) };
            return Ok(Some((number, layer.with(from, set_bits))));
        }
        let most_set_bits = self.index.most_set_bits(from);
        let searched = SEARCHED_WORDS / from.shape.bits().words().len().max(1);
        for (number, layer) in layers().take(searched.max(2)) {
            let set_bits = self.set_bits_with(number, from);
            if set_bits <= most_set_bits {
                return Ok(Some((number, layer.with(from, set_bits))));
            }
        }
        let is_appended = match &self.appends {
            Appends::Nothing => false,
            Appends::OfHash(hash) => from.shape.hash() == hash,
            Appends::Any => true,
        };
        match layers().next() {
            _ if is_appended => Ok(None),
            None => Err(MergeError::Mismatch),
            Some((number, layer)) if self.is_forced => {
                Ok(Some((number, layer.with(from, self.set_bits_with(number, from)))))
            }
            Some(_) => Err(MergeError::TooFull),
        }
    }

    /// Returns the set bits of a layer after a merge with `from`: exact for the first source, an upper bound for
    /// later ones. O(bytes).
    fn set_bits_with(&self, number: usize, from: &Contents<'f>) -> u64 {
        let Some((layer, bits)) = self.layers.get(number).zip(self.bits(number)) else { return 0 };
        layer.set_bits.saturating_add(bits.count_beyond(from.shape.bits())).min(from.shape.bits().size_bits())
    }

    /// Replaces the contents of a layer after a merge with `from`.
    fn set_contents(&mut self, number: usize, then: Contents<'f>, from: &BitArray) {
        if let Some(layer) = self.layers.get_mut(number) {
            self.index.update(number, layer, &then, from);
            *layer = then;
        }
    }

    /// Merges a source's layer into one that was appended before.
    fn unite_with_added(&mut self, number: usize, from: &Contents<'f>, memory: impl Memory) {
        let index = number.saturating_sub(self.layer_count());
        if let Some(layer) = self.plan.added.get_mut(index) {
            layer.unite(from.shape, memory);
            let then = Contents::of(layer).of_shape(from.shape);
            self.set_contents(number, then, from.shape.bits());
        }
    }

    fn append(
        &mut self,
        from: &Contents<'f>,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<(), MergeError> {
        let counted = from.shape.counts().items;
        self.extend(self.footprint.with_layer(from.shape), limit)?;
        let mut layer = from.shape.try_clone(memory)?;
        // A saturating layer may have a higher count, which the format permits only in a saturating filter.
        let counted = if from.shape.shape().is_some() { 0 } else { counted };
        let most = from.capacity_items().min(layer.bits().size_bits()).max(counted);
        layer.set_items(from.items.min(most));
        let number = self.layers.len();
        let contents = Contents::of(&layer).of_shape(from.shape);
        self.index.insert(number, &contents);
        self.layers.push(contents);
        self.plan.added.push(layer);
        Ok(())
    }

    /// Sets the footprint to one with another layer: checks its limits and reserves memory for the list of layers.
    fn extend(&mut self, footprint: Footprint, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        self.footprint = footprint;
        footprint.check(limit)?;
        let reserved = self.plan.added.try_reserve(1).and_then(|()| self.layers.try_reserve(1));
        reserved.map_err(|_| ReserveError::OutOfMemory)
    }

    /// Returns the plan, after a check of the error rate over the whole life of the destination, whose table will reach
    /// at most `table_rate`; `None` if it has none after the merge. O(layers).
    ///
    /// A layer that takes no more items counts with its current error rate. The last layer of a filter without a table
    /// counts with its rate when full. If the promise does not permit that, another part takes the new items.
    ///
    /// # Errors
    /// [`MergeError`].
    pub(super) fn finish(
        mut self,
        table_rate: Option<f64>,
        limit: &dyn ByteLimit,
    ) -> Result<MergePlan<'s>, MergeError> {
        let (promise, is_forced) = (self.filter.promise(), self.is_forced);
        let budget = Budget { promise };
        let takes_items =
            table_rate.is_none() && self.last().is_some_and(|last| last.shape.hash().takes_all_items());
        let last = if takes_items { self.layer_count().checked_sub(1) } else { None };
        let closed = spent(&self.layers, None);
        if let Some(table_rate) = table_rate {
            // An imported filter promises nothing of the client's bits.
            let is_import = self.plan.added.is_empty() && self.filter.policy().promise().is_none();
            let closed = if is_import { 0.0 } else { closed };
            return self.check(&promise, closed + table_rate, (closed + table_rate) / BITS_SHARE);
        }
        let open = spent(&self.layers, last);
        if self.plan.added.is_empty() {
            if !self.filter.policy().has_merged_layers() {
                return Ok(self.plan);
            }
            let rate = budget.most(open);
            return self.check(&promise, rate, (closed / BITS_SHARE).max(rate));
        }
        let is_replaceable = self.is_last_replaceable();
        let next = budget.most_with_next_part(closed);
        // The lowest rate that the merge can have.
        let rate = if takes_items { budget.most(open).min(next) } else { next };
        self.plan.last =
            if takes_items && (budget.permits(budget.most(open)) || is_forced && !budget.permits(next)) {
                LastLayer::Kept
            } else if !budget.permits(next) && !is_forced {
                let needed = (closed / BITS_SHARE).max(rate);
                return Err(MergeError::ErrorRate { rate, promised: promise.error_rate, needed });
            } else if is_replaceable {
                LastLayer::Replaced
            } else {
                LastLayer::Closed
            };
        if self.plan.last != LastLayer::Kept && promise.growth.is_fixed_size() {
            // What is left of the promise is for a new last layer.
            let capacity_items =
                self.last().map_or(1, |last| last.capacity_items().clamp(1, CAPACITY_MAX_ITEMS));
            let spec =
                LayerSpec::sized(capacity_items, budget.next_layer_error_rate(closed), self.next_hash());
            self.extend(self.footprint.with_layer_spec(&spec), limit)?;
            self.plan.added.push(Layer::try_new(spec)?);
        }
        if self.plan.last != LastLayer::Replaced {
            self.extend(self.footprint_with_last(), limit)?;
        }
        Ok(self.plan)
    }

    /// Returns the plan if the filter keeps its promise with this error rate, or does not become worse.
    fn check(self, promise: &Promise, rate: f64, needed: f64) -> Result<MergePlan<'s>, MergeError> {
        let is_worse = self.filter.error_rate_max().is_none_or(|before| rate > before * TOLERANCE);
        if self.is_forced || rate <= promise.error_rate * TOLERANCE || !is_worse {
            return Ok(self.plan);
        }
        Err(MergeError::ErrorRate { rate, promised: promise.error_rate, needed })
    }

    /// Returns the footprint with a last layer that can be replaced.
    pub(super) fn footprint_with_last(&self) -> Footprint {
        match self.last() {
            Some(last) if self.is_last_replaceable() => self.footprint.with_layer(last.shape),
            _ => self.footprint,
        }
    }

    /// Returns the hash of a new last layer: the hash of all layers if it is the same and one of everbloom's own,
    /// otherwise MurmurHash3.
    fn next_hash(&self) -> Hash {
        let first = self.filter.layers().first();
        let own = first.filter(|first| first.shape().is_some()).map(|first| *first.hash());
        own.filter(|hash| self.layers.iter().all(|layer| layer.shape.hash() == hash)).unwrap_or(Hash::Murmur3)
    }
}

/// The factor by which a computed error rate may exceed the promise: expected numbers of entries and rounding.
pub(super) const TOLERANCE: f64 = 1.0 + 1.0 / 64.0;

/// The division of a promise between the bits of a filter and the part that follows them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) promise: Promise,
}

impl Budget {
    /// Returns the highest error rate over the whole life of a filter whose layers have `spent`: with the table that
    /// follows if the filter grows.
    pub(super) fn most(&self, spent: f64) -> f64 {
        if self.promise.growth.is_fixed_size() { spent } else { spent + self.promise.table_error_rate() }
    }

    /// Returns the same with another part that takes all new items: a table, or a layer of a quarter of the promise.
    pub(super) fn most_with_next_part(&self, spent: f64) -> f64 {
        spent + self.promise.error_rate * (1.0 - BITS_SHARE)
    }

    pub(super) fn permits(&self, rate: f64) -> bool {
        rate <= self.promise.error_rate * TOLERANCE
    }

    /// Returns the error rate of a new last layer.
    pub(super) fn next_layer_error_rate(&self, spent: f64) -> f64 {
        let promised = self.promise.error_rate;
        (promised - spent).max(promised * (1.0 - BITS_SHARE))
    }
}
