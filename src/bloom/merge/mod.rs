//! Merging filters into another: what becomes of each layer of the sources is decided before anything is changed.
//!
//! A layer whose shape the destination has is united with that layer, where that stays within what it was sized for; any other is
//! appended. What is decided depends on nothing but the filters, so a replica that has the same ones comes to the same cells. All
//! of this is part of the format: a release that decides otherwise differs from its primary.
//!
//! The destination promises an error rate over its whole life. So its [budget](super::budget) has to have room for the layers as
//! they are, for the last one once it is full, and for those that it grows by later.

mod alike;
mod gain;
mod holding;
mod plan;
mod window;

use self::holding::{Holding, spent};
use self::plan::{Appends, Merge};

use thiserror::Error;

use super::cells::CellType;
use super::filter::Filter;
use super::growth::Growth;
use super::kind::Format;
use super::layer::Layer;
use super::limits::{CAPACITY_MAX_ITEMS, EXPANSION_MAX};
use super::memory::{Memory, OutOfMemory};
use super::outcome::{ByteLimit, ReserveError};
use super::policy::{Policy, Promise};
/// Why filters are not merged; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum MergeError {
    /// The filter would be too large, or have too many layers or probes.
    #[error("{0}")]
    Reserve(ReserveError),
    /// The destination can hold no layer with the cells, the hash or the shape of one of a source.
    #[error("the destination has no layer of that shape and hash")]
    Mismatch,
    /// A layer of the destination would hold more than it was sized for.
    #[error("a layer would hold more items than it was sized for")]
    TooFull,
    /// The filter would come to err more often than it promises.
    #[error("the filter would come to an error rate of {rate}, and promises {promised}")]
    ErrorRate {
        /// The error rate that it would come to.
        rate: f64,
        /// What it promises.
        promised: f64,
        /// What a filter of all these layers has to promise.
        needed: f64,
    },
}

impl From<ReserveError> for MergeError {
    fn from(error: ReserveError) -> Self {
        Self::Reserve(error)
    }
}

impl From<OutOfMemory> for MergeError {
    fn from(OutOfMemory: OutOfMemory) -> Self {
        Self::Reserve(ReserveError::OutOfMemory)
    }
}

/// A layer of a source that is to be united with one of the destination.
#[derive(Clone, Copy, Debug)]
struct Order<'s> {
    from: &'s Layer,
    /// Which layer of the destination, 0 being the oldest.
    layer: usize,
}

/// What becomes of the last layer of a filter that gains layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastLayer {
    /// It stays the last one, which takes new items.
    #[default]
    Stays,
    /// The layers follow it; it takes no more items.
    Closes,
    /// It is empty, and the layers replace it.
    Leaves,
}

/// What a merge comes to.
#[derive(Debug, Default)]
struct Merged<'s> {
    /// The layers that are united.
    orders: Vec<Order<'s>>,
    /// The layers that the destination gains.
    added: Vec<Layer>,
    /// What becomes of its last one.
    last: LastLayer,
}

impl Filter {
    /// Merges filters into this one, which then contains what any of them does. Returns whether anything has changed. `is_forced`
    /// says to merge although that breaks the promised error rate. O(bytes of all).
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
        // Beside layers of another hash a keyed filter would not be one any more.
        let appends = match (self.format(), self.layers().first().map(Layer::hash)) {
            (Format::Everbloom, Some(hash)) if !self.policy.has_several_hashes() && hash.is_secret() => {
                Appends::OfHash(*hash)
            }
            (Format::Everbloom, _) => Appends::Any,
            _ => Appends::Nothing,
        };
        self.merge_with(appends, sources, is_forced, limit, memory)
    }

    /// Makes a filter of several: a copy of the first, into which the others are merged. O(bytes of all).
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
        let too_large = |limit_bytes| ReserveError::TooLarge { needed_bytes, limit_bytes };
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
        let Merged { orders, added, last } = if self.window().is_some() {
            window::plan(self, sources, is_forced, limit, memory)?
        } else {
            let mut merge = Merge::new(self, appends, is_forced);
            for source in sources {
                merge.decide(source, limit, memory)?;
            }
            merge.finish(limit)?
        };
        let has_changed = !added.is_empty() || !orders.is_empty();
        let gained = self.gain_layers(added, last)?;
        // From here on nothing is refused.
        for Order { from, layer } in orders {
            self.unite_layer(gained.place_of(layer), from, memory);
        }
        if let Policy::Window(window) = &mut self.policy {
            window.find_newest(&self.layers);
        }
        Ok(has_changed)
    }

    /// Returns whether the cells of a source can be taken in at all. An item of counters is deleted from the oldest layer that seems
    /// to contain it, so only filters of one layer each are merged; columns must be of the same generations.
    fn has_cells_for(&self, source: &Self) -> bool {
        let are_alike = match self.cell_type() {
            CellType::Bits => true,
            CellType::Counters => {
                matches!((self.layers(), source.layers()), ([own], [other]) if own.has_shape_of(other))
            }
            CellType::Columns => {
                let parts = |filter: &Self| {
                    (
                        filter.window().map(|window| window.span),
                        filter.layers().first().map(|first| *first.hash()),
                    )
                };
                parts(self) == parts(source)
            }
        };
        are_alike && self.cell_type() == source.cell_type()
    }

    /// Returns what a filter of our own that is made of this one promises.
    #[must_use]
    pub fn promise(&self) -> Promise {
        let Some(first) = self.layers.first() else { return Promise::default() };
        match &self.policy {
            Policy::Promise(promise) => *promise,
            Policy::United(promise) => **promise,
            Policy::Window(window) => window.promise,
            Policy::RedisBloom(policy) => possible(policy.asked_error_rate(), first, policy.growth()),
            Policy::ValkeyBloom(policy) => possible(policy.error_rate, first, policy.growth),
            Policy::Imported(policy) => possible(policy.error_rate, first, policy.growth),
        }
    }

    /// Returns the most that the error rate comes to over the whole life of the filter: what it promises, but for a merge that was
    /// forced. Nothing where it has no bound. O(layers).
    #[must_use]
    pub fn error_rate_max(&self) -> Option<f64> {
        let promise = *self.policy.promise()?;
        if promise.growth == Growth::Saturating {
            return None;
        }
        if let Some(window) = self.window() {
            return Some(window::live_rate_of(self, window.moment().now).max(promise.error_rate));
        }
        let layers: Vec<Holding<'_>> = self.layers.iter().map(Holding::of).collect();
        if self.policy.are_layers_united(&self.layers) {
            let spent = spent(&layers, layers.len().checked_sub(1));
            return Some(promise.budget(layers.len(), spent).most());
        }
        let beyond = |(index, layer): (usize, &Holding<'_>)| {
            layer.error_rate() - promise.growth.layer_error_rate(promise.error_rate, index)
        };
        let overfull = layers.iter().enumerate().filter(|(_, layer)| layer.is_overfull());
        Some(overfull.map(beyond).fold(promise.error_rate, |most, beyond| most + beyond.max(0.0)))
    }
}

/// Largest error rate that a merged filter is made to promise.
const ERROR_RATE_MAX: f64 = 0.999;

/// Returns parameters of another format, as far as they are possible for one of ours.
fn possible(error_rate: f64, first: &Layer, growth: Growth) -> Promise {
    Promise {
        error_rate: error_rate.min(ERROR_RATE_MAX),
        capacity_items: first.capacity_items().clamp(1, CAPACITY_MAX_ITEMS),
        growth: Growth::from_expansion(growth.expansion().min(EXPANSION_MAX)),
    }
}
