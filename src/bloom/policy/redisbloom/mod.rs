//! The policy of RedisBloom's filters: its sizes and growth, bit for bit.
//!
//! A filter that is made here holds the same bits as RedisBloom's after the same commands, and
//! one that is read from a RedisBloom server goes on as it would have there, whichever release wrote it.

mod options;
mod plan;
pub mod sizing;

pub use options::{Options, Rounding};
pub use plan::layer_spec;

use crate::bloom::growth::Growth;
use crate::bloom::hash::Hash;
use crate::bloom::hash::murmur2::Murmur2;
use crate::bloom::layer::{Layer, LayerSpec};
use crate::bloom::layout::LayerParameters;
use crate::bloom::limits::EXPANSION_DEFAULT;
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::placement::Layout;

/// Share of the error rate asked for that the first layer of a growing filter gets, and of its predecessor's
/// that each later layer gets.
const TIGHTENING: f64 = 0.5;

/// What a filter of RedisBloom's format is reserved with.
///
/// A filter grows by the rules of current RedisBloom and by its own options, whichever release wrote it: from
/// the last layer's capacity times `growth` and half its error rate. Where RedisBloom would overflow
/// (capacity times growth beyond 64 bits, 2^64 bits) or refuses (an error rate halved down to 0, growth 0)
/// the filter cannot grow; it stays readable and says so on every new item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedisBloom {
    options: Options,
    growth: u32,
    first_error_rate: f64,
    first_capacity_items: u64,
}

impl RedisBloom {
    /// Growth of filters from before it was written (RedisBloom 2.0).
    pub const OLDEST_GROWTH: u32 = EXPANSION_DEFAULT;

    /// Returns what BF.RESERVE makes of its arguments: a filter for `capacity_items` at `error_rate`. Fixed filters
    /// have a growth too, which is written and never used.
    #[must_use]
    pub fn new(error_rate: f64, capacity_items: u64, options: Options, growth: u32) -> Self {
        let share = if options.is_fixed() { 1.0 } else { TIGHTENING };
        Self::of_first(options, growth, error_rate * share, capacity_items)
    }

    /// Returns the error rate and capacity with which BF.RESERVE makes this very filter, in every release of RedisBloom.
    /// Returns nothing where no such command does: of the filters that commands make, for fixed ones with another written growth
    /// than [`RESERVED_GROWTH`].
    #[must_use]
    pub fn reserve_parameters(&self) -> Option<(f64, u64)> {
        let (error_rate, capacity_items) = (self.asked_error_rate(), self.first_capacity_items);
        let is_asked = error_rate <= COMMAND_ERROR_RATE_MAX && capacity_items <= COMMAND_CAPACITY_MAX_ITEMS;
        let (options, growth) = if self.options.is_fixed() {
            (Options::FIXED, RESERVED_GROWTH)
        } else {
            (Options::SCALING, self.growth)
        };
        let is_same = Self::new(error_rate, capacity_items, options, growth) == *self;
        (is_asked && is_same).then_some((error_rate, capacity_items))
    }

    /// Returns the error rate that a command asks for to make the first layer.
    #[must_use]
    pub fn asked_error_rate(&self) -> f64 {
        let share = if self.options.is_fixed() { 1.0 } else { TIGHTENING };
        self.first_error_rate / share
    }

    /// Returns the parameters of a filter whose first layer is this one; nothing for a layer of another format.
    #[must_use]
    pub fn of_first_layer(options: Options, growth: u32, first: &Layer) -> Option<Self> {
        let Layout::Modulo(layout) = first.layout() else { return None };
        Some(Self::of_first(options, growth, layout.error_rate(), first.capacity_items()))
    }

    const fn of_first(options: Options, growth: u32, error_rate: f64, capacity_items: u64) -> Self {
        Self { options, growth, first_error_rate: error_rate, first_capacity_items: capacity_items }
    }

    /// Returns how the items of new filters with these parameters are hashed.
    #[must_use]
    pub const fn hash(&self) -> Murmur2 {
        self.options.hash()
    }

    /// Returns whether RedisBloom 1.1 may have made the filter: its hash differs from that of 2.0, and what both wrote does not,
    /// so that only the operator can tell. Later releases read such a filter by the hash of 2.0 and miss its items.
    #[must_use]
    pub fn may_be_of_release_1_1(&self) -> bool {
        self.options.has_wide_hash() && self.options.rounding() == Rounding::PowerOfTwo
    }

