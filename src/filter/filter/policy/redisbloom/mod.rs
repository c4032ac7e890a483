//! The policy of RedisBloom's filters: its sizes and growth, bit for bit.
//!
//! A filter that is created here has the same bits as RedisBloom's after the same commands. A filter that is loaded
//! from a RedisBloom server grows as in current RedisBloom, whichever release wrote it.

mod option_bits;
pub mod sizing;

pub use option_bits::RedisBloomOptions;

use self::option_bits::{CAPACITY_IS_BITS, NO_ROUND, TIGHTENING};
use self::sizing::layer_spec;
use super::promise::{Growth, Promise};
use crate::bits::layout::{LayerParameters, Modulo};
use crate::bits::{Layer, LayerSpec, Layout};
use crate::hash::Hash;
use crate::hash::murmur2::Murmur2;
use crate::limits::EXPANSION_DEFAULT;
use crate::outcome::ReserveError;

/// The parameters of a filter of RedisBloom's format.
///
/// A filter grows by the rules of current RedisBloom and by its own options, for every release that wrote it: the
/// next layer has `growth` times the capacity of the last one and half its error rate. The filter cannot grow if
/// RedisBloom would overflow (capacity times growth beyond 64 bits, 2^64 bits) or refuse (an error rate of 0, a
/// growth of 0). It stays readable, and each new item is an error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedisBloom {
    options: RedisBloomOptions,
    growth: u32,
    first_error_rate: f64,
    first_capacity_items: u64,
}

impl RedisBloom {
    /// Growth of filters whose payload has none (RedisBloom 2.0).
    pub const OLDEST_GROWTH: u32 = EXPANSION_DEFAULT;

    /// Returns the filter that BF.RESERVE creates for `capacity_items` at `error_rate`. Fixed filters have a growth
    /// too, which is saved but never used.
    #[must_use]
    pub fn new(error_rate: f64, capacity_items: u64, options: RedisBloomOptions, growth: u32) -> Self {
        let first_error_rate = error_rate * options.first_share();
        Self { options, growth, first_error_rate, first_capacity_items: capacity_items }
    }

    /// Returns the filter that BF.RESERVE creates with these parameters. It saves `growth`, which a fixed filter never
    /// uses.
    #[must_use]
    pub fn of_promise(promise: Promise, growth: u32) -> Self {
        let is_fixed = promise.growth.is_fixed_size();
        let options = if is_fixed { RedisBloomOptions::FIXED } else { RedisBloomOptions::SCALING };
        Self::new(promise.error_rate, promise.capacity_items, options, growth)
    }

    /// Returns the parameters of a filter with this first layer; `None` for a layer of another format.
    #[must_use]
    pub fn of_first_layer(options: RedisBloomOptions, growth: u32, first: &Layer) -> Option<Self> {
        let Layout::Modulo(layout) = first.layout() else { return None };
        let (first_error_rate, first_capacity_items) = (layout.error_rate(), first.capacity_items());
        Some(Self { options, growth, first_error_rate, first_capacity_items })
    }

    /// Returns the error rate and capacity with which BF.RESERVE creates this filter in every release of RedisBloom;
    /// `None` if no such command does, as for a fixed filter with a saved growth other than [`RESERVED_GROWTH`].
    #[must_use]
    pub fn reserve_parameters(&self) -> Option<(f64, u64)> {
        let (error_rate, capacity_items) = (self.asked_error_rate(), self.first_capacity_items);
        let is_accepted =
            error_rate <= COMMAND_ERROR_RATE_MAX && capacity_items <= COMMAND_CAPACITY_MAX_ITEMS;
        let (options, growth) = if self.options.is_fixed() {
            (RedisBloomOptions::FIXED, RESERVED_GROWTH)
        } else {
            (RedisBloomOptions::SCALING, self.growth)
        };
        let is_same = Self::new(error_rate, capacity_items, options, growth) == *self;
        (is_accepted && is_same).then_some((error_rate, capacity_items))
    }

    /// Returns the error rate that a command must request to create the first layer.
    #[must_use]
    pub fn asked_error_rate(&self) -> f64 {
        self.first_error_rate / self.options.first_share()
    }

    /// Returns the hash of new filters with these parameters.
    #[must_use]
    pub const fn hash(&self) -> Murmur2 {
        self.options.hash()
    }

