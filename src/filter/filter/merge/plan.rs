//! The plan of a merge of bits.

use super::MergeError;
use super::budget::spent;
use super::contents::Contents;
use crate::bits::{BitArray, Layer, LayerSpec};
use crate::filter::Filter;
use crate::filter::policy::BITS_SHARE;
use crate::filter::size::Footprint;
use crate::hash::Hash;
use crate::limits::CAPACITY_MAX_ITEMS;
use crate::memory::{Memory, OutOfMemory};
use crate::outcome::{ByteLimit, ReserveError};
use crate::table::Table;

/// Largest layer, in bits, that the plan compares with a source's layer even if both certainly fit: reading 4 MiB takes
/// less than a millisecond. A larger one is read only when it is merged, and its set bits are estimated until then.
const COMPARED_MAX_BITS: u64 = 32 << 20;

/// Most words that are compared to find a layer with many common items. The first two layers are compared whatever
/// their size.
const SEARCHED_WORDS: usize = 256;

/// Which layers are appended if no layer of the destination can be united with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appends {
    /// None: the format has no other layers.
    Nothing,
    /// Layers of this hash.
    OfHash(Hash),
    /// All.
    Any,
}

/// What becomes of the destination's last layer when others are appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LastLayer {
    /// The last layer stays the last one and takes the new items.
    #[default]
    Kept,
    /// The appended layers follow the last layer. Another part takes the new items.
    Closed,
    /// The last layer is empty, and the appended layers replace it. Another part takes the new items.
    Replaced,
}

/// The plan of a merge.
#[derive(Debug, Default)]
pub(super) struct MergePlan<'s> {
    /// The layers of sources to merge, each with the number of the destination's layer, 0 being the oldest.
    pub(super) unions: Vec<(usize, &'s Layer)>,
    /// The layers to add to the destination.
    pub(super) added: Vec<Layer>,
    /// What becomes of the last layer of the destination.
    pub(super) last: LastLayer,
}

/// The layers of one shape.
#[derive(Debug)]
struct ShapeGroup<'f> {
    shape: &'f Layer,
    /// The set bits and the number of each layer, in ascending order.
    layers: Vec<(u64, usize)>,
}

impl ShapeGroup<'_> {
    /// Moves a layer to its place by its new set bits. `before` are those it had; `None` if it is new.
    fn place(&mut self, number: usize, before: Option<u64>, set_bits: u64) {
        if let Some(Ok(place)) = before.map(|before| self.layers.binary_search(&(before, number))) {
            self.layers.remove(place);
        }
        let place = self.layers.partition_point(|layer| *layer < (set_bits, number));
        self.layers.insert(place, (set_bits, number));
    }
}

/// A plan under construction.
#[derive(Debug)]
pub(super) struct Planner<'f, 's: 'f> {
    filter: &'f Filter,
    appends: Appends,
    is_forced: bool,
    /// The contents of the destination's layers after the planned unions, then those of the added layers.
    layers: Vec<Contents<'f>>,
    /// The same layers, by shape.
    groups: Vec<ShapeGroup<'f>>,
    /// The footprint of all parts, except a last layer that [can be replaced](Self::is_last_replaceable).
    footprint: Footprint,
    plan: MergePlan<'s>,
}

