//! What distinguishes one kind of Bloom filter from another: its hash, where it places probes, how it grows.
//!
//! A [`Chain`](super::Chain) is everything that all of them share.

use std::fmt::Debug;

use super::layer::Layer;
use super::outcome::AddError;
use super::placement::{LayerPlan, Placement};

/// A kind of filter, with the parameters of one filter of that kind.
pub trait Family: Copy + Debug {
    /// What is computed of an item once, whatever the number of layers.
    type Digest<'i>: Copy;
    /// How one layer places probes.
    type Placement: for<'i> Placement<Self::Digest<'i>>;

    /// The digest of an item. O(length).
    fn digest<'i>(&self, item: &'i [u8]) -> Self::Digest<'i>;

    /// Refuses an item that no filter of this family can hold. O(1).
    ///
    /// # Errors
    /// [`AddError`] of the item.
    fn admit(&self, _digest: Self::Digest<'_>) -> Result<(), AddError> {
        Ok(())
    }

    /// The layer that comes after `layers`, which are all full or none.
    ///
    /// # Errors
    /// [`AddError`] when the filter does not grow any more.
    fn next_layer(&self, layers: &[Layer<Self::Placement>]) -> Result<LayerPlan<Self::Placement>, AddError>;
}
