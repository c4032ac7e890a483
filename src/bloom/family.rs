//! What distinguishes one kind of Bloom filter from another: its hash, where it places probes, how it grows.
//!
//! A [`Chain`](super::Chain) is everything that all of them share.

use std::fmt::Debug;

use super::bits::Bits;
use super::growth::Growth;
use super::layer::Layer;
use super::outcome::{AddError, Added};
use super::placement::{LayerPlan, Placement, Probes};

/// A kind of filter, with the parameters of one filter of that kind.
pub trait Family: Copy + Debug {
    /// What is computed of an item once, whatever the number of layers.
    type Digest<'i>: Copy;
    /// How one layer places probes, and in what.
    type Placement: Probes + for<'i> Placement<Self::Digest<'i>>;

    /// Whether every add counts, also of an item that seems to be there: items can then be deleted.
    const COUNTS_OCCURRENCES: bool = false;

    /// Whether what is added is remembered for a time only: [`add_in_time`](Self::add_in_time) then adds.
    const KEEPS_TIME: bool = false;

    /// The digest of an item. O(length).
    fn digest<'i>(&self, item: &'i [u8]) -> Self::Digest<'i>;

    /// Refuses an item that no filter of this family can hold. O(1).
    ///
    /// # Errors
    /// [`AddError`] of the item.
    fn admit(&self, _digest: Self::Digest<'_>) -> Result<(), AddError> {
        Ok(())
    }

    /// What happens when the last layer is full.
    fn growth(&self) -> Growth;

    /// The parameters of a filter of this family that was emptied: without what they say of its items.
    #[must_use]
    fn emptied(&self) -> Self {
        *self
    }

    /// Adds an item to one of `layers` as of the time that the digest holds; nothing, and nothing has changed,
    /// where it has no room, unless it is forced: then it goes to the last one. Of kinds that keep time.
    /// O(layers * probes).
    #[inline(always)]
    fn add_in_time(
        &mut self,
        _layers: &mut [Layer<Self::Placement>],
        _digest: Self::Digest<'_>,
        _is_forced: bool,
    ) -> Option<Added> {
        None
    }

    /// Whether items are in one of these layers without having got past those before it: the layers were
    /// filters of their own. O(layers).
    fn are_layers_united(&self, _layers: &[Layer<Self::Placement>]) -> bool {
        false
    }

    /// Checks the parameters, and what must hold of the layers of such a filter beside what holds of all: see
    /// [`internal_validate`](super::chain::Chain::internal_validate). O(layers).
    ///
    /// # Errors
    /// What breaks a rule.
    fn validate_layers(&self, layers: &[Layer<Self::Placement>]) -> Result<(), &'static str>;

    /// The layer that comes after `layers`, which are all full or none.
    ///
    /// # Errors
    /// [`AddError`] when the filter cannot grow.
    fn next_layer(&self, layers: &[Layer<Self::Placement>]) -> Result<LayerPlan<Self::Placement>, AddError>;
}

/// A kind of filter whose layers are arrays of bits.
pub trait BitFamily: Family<Placement: Probes<Storage = Bits>> {}

impl<F: Family<Placement: Probes<Storage = Bits>>> BitFamily for F {}