impl<'f, 's: 'f> Planner<'f, 's> {
    /// Returns a plan without sources. O(layers * shapes).
    pub(super) fn new(filter: &'f Filter, appends: Appends, is_forced: bool) -> Self {
        let (groups, footprint, plan) = (Vec::new(), Footprint::default(), MergePlan::default());
        let mut planner = Self { filter, appends, is_forced, layers: Vec::new(), groups, footprint, plan };
        filter.layers().iter().map(Contents::of).for_each(|layer| planner.push(layer));
        let staying = filter.layer_count().saturating_sub(usize::from(planner.is_last_replaceable()));
        let footprint = Footprint::of(filter.layers().get(..staying).unwrap_or_default());
        planner.footprint = footprint.with_table(filter.table().map_or(0, Table::size_bytes));
        planner
    }

    /// Appends a layer to those of the destination.
    fn push(&mut self, layer: Contents<'f>) {
        let index = self.groups.iter().position(|group| group.shape.has_shape_of(layer.shape));
        let index = index.unwrap_or_else(|| {
            self.groups.push(ShapeGroup { shape: layer.shape, layers: Vec::new() });
            self.groups.len() - 1
        });
        if let Some(group) = self.groups.get_mut(index) {
            group.place(self.layers.len(), None, layer.set_bits);
        }
        self.layers.push(layer);
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

    /// Adds each layer of a source to the plan, with copies of those that are appended. O(layers of the source * layers,
    /// and the bytes that are compared or copied). With thousands of layers of one shape, two words of those with more
    /// set bits are compared.
    pub(super) fn plan_source(
        &mut self,
        source: &'s Filter,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<(), MergeError> {
        let layers = source.layers().iter().enumerate();
        for (number, from) in layers.filter(|(_, from)| from.counts().set_bits > 0) {
            let contents = Contents::of(from);
            let group = self.groups.iter().find(|group| group.shape.has_shape_of(from));
            let alike = group.map_or(&[][..], |group| &group.layers);
            if self.is_covered(&contents, alike) {
                continue;
            }
            match self.target_of(&contents, number, alike)? {
                Some((target, set_bits)) => self.unite(target, set_bits, &contents, memory)?,
                None => self.append(&contents, limit, memory)?,
            }
        }
        Ok(())
    }

    /// Returns the number of the layer that a source's layer is merged into, and its set bits after that; `None` if the
    /// source's layer is appended. The target is the layer with the same number if it fits, because equal filters grow
    /// alike; otherwise the layer with the fewest set bits. If neither fits, it is one with many common items. `alike`
    /// are the layers of the same shape, those with the fewest set bits first.
    fn target_of(
        &self,
        from: &Contents<'f>,
        number: usize,
        alike: &[(u64, usize)],
    ) -> Result<Option<(usize, u64)>, MergeError> {
        let same_number = self.filter.layers().get(number).filter(|layer| layer.has_shape_of(from.shape));
        let searched = (SEARCHED_WORDS / from.shape.bits().size_words().max(1)).max(2);
        let emptiest = || alike.iter().take(searched).map(|(_, number)| *number);
        let numbers = || same_number.map(|_| number).into_iter().chain(emptiest());
        let layers = || numbers().filter_map(|number| Some((number, self.layers.get(number)?)));
        if let Some((number, layer)) = layers().take(2).find(|(_, layer)| layer.fits_with(from)) {
            let is_compared = from.shape.bits().size_bits() <= COMPARED_MAX_BITS;
            let set_bits = if is_compared {
                self.set_bits_with(number, from)
            } else {
                layer.expected_set_bits_with(from)
            };
            return Ok(Some((number, set_bits)));
        }
        let most_set_bits = from.most_set_bits();
        let mut compared = numbers().take(searched).map(|number| (number, self.set_bits_with(number, from)));
        if let Some(target) = compared.find(|(_, set_bits)| *set_bits <= most_set_bits) {
            return Ok(Some(target));
        }
        let is_appended = match &self.appends {
            Appends::Nothing => false,
            Appends::OfHash(hash) => from.shape.hash() == hash,
            Appends::Any => true,
        };
        match numbers().next() {
            _ if is_appended => Ok(None),
            None => Err(MergeError::Mismatch),
            Some(number) if self.is_forced => Ok(Some((number, self.set_bits_with(number, from)))),
            Some(_) => Err(MergeError::TooFull),
        }
    }

    /// Returns whether one of the layers of the same shape has all bits of this one. O(bytes), but two words rule out most
    /// layers.
    fn is_covered(&self, from: &Contents<'f>, alike: &[(u64, usize)]) -> bool {
        let bits = from.shape.bits();
        let place = bits.words().position(|word| word != 0).unwrap_or(0);
        let has_words = |layer: &BitArray| {
            let words = |place: usize| bits.word(place).zip(layer.word(place));
            [0, place].into_iter().filter_map(words).all(|(word, of_layer)| word & !of_layer == 0)
        };
        // A plan only adds set bits.
        let fewer = alike.partition_point(|(set_bits, _)| *set_bits < from.set_bits);
        let alike = alike.get(fewer..).unwrap_or_default();
        alike
            .iter()
            .filter_map(|(_, number)| self.bits(*number))
            .any(|layer| has_words(layer) && layer.covers(bits))
    }

    /// Returns the set bits of a layer after a merge with `from`: exact for the first source, an upper bound for
    /// later ones. O(bytes).
    fn set_bits_with(&self, number: usize, from: &Contents<'f>) -> u64 {
        let Some((layer, bits)) = self.layers.get(number).zip(self.bits(number)) else { return 0 };
        layer.set_bits.saturating_add(bits.count_beyond(from.shape.bits())).min(from.shape.bits().size_bits())
    }

    /// Plans to merge a source's layer into layer `number`, which then has `set_bits` set bits. If that layer was
    /// appended by this merge, they are merged at once.
    #[expect(
        clippy::expect_used,
        reason = "the number is that of a layer of the destination or of an added one"
    )]
    fn unite(
        &mut self,
        number: usize,
        set_bits: u64,
        from: &Contents<'s>,
        memory: impl Memory,
    ) -> Result<(), OutOfMemory> {
        self.plan.unions.try_reserve(1).map_err(|_| OutOfMemory)?;
        if number + 1 == self.layer_count() {
            // From here on the last layer cannot be replaced.
            self.footprint = self.footprint_with_last();
        }
        let layer = self.layers.get_mut(number).expect("a layer");
        let then = match number.checked_sub(self.filter.layer_count()) {
            None => {
                self.plan.unions.push((number, from.shape));
                Contents { set_bits, items: layer.items_with(from, set_bits), ..*layer }
            }
            Some(index) => {
                let added = self.plan.added.get_mut(index).expect("an added layer");
                added.unite(from.shape, memory);
                Contents::of(added).of_shape(from.shape)
            }
        };
        let set_bits = then.set_bits;
        let before = std::mem::replace(layer, then).set_bits;
        let group = self.groups.iter_mut().find(|group| group.shape.has_shape_of(from.shape));
        group.expect("the group of the layer").place(number, Some(before), set_bits);
        Ok(())
    }

    /// Appends a copy of a source's layer.
    fn append(
        &mut self,
        from: &Contents<'f>,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<(), MergeError> {
        self.extend(self.footprint.with_layer(from.shape), limit)?;
        let mut layer = from.shape.try_clone(memory)?;
        // A saturating layer may have a higher count, which the format permits only in a saturating filter.
        let counted = if from.shape.shape().is_some() { 0 } else { from.shape.counts().items };
        let most = from.shape.capacity_items().min(layer.bits().size_bits()).max(counted);
        layer.set_items(from.items.min(most));
        self.push(Contents::of(&layer).of_shape(from.shape));
        self.plan.added.push(layer);
        Ok(())
    }

    /// Sets the footprint, which includes another layer. Checks its limits, and reserves memory in the list of layers.
    fn extend(&mut self, footprint: Footprint, limit: &dyn ByteLimit) -> Result<(), ReserveError> {
        self.footprint = footprint;
        footprint.check(limit)?;
        let reserved = self.plan.added.try_reserve(1);
        reserved.map_err(|_| ReserveError::OutOfMemory)
    }

    /// Checks the error rate of the destination with a table that can reach the error rate `of_table`. O(layers).
    pub(super) fn check_with_table(&self, of_table: f64) -> Result<(), MergeError> {
        // An imported filter promises nothing about the client's bits. A filter of another module has no promise either,
        // but it becomes a union, whose promise includes its layers.
        let is_import = self.plan.added.is_empty() && self.filter.policy().imported().is_some();
        let rate = if is_import { of_table } else { spent(&self.layers, None) + of_table };
        self.check_rate(rate, rate / BITS_SHARE)
    }

    /// Checks an error rate of the destination. A destination that has to promise `needed` can have it.
    fn check_rate(&self, rate: f64, needed: f64) -> Result<(), MergeError> {
        let promise = self.filter.promise();
        let is_permitted = self.is_forced || promise.permits(rate) || !self.filter.is_worse_with(rate);
        if is_permitted { Ok(()) } else { Err(promise.refusal(rate, needed)) }
    }

    /// Returns the plan, after a check of the error rate over the whole life of the destination. `table_rate` is the
    /// highest error rate that its table will reach; `None` if it has no table after the merge. O(layers).
    ///
    /// A layer that takes no more items counts with its current error rate. The last layer of a filter without a table
    /// counts with its rate when full. If the promise does not permit that rate, another part takes the new items.
    pub(super) fn finish(
        mut self,
        table_rate: Option<f64>,
        limit: &dyn ByteLimit,
    ) -> Result<MergePlan<'s>, MergeError> {
        let promise = self.filter.promise();
        let (has_added, closed) = (!self.plan.added.is_empty(), spent(&self.layers, None));
        let last = self.layer_count().checked_sub(1);
        let last = last.filter(|_| self.last().is_some_and(|last| last.shape.hash().takes_all_items()));
        let kept = promise.rate_with_growth(spent(&self.layers, last));
        if let Some(of_table) = table_rate {
            self.check_with_table(of_table)?;
            // An empty last layer stays, after the added ones.
            if !self.footprint_with_last().is_countable() {
                return Err(ReserveError::TooLong.into());
            }
            return Ok(self.plan);
        }
        if !has_added {
            if self.filter.policy().has_merged_layers() {
                self.check_rate(kept, kept.max(closed / BITS_SHARE))?;
            }
            return Ok(self.plan);
        }
        let replaced = promise.rate_with_next_part(closed);
        // The lowest rate that the merge can have.
        let rate = if last.is_some() { kept.min(replaced) } else { replaced };
        if !self.is_forced && !promise.permits(rate) {
            return Err(promise.refusal(rate, rate.max(closed / BITS_SHARE)));
        }
        self.plan.last = if last.is_some() && (promise.permits(kept) || !promise.permits(replaced)) {
            LastLayer::Kept
        } else if self.is_last_replaceable() {
            LastLayer::Replaced
        } else {
            LastLayer::Closed
        };
        if self.plan.last != LastLayer::Kept && promise.growth.is_fixed_size() {
            // What is left of the promise is for a new last layer.
            let capacity_items =
                self.last().map_or(1, |last| last.shape.capacity_items().clamp(1, CAPACITY_MAX_ITEMS));
            let error_rate = promise.next_layer_error_rate(closed);
            let spec = LayerSpec::sized(capacity_items, error_rate, self.next_hash());
            self.extend(self.footprint.with_layer_spec(&spec), limit)?;
            self.plan.added.push(Layer::try_new(spec)?);
        }
        if self.plan.last != LastLayer::Replaced {
            self.extend(self.footprint_with_last(), limit)?;
        }
        Ok(self.plan)
    }

    /// Returns the footprint of all parts, including the last layer, even if the plan may replace it.
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
