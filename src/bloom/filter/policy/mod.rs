//! The policy of a filter: the error rate that it promises, and when it grows or refuses.

pub mod imported;
mod promise;
pub mod redisbloom;
pub mod valkeybloom;
pub mod window;

use super::PartSpec;
use super::growth::Growth;
use crate::bloom::bits::sizing::Shape;
use crate::bloom::bits::{Layer, LayerSpec};
use crate::bloom::generation::Moment;
use crate::bloom::hash::Hash;
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::table::{EntryKind, TableSpec};
use valkeybloom::ProbeRounding;

pub use imported::{BitOrder, Imported, StringForm};
pub use promise::Promise;
pub use redisbloom::RedisBloom;
pub use valkeybloom::ValkeyBloom;
pub use window::Window;

/// The policy of a filter: its promise and its growth. Policies other than a promise are boxed, so that most filters
/// stay small.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// An error rate. A filter whose capacity was chosen has bits, and a table for what exceeds it; another one has a
    /// table.
    Everbloom(Promise),
    /// The same, with several layers of bits from a merge, all of the same hash.
    Merged(Box<Promise>),
    /// The same, with layers of bits from filters of several kinds.
    Union(Box<Promise>),
    /// An error rate over items that can be deleted: a table that counts.
    Counting(Box<Promise>),
    /// An error rate over the items of a sliding window: a table whose entries expire.
    Window(Box<Window>),
    /// RedisBloom's rules.
    RedisBloom(Box<RedisBloom>),
    /// valkey-bloom's rules.
    ValkeyBloom(Box<ValkeyBloom>),
    /// A client's bits, and a promise over the table that follows them.
    Imported(Box<Imported>),
}

impl Policy {
    /// Returns what happens when the filter has as many items as its capacity.
    #[must_use]
    #[inline(always)]
    pub fn growth(&self) -> Growth {
        match self {
            Self::Everbloom(promise) => promise.growth,
            Self::Merged(promise) | Self::Union(promise) | Self::Counting(promise) => promise.growth,
            Self::Window(window) => window.promise.growth,
            Self::RedisBloom(policy) => policy.growth(),
            Self::ValkeyBloom(policy) => policy.growth,
            Self::Imported(policy) => policy.growth,
        }
    }

    /// Returns the first part of a filter.
    ///
    /// # Errors
    /// [`ReserveError`] if there can be no such filter.
    pub fn first_part(&self, hash: Hash) -> Result<PartSpec, ReserveError> {
        Ok(match self {
            Self::Everbloom(Promise { growth: Growth::Unreserved { .. }, .. })
            | Self::Counting(_)
            | Self::Window(_) => PartSpec::Table(self.table(), hash),
            Self::Everbloom(promise) => {
                PartSpec::Layer(Shape::sized(promise.capacity_items, promise.bits_error_rate()).spec(hash))
            }
            Self::Merged(promise) | Self::Union(promise) => {
                return Self::Everbloom(**promise).first_part(hash);
            }
            Self::RedisBloom(_) | Self::ValkeyBloom(_) => {
                PartSpec::Layer(self.sized_layer(self.layer_parameters(0, None)?, hash)?)
            }
            Self::Imported(_) => return Err(ReserveError::TooLong),
        })
    }

    /// Returns the part that a filter of these layers, all of which are full, gets next.
    ///
    /// # Errors
    /// [`AddError`] if it cannot grow.
    pub fn next_part(&self, layers: &[Layer]) -> Result<PartSpec, AddError> {
        let hash = layers.first().map_or(Hash::Murmur3, |first| *first.hash());
        match self {
            Self::RedisBloom(policy) => policy.next_layer(layers).map(PartSpec::Layer),
            Self::ValkeyBloom(policy) => policy.next_layer(layers, hash).map(PartSpec::Layer),
            _ if self.growth().is_fixed_size() => Err(AddError::Full),
            Self::Union(_) | Self::Imported(_) => Ok(PartSpec::Table(self.table(), Hash::Murmur3)),
            _ => Ok(PartSpec::Table(self.table(), hash)),
        }
    }