    /// Returns whether RedisBloom 1.1 may have written the filter. Its hash differs from that of 2.0, and the saved
    /// bytes do not show which one was used: only the operator can know. Later releases read such a filter with the
    /// hash of 2.0 and do not find its items.
    #[must_use]
    pub fn may_be_of_release_1_1(&self) -> bool {
        self.options.has_wide_hash() && !self.options.has(NO_ROUND | CAPACITY_IS_BITS)
    }

    /// Returns the options of the filter.
    #[must_use]
    pub const fn options(&self) -> RedisBloomOptions {
        self.options
    }

    /// Returns the factor from the capacity of the last layer to that of the next one: any number in filters from
    /// other servers.
    #[must_use]
    pub const fn expansion(&self) -> u32 {
        self.growth
    }

    /// Returns what happens when the last layer is full.
    #[must_use]
    pub const fn growth(&self) -> Growth {
        if self.options.is_fixed() { Growth::Fixed } else { Growth::Scaling { expansion: self.growth } }
    }

    /// Returns the capacity of the first layer, or of the layer after one with a capacity of `before` items.
    fn layer_capacity(&self, before: Option<u64>) -> Result<u64, ReserveError> {
        let capacity_items = match before {
            None => Some(self.first_capacity_items),
            Some(capacity_items) => capacity_items.checked_mul(self.growth.into()),
        };
        capacity_items.ok_or(ReserveError::TooLong)
    }

    /// Returns layer `index`, after one with a capacity of `before` items.
    pub(super) fn layer(
        &self,
        index: usize,
        before: Option<u64>,
        hash: Hash,
    ) -> Result<LayerSpec, ReserveError> {
        let error_rate = self.first_error_rate * TIGHTENING.powi(i32::try_from(index).unwrap_or(i32::MAX));
        let layer = layer_spec(self.layer_capacity(before)?, error_rate, self.options, hash);
        layer.ok_or(ReserveError::TooLong)
    }

    /// Returns the next layer after `layers`, whose error rates may be those of another release.
    pub(super) fn next_layer(&self, layers: &[Layer]) -> Result<LayerSpec, ReserveError> {
        let last = layers.last().ok_or(ReserveError::TooLong)?;
        let Layout::Modulo(layout) = last.layout() else { return Err(ReserveError::TooLong) };
        let capacity_items = self.layer_capacity(Some(last.capacity_items()))?;
        let error_rate = layout.error_rate() * TIGHTENING;
        layer_spec(capacity_items, error_rate, self.options, *last.hash()).ok_or(ReserveError::TooLong)
    }
}

/// Checks the layers of a filter.
pub(super) fn validate_layers(layers: &[Layer]) -> Result<(), &'static str> {
    let is_own = |layer: &Layer| matches!(layer.hash(), Hash::RedisBloom(_));
    let items = layers.iter().fold(0u64, |sum, layer| sum.saturating_add(layer.counts().items));
    if !layers.iter().all(is_own) {
        return Err("layers");
    }
    if items > Modulo::ITEMS_MAX { Err("items of the layers") } else { Ok(()) }
}

impl LayerParameters {
    /// Returns the parameters of a layer; `None` for a layer of another format.
    #[must_use]
    pub fn of_layer(layer: &Layer) -> Option<Self> {
        let Layout::Modulo(layout) = layer.layout() else { return None };
        Some(Self::of(&layout, layer.bits().size_bits(), layer.capacity_items()))
    }
}

/// Returns the size of a filter as RedisBloom's BF.INFO shows it: its structs on a 64-bit host, and the bit arrays.
/// O(layers).
#[must_use]
pub fn reported_size_bytes(layers: &[Layer]) -> u64 {
    layers.iter().fold(CHAIN_STRUCT_BYTES, |sum, layer| {
        sum.saturating_add(LAYER_STRUCT_BYTES).saturating_add(layer.bits().size_bytes())
    })
}

/// Growth that BF.RESERVE saves for a fixed filter with the default settings.
pub const RESERVED_GROWTH: u32 = EXPANSION_DEFAULT;
/// Largest error rate of a filter that a command creates. RedisBloom 8 lowers any higher one to this.
pub const COMMAND_ERROR_RATE_MAX: f64 = 0.25;
/// Largest capacity that RedisBloom 8 accepts in a command.
pub const COMMAND_CAPACITY_MAX_ITEMS: u64 = 1 << 30;

/// Bytes of RedisBloom's struct of a filter (8.0 on a 64-bit host).
const CHAIN_STRUCT_BYTES: u64 = 32;
/// Bytes of RedisBloom's struct of a layer (8.0 on a 64-bit host).
const LAYER_STRUCT_BYTES: u64 = 64;
