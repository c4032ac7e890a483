//! Merging filters into a destination. A plan for all layers of the sources is made before anything changes.
//!
//! A source's layer is merged bit by bit into a layer of the same shape if that layer stays within its capacity. Any
//! other layer is appended. The plan depends only on the filters, so a replica with the same filters gets the same
//! cells. It is part of the format: a release with another plan would differ from its primary.
//!
//! The destination promises an error rate over its whole life. So its [budget](super::policy::Budget) must suffice
//! for the current layers, for the last one when it is full, and for later ones.

mod contents;
mod plan;
mod window;

use thiserror::Error;

use self::contents::{Contents, spent};
use self::plan::{Appends, Planner};
use super::cells::CellType;
use super::filter::Filter;
use super::growth::Growth;
use super::kind::Format;
use super::layer::Layer;
use super::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX};
use super::memory::{Memory, OutOfMemory};
use super::outcome::{ByteLimit, ReserveError};
use super::policy::{Policy, Promise};
use super::window::{history, live_rate};

/// Why filters are not merged; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum MergeError {
    /// The filter would be too large, or have too many layers or probes.
    #[error(transparent)]
    Reserve(#[from] ReserveError),
    /// The destination cannot have a layer with the cells, the hash or the shape of a source's layer.
    #[error("the destination cannot take a layer of a source")]
    Mismatch,
    /// A layer of the destination would exceed its capacity.
    #[error("a layer of the destination would exceed its capacity")]
    TooFull,
    /// The error rate of the filter would exceed the promised one.
    #[error("the merged filter would have an error rate of {rate}, above the {promised} of the destination")]
    ErrorRate {
        /// The error rate that the filter would have.
        rate: f64,
        /// The promised error rate.
        promised: f64,
        /// The error rate that a filter with all these layers must promise.
        needed: f64,
    },
}

impl From<OutOfMemory> for MergeError {
    fn from(OutOfMemory: OutOfMemory) -> Self {
        Self::Reserve(ReserveError::OutOfMemory)
    }
}

/// A layer of a source that is merged into one of the destination.
#[derive(Clone, Copy, Debug)]
struct Union<'s> {
    from: &'s Layer,
    /// The layer of the destination, 0 being the oldest.
    layer: usize,
}

/// The last layer of the destination after layers were added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastLayer {
    /// It is still the last one and takes new items.
    #[default]
    Kept,
    /// The added layers follow it; it takes no more items.
    Closed,
    /// It was empty and was replaced by the added layers.
    Replaced,
}

/// The plan of a merge.
#[derive(Debug, Default)]
struct MergePlan<'s> {
    /// The layers to merge.
    unions: Vec<Union<'s>>,
    /// The layers to add to the destination.
    added: Vec<Layer>,
    /// The last layer of the destination.
    last: LastLayer,
}

impl MergePlan<'_> {
    fn has_changes(&self) -> bool {
        !self.added.is_empty() || !self.unions.is_empty()
    }
}

