//! The policy axis: the error rate that a filter promises, and how it grows.

pub mod imported;
mod promise;
pub mod redisbloom;
pub mod valkeybloom;

use super::cells::CellType;
use super::growth::Growth;
use super::hash::Hash;
use super::layer::{Layer, LayerSpec};
use super::outcome::{AddError, ReserveError};
use super::sizing::Shape;
use super::window::{Moment, Window};
use valkeybloom::Rounding;

pub use imported::{BitOrder, Imported, StringForm};
pub use promise::{Budget, Promise};
pub use redisbloom::RedisBloom;
pub use valkeybloom::ValkeyBloom;

/// The policy of a filter: its promise and its growth. Policies other than a promise are boxed, so that most filters
/// stay small.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// An error rate over all layers, which take the shares of a series.
    Promise(Promise),
    /// The same, with layers from a merge, all of the same hash. Later layers share the rest of the error rate.
    Merged(Box<Promise>),
    /// The same, with layers that come from filters of several kinds.
    United(Box<Promise>),
    /// The same, over the items of a sliding window.
    Window(Box<Window>),
    /// RedisBloom's rules.
    RedisBloom(Box<RedisBloom>),
    /// valkey-bloom's rules.
    ValkeyBloom(Box<ValkeyBloom>),
    /// A client's layer, and a promise over the later layers.
    Imported(Box<Imported>),
}

impl Policy {
    /// Returns what happens when the last layer is full.
    #[must_use]
    #[inline(always)]
    pub fn growth(&self) -> Growth {
        match self {
            Self::Promise(promise) => promise.growth,
            Self::Merged(promise) | Self::United(promise) => promise.growth,
            Self::Window(window) => window.promise.growth,
            Self::RedisBloom(policy) => policy.growth(),
            Self::ValkeyBloom(policy) => policy.growth,
            Self::Imported(policy) => policy.growth,
        }
    }

    /// Returns the next layer after `layers`, all of which are full. It has this hash and these cells, unless the
    /// policy has its own.
    ///
    /// # Errors
    /// [`AddError`] if the filter cannot grow.
    pub fn next_layer(&self, layers: &[Layer], hash: Hash, cells: CellType) -> Result<LayerSpec, AddError> {
        match self {
            Self::Promise(promise) => promise.next_layer(layers, false, hash, cells),
            Self::Merged(promise) => promise.next_layer(layers, true, hash, cells),
            Self::United(promise) => promise.next_layer(layers, true, Hash::Murmur3, CellType::Bits),
            Self::Window(window) => window.next_layer(layers, hash),
            Self::RedisBloom(policy) => policy.next_layer(layers),
            Self::ValkeyBloom(policy) => policy.next_layer(layers, hash),
            Self::Imported(policy) => policy.next_layer(layers),
        }
    }

    /// Returns the capacity and the error rate of layer `index` (0 is the first) in a filter without merged layers,
    /// after a layer with a capacity of `before` items.
    ///
    /// # Errors
    /// [`ReserveError`] if such a layer is impossible.
    pub fn layer_parameters(&self, index: usize, before: Option<u64>) -> Result<(u64, f64), ReserveError> {
        match self {
            Self::Promise(promise) => Ok((promise.layer_capacity(before)?, promise.layer_error_rate(index))),
            Self::Merged(promise) | Self::United(promise) => {
                Ok((promise.layer_capacity(before)?, promise.layer_error_rate(index)))
            }
            Self::Window(window) => Ok((window.promise.layer_capacity(before)?, window.layer_error_rate())),
            Self::RedisBloom(policy) => policy.layer_parameters(index, before),
            Self::ValkeyBloom(policy) => policy.layer_parameters(index, before),
            Self::Imported(policy) => policy.layer_parameters(index, before),
        }
    }

    /// Returns the layer for a capacity and an error rate from [`layer_parameters`](Self::layer_parameters).
    ///
    /// # Errors
    /// [`ReserveError`] if such a layer is impossible.
    pub fn sized_layer(
        &self,
        (capacity_items, error_rate): (u64, f64),
        hash: Hash,
        cells: CellType,
    ) -> Result<LayerSpec, ReserveError> {
        match self {
            Self::RedisBloom(policy) => policy.sized_layer(capacity_items, error_rate, hash),
            Self::ValkeyBloom(_) => {
                valkeybloom::layer_spec(capacity_items, error_rate, Rounding::Nearest, hash)
            }
            _ => Ok(Shape::sized(cells, capacity_items, error_rate).spec(hash, 0)),
        }
    }

    /// Returns the policy of the same filter without items.
    #[must_use]
    pub fn emptied(&self) -> Self {
        match self {
            Self::Window(window) => Self::Window(Box::new(window.emptied())),
            Self::Imported(policy) => Self::Imported(Box::new(policy.emptied())),
            // Without the merged layers only the promise remains.
            Self::Merged(promise) | Self::United(promise) => Self::Promise(**promise),
            policy => policy.clone(),
        }
    }

    /// Returns the promise over the whole filter, if any.
    #[must_use]
    pub fn promise(&self) -> Option<&Promise> {
        match self {
            Self::Promise(promise) => Some(promise),
            Self::Merged(promise) | Self::United(promise) => Some(promise),
            Self::Window(window) => Some(&window.promise),
            Self::RedisBloom(_) | Self::ValkeyBloom(_) | Self::Imported(_) => None,
        }
    }

    /// Returns whether some of the layers came from a merge, so that they are not those of the series. Always false for
    /// windows, whose generations have equal shares.
    #[must_use]
    pub const fn has_merged_layers(&self) -> bool {
        matches!(self, Self::Merged(_) | Self::United(_))
    }

    /// Returns whether the layers of the filter may have several hashes.
    #[inline(always)]
    pub(super) const fn has_several_hashes(&self) -> bool {
        matches!(self, Self::United(_) | Self::Imported(_))
    }

    /// Returns the time of the filter.
    #[inline(always)]
    pub(super) fn moment(&self) -> Moment {
        match self {
            Self::Window(window) => window.moment(),
            _ => Moment::default(),
        }
    }
}