    /// Returns the rules that it was made by and grows by.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// Returns how many times the capacity of the last layer the next one has: any number in filters from other servers.
    #[must_use]
    pub fn expansion(&self) -> u32 {
        self.growth
    }

    /// Returns what happens when the last layer is full.
    #[must_use]
    pub const fn growth(&self) -> Growth {
        if self.options.is_fixed() { Growth::Fixed } else { Growth::Scaling { expansion: self.growth } }
    }

    /// Returns the items and the error rate of layer `index`, behind one with a capacity of `before` items.
    pub(super) fn layer_parameters(
        &self,
        index: usize,
        before: Option<u64>,
    ) -> Result<(u64, f64), ReserveError> {
        let capacity_items = match before {
            None => Some(self.first_capacity_items),
            Some(capacity_items) => capacity_items.checked_mul(self.growth.into()),
        };
        let halvings = i32::try_from(index).unwrap_or(i32::MAX);
        let error_rate = self.first_error_rate * TIGHTENING.powi(halvings);
        capacity_items.map(|items| (items, error_rate)).ok_or(ReserveError::TooLong)
    }

    /// Returns the layer for so many items at an error rate.
    pub(super) fn sized_layer(
        &self,
        capacity_items: u64,
        error_rate: f64,
        hash: Hash,
    ) -> Result<LayerSpec, ReserveError> {
        layer_spec(capacity_items, error_rate, self.options, hash).ok_or(ReserveError::TooLong)
    }

    /// Returns the layer that comes after `layers`.
    ///
    /// # Errors
    /// [`AddError`] when the filter cannot grow.
    pub(super) fn next_layer(&self, layers: &[Layer]) -> Result<LayerSpec, AddError> {
        let hash = layers.last().map_or(Hash::RedisBloom(self.hash()), |last| *last.hash());
        let (capacity_items, error_rate) = match layers.last().map(|last| (last, last.layout())) {
            None => (Some(self.first_capacity_items), self.first_error_rate),
            Some(_) if self.options.is_fixed() => return Err(AddError::Full),
            Some((last, Layout::Modulo(layout))) => {
                (last.capacity_items().checked_mul(self.growth.into()), layout.error_rate() * TIGHTENING)
            }
            Some(_) => (None, 0.0),
        };
        capacity_items
            .and_then(|capacity_items| layer_spec(capacity_items, error_rate, self.options, hash))
            .ok_or(AddError::CannotGrow(ReserveError::TooLong))
    }
}

impl LayerParameters {
    /// Returns the parameters of a layer; nothing for one of another format.
    #[must_use]
    pub fn of_layer(layer: &Layer) -> Option<Self> {
        let Layout::Modulo(layout) = layer.layout() else { return None };
        Some(Self::of(&layout, layer.cells().size_bits(), layer.capacity_items()))
    }
}

/// Returns the size of a filter as RedisBloom's BF.INFO shows it: its structs on a 64-bit host, and the bit arrays.
/// O(layers).
#[must_use]
pub fn reported_size_bytes(layers: &[Layer]) -> u64 {
    layers.iter().fold(CHAIN_STRUCT_BYTES, |sum, layer| {
        sum.saturating_add(LAYER_STRUCT_BYTES).saturating_add(layer.cells().size_bytes())
    })
}

/// Growth that BF.RESERVE writes of a fixed filter where nothing is configured.
pub const RESERVED_GROWTH: u32 = EXPANSION_DEFAULT;
/// Largest error rate of a filter that a command makes; RedisBloom 8 takes this for any above it.
pub const COMMAND_ERROR_RATE_MAX: f64 = 0.25;
/// Largest capacity that RedisBloom 8 takes in a command.
pub const COMMAND_CAPACITY_MAX_ITEMS: u64 = 1 << 30;

/// Bytes of RedisBloom's struct of a chain (8.0 on a 64-bit host).
const CHAIN_STRUCT_BYTES: u64 = 32;
/// Bytes of RedisBloom's struct of a layer (8.0 on a 64-bit host).
const LAYER_STRUCT_BYTES: u64 = 64;