impl Filter {
    /// Merges filters into this one, which then contains the items of all. Returns whether anything has changed. With
    /// `is_forced` the result may exceed the promised error rate. O(bytes of all).
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn merge(
        &mut self,
        sources: &[&Self],
        is_forced: bool,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<bool, MergeError> {
        // With layers of another hash a keyed filter would no longer be keyed.
        let appends = match (self.format(), self.layers().first().map(Layer::hash)) {
            (Format::Everbloom, Some(hash)) if !self.policy.has_several_hashes() && hash.is_secret() => {
                Appends::OfHash(*hash)
            }
            (Format::Everbloom, _) => Appends::Any,
            _ => Appends::Nothing,
        };
        self.merge_with(appends, sources, is_forced, limit, memory)
    }

    /// Returns a new filter: a copy of the first source, into which the others are merged. O(bytes of all).
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn merged_of(
        sources: &[&Self],
        is_forced: bool,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<Self, MergeError> {
        let (first, others) = sources.split_first().ok_or(MergeError::Mismatch)?;
        let needed_bytes = first.size_bytes();
        let too_large = |limit| ReserveError::TooLarge { needed_bytes, limit };
        limit.permits(needed_bytes).map_err(too_large)?;
        let mut made = first.try_clone(memory)?;
        made.merge_with(Appends::Any, others, is_forced, limit, memory)?;
        Ok(made)
    }

    fn merge_with(
        &mut self,
        appends: Appends,
        sources: &[&Self],
        is_forced: bool,
        limit: &dyn ByteLimit,
        memory: impl Memory,
    ) -> Result<bool, MergeError> {
        if !sources.iter().all(|source| self.has_cells_for(source)) {
            return Err(MergeError::Mismatch);
        }
        let appends = if self.cell_type() == CellType::Counters { Appends::Nothing } else { appends };
        let plan = if self.window().is_some() {
            window::plan(self, sources, is_forced, limit, memory)?
        } else {
            let mut planner = Planner::new(self, appends, is_forced);
            for source in sources {
                planner.plan_source(source, limit, memory)?;
            }
            planner.finish(limit)?
        };
        let has_changes = plan.has_changes();
        self.layers.try_reserve_exact(plan.added.len()).map_err(|_| OutOfMemory)?;
        // From here on nothing can fail.
        for Union { from, layer } in plan.unions {
            self.note_change();
            self.layers.get_mut(layer).into_iter().for_each(|layer| layer.unite(from, memory));
        }
        self.insert_layers(plan.added, plan.last);
        if let Policy::Window(window) = &mut self.policy {
            window.find_newest(&self.layers);
        }
        Ok(has_changes)
    }

    /// Returns whether the cells of a source can be merged. A counting filter removes an item from the oldest layer
    /// that contains it, so only counting filters with one layer each can be merged. Columns must have the same
    /// generations.
    fn has_cells_for(&self, source: &Self) -> bool {
        let are_alike = if self.cell_type() == CellType::Counters {
            matches!((self.layers(), source.layers()), ([own], [other]) if own.has_shape_of(other))
        } else if let (Some(window), Some(other)) = (self.window(), source.window()) {
            let hash = |filter: &Self| filter.layers().first().map(|first| *first.hash());
            window.span == other.span && hash(self) == hash(source)
        } else {
            true
        };
        are_alike && self.cell_type() == source.cell_type()
    }

    /// Returns the promise that a filter of everbloom's own format with the parameters of this one has.
    #[must_use]
    pub fn promise(&self) -> Promise {
        let Some(first) = self.layers.first() else { return Promise::default() };
        match &self.policy {
            Policy::Promise(promise) => *promise,
            Policy::Merged(promise) | Policy::United(promise) => **promise,
            Policy::Window(window) => window.promise,
            Policy::RedisBloom(policy) => {
                promise_within_limits(policy.asked_error_rate(), first, policy.growth())
            }
            Policy::ValkeyBloom(policy) => promise_within_limits(policy.error_rate, first, policy.growth),
            Policy::Imported(policy) => promise_within_limits(policy.error_rate, first, policy.growth),
        }
    }

    /// Returns the highest error rate over the whole life of the filter: the promised one, unless a merge was forced;
    /// `None` if there is no bound. O(layers).
    #[must_use]
    pub fn error_rate_max(&self) -> Option<f64> {
        let promise = *self.policy.promise()?;
        if promise.growth == Growth::Saturating {
            return None;
        }
        if let Some(window) = self.window() {
            let now = window.moment().now;
            let live: f64 = self.layers.iter().map(|layer| live_rate(layer, now)).sum();
            return Some(live.max(promise.error_rate));
        }
        let layers: Vec<Contents<'_>> = self.layers.iter().map(Contents::of).collect();
        if self.policy.has_merged_layers() {
            let spent = spent(&layers, layers.len().checked_sub(1));
            return Some(promise.budget(layers.len(), spent).most());
        }
        let beyond = |(index, layer): (usize, &Contents<'_>)| {
            layer.error_rate() - promise.growth.layer_error_rate(promise.error_rate, index)
        };
        let overfull = layers.iter().enumerate().filter(|(_, layer)| layer.is_overfull());
        Some(overfull.map(beyond).fold(promise.error_rate, |most, beyond| most + beyond.max(0.0)))
    }

    /// Adds layers before, after or in place of the last one. The filter becomes a union unless all layers have its
    /// hash and one of everbloom's own layouts. O(layers).
    fn insert_layers(&mut self, added: Vec<Layer>, last: LastLayer) {
        if added.is_empty() {
            return;
        }
        let hash = self.layers.first().map(|first| *first.hash());
        let is_alike = |layer: &Layer| Some(*layer.hash()) == hash && layer.shape().is_some();
        match &self.policy {
            Policy::Window(_) => {}
            Policy::Promise(_) | Policy::Merged(_) if added.iter().all(is_alike) => {
                self.policy = Policy::Merged(Box::new(self.promise()));
            }
            _ => self.policy = Policy::United(Box::new(self.promise())),
        }
        let behind = self.layers.len().saturating_sub(usize::from(last != LastLayer::Closed));
        let at = self.window().map_or(behind, |window| window.base_index(&self.layers));
        if last == LastLayer::Replaced {
            self.layers.pop();
        }
        self.layers.insert_many(at, added);
        self.end_dumps();
        // The address of a window's layer follows the layers before it.
        let mut end = 0;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            if index >= at
                && let Some(state) = layer.cells_mut().timed_mut()
            {
                state.address = end;
            }
            end = layer.dump_range(end).end;
        }
        if let Policy::Window(window) = &mut self.policy {
            window.set_end(window.end(), &self.layers);
        }
    }
}

impl Layer {
    /// Returns whether an item sets the same cells in both layers, and both have the same capacity. Burst layers must
    /// also have the same generation.
    pub(super) fn has_shape_of(&self, other: &Self) -> bool {
        self.cells().state().cell_type() == other.cells().state().cell_type()
            && self.cells().size_bits() == other.cells().size_bits()
            && self.capacity_items() == other.capacity_items()
            && self.placement() == other.placement()
            && (!self.is_burst() || history(self).newest == history(other).newest)
    }