    /// Returns the table of a filter; of other formats, which have none, the one that a merge adds.
    #[must_use]
    pub fn table(&self) -> TableSpec {
        let (error_rate, kind, items) = match self {
            Self::Everbloom(promise) => (promise.table_error_rate(), EntryKind::Plain, 0),
            Self::Merged(promise) | Self::Union(promise) => (promise.table_error_rate(), EntryKind::Plain, 0),
            Self::Counting(promise) => (promise.error_rate, EntryKind::Counted, 0),
            Self::Window(window) => {
                let promise = &window.promise;
                (promise.error_rate, EntryKind::Timed, promise.capacity_items)
            }
            Self::Imported(policy) => (policy.error_rate, EntryKind::Plain, 0),
            Self::RedisBloom(policy) => {
                (policy.growth().table_error_rate(policy.asked_error_rate()), EntryKind::Plain, 0)
            }
            Self::ValkeyBloom(policy) => {
                (policy.growth.table_error_rate(policy.error_rate), EntryKind::Plain, 0)
            }
        };
        TableSpec { error_rate, kind, items }
    }

    /// Returns the capacity and the error rate of layer `index` (0 is the first) of a filter of another format, after a
    /// layer with a capacity of `before` items.
    ///
    /// # Errors
    /// [`ReserveError`] if there can be no such layer.
    pub fn layer_parameters(&self, index: usize, before: Option<u64>) -> Result<(u64, f64), ReserveError> {
        match self {
            Self::RedisBloom(policy) => policy.layer_parameters(index, before),
            Self::ValkeyBloom(policy) => policy.layer_parameters(index, before),
            _ => Err(ReserveError::TooLong),
        }
    }

    /// Returns the layer for a capacity and an error rate from [`layer_parameters`](Self::layer_parameters).
    ///
    /// # Errors
    /// [`ReserveError`] if there can be no such layer.
    pub fn sized_layer(
        &self,
        (capacity_items, error_rate): (u64, f64),
        hash: Hash,
    ) -> Result<LayerSpec, ReserveError> {
        match self {
            Self::RedisBloom(policy) => policy.sized_layer(capacity_items, error_rate, hash),
            Self::ValkeyBloom(_) => {
                valkeybloom::layer_spec(capacity_items, error_rate, ProbeRounding::Nearest, hash)
            }
            _ => Err(ReserveError::TooLong),
        }
    }

    /// Returns the policy of the same filter without items.
    #[must_use]
    pub fn emptied(&self) -> Self {
        match self {
            Self::Window(window) => {
                Self::Window(Box::new(Window::new(window.promise, window.span, window.no_refresh)))
            }
            Self::Imported(policy) => Self::Imported(Box::new(policy.emptied())),
            // Without the merged layers only the promise remains.
            Self::Merged(promise) | Self::Union(promise) => Self::Everbloom(**promise),
            policy => policy.clone(),
        }
    }

    /// Returns the promise over the whole filter, if any.
    #[must_use]
    pub fn promise(&self) -> Option<&Promise> {
        match self {
            Self::Everbloom(promise) => Some(promise),
            Self::Merged(promise) | Self::Union(promise) | Self::Counting(promise) => Some(promise),
            Self::Window(window) => Some(&window.promise),
            Self::RedisBloom(_) | Self::ValkeyBloom(_) | Self::Imported(_) => None,
        }
    }

    /// Returns whether some of the layers came from a merge.
    #[must_use]
    pub const fn has_merged_layers(&self) -> bool {
        matches!(self, Self::Merged(_) | Self::Union(_))
    }

    /// Returns whether the parts of the filter may have several hashes.
    #[inline(always)]
    pub(super) const fn has_several_hashes(&self) -> bool {
        matches!(self, Self::Union(_) | Self::Imported(_))
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