    /// Merges a layer of the same shape into this one. The item count becomes the estimate from the fill. O(bytes).
    pub(super) fn unite(&mut self, from: &Self, memory: impl Memory) {
        if self.cells().timed().is_some() {
            // The common items are unknown, so they count in every generation of both.
            self.cells_mut().unite(from.cells(), memory);
            return;
        }
        let (before, other) = (Contents::of(self).of_shape(from), Contents::of(from));
        self.cells_mut().unite(from.cells(), memory);
        let items = before.items_with(&other, self.counts().set_cells);
        let added = from.cells().counters().map_or(0, |state| state.occurrences);
        self.count_occurrences(0, added);
        let counted = self.counts().items;
        // A decoder accepts at most the capacity, or the initial count of a client's layer if that is higher.
        let most = self.capacity_items().min(self.cells().size_bits()).max(counted);
        // Every item has an occurrence. Counters that were full stay set without one.
        let occurrences = self.cells().counters().map_or(u64::MAX, |state| state.occurrences);
        self.set_items(items.min(most).max(counted).min(occurrences));
    }
}

/// Largest error rate of a filter that a merge creates.
const ERROR_RATE_MAX: f64 = 0.999;

/// Returns parameters of another format as a promise, within the limits of everbloom's format.
fn promise_within_limits(error_rate: f64, first: &Layer, growth: Growth) -> Promise {
    Promise {
        error_rate: error_rate.min(ERROR_RATE_MAX),
        capacity_items: first.capacity_items().clamp(1, CAPACITY_MAX_ITEMS),
        growth: Growth::from_expansion(growth.expansion().min(EXPANSION_MAX)),
    }
}
