//! RedisBloom's kind of filter: how it hashes and how it grows.

use super::hash::{HashPair, Hashing};
use super::options::{Options, Rounding};
use super::parameters::LayerParameters;
use super::plan::layer_plan;
use super::probing::{ITEMS_MAX, ModuloProbing};
use crate::bloom::chain::Chain;
use crate::bloom::family::Family;
use crate::bloom::growth::Growth;
use crate::bloom::layer::Layer;
use crate::bloom::limits::EXPANSION_DEFAULT;
use crate::bloom::outcome::{AddError, ReserveError};
use crate::bloom::placement::LayerPlan;

/// Share of the error rate asked for that the first layer of a growing filter gets, and of its predecessor's
/// that each later layer gets.
const TIGHTENING: f64 = 0.5;

/// The parameters of a filter of RedisBloom's kind.
///
/// A filter grows by the rules of current RedisBloom and by its own options, whichever release wrote it: from
/// the last layer's capacity times `growth` and half its error rate. Where RedisBloom would overflow
/// (capacity times growth beyond 64 bits, 2^64 bits) or refuses (an error rate halved down to 0, growth 0)
/// the filter cannot grow; it stays readable and says so on every new item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedisBloom {
    options: Options,
    hashing: Hashing,
    growth: u32,
    first_error_rate: f64,
    first_capacity_items: u64,
}

impl RedisBloom {
    /// Growth of filters from before it was written down (RedisBloom 2.0).
    pub const OLDEST_GROWTH: u32 = EXPANSION_DEFAULT;

    /// What BF.RESERVE makes of its arguments: a filter for `capacity_items` at `error_rate`. Fixed filters
    /// have a growth too: it is written down and never used.
    #[must_use]
    pub fn new(error_rate: f64, capacity_items: u64, options: Options, growth: u32) -> Self {
        let share = if options.is_fixed() { 1.0 } else { TIGHTENING };
        Self::of_first_layer(options, growth, error_rate * share, capacity_items)
    }

    /// Error rate and capacity with which BF.RESERVE makes this very filter, in every release of RedisBloom.
    /// Nothing where no such command does: of the filters that commands make, fixed ones with another growth
    /// than [`RESERVED_GROWTH`] written down.
    #[must_use]
    pub fn reserve_parameters(&self) -> Option<(f64, u64)> {
        let share = if self.options.is_fixed() { 1.0 } else { TIGHTENING };
        let (error_rate, capacity_items) = (self.first_error_rate / share, self.first_capacity_items);
        let is_asked = error_rate <= COMMAND_ERROR_RATE_MAX && capacity_items <= COMMAND_CAPACITY_MAX_ITEMS;
        let (options, growth) = if self.options.is_fixed() {
            (Options::FIXED, RESERVED_GROWTH)
        } else {
            (Options::SCALING, self.growth)
        };
        let is_same = Self::new(error_rate, capacity_items, options, growth) == *self;
        (is_asked && is_same).then_some((error_rate, capacity_items))
    }

    /// The parameters of a filter with `layers`, of which there must be one.
    #[must_use]
    pub fn of_layers(options: Options, growth: u32, layers: &[Layer<ModuloProbing>]) -> Option<Self> {
        let first = layers.first()?;
        Some(Self::of_first_layer(options, growth, first.placement().error_rate(), first.capacity_items()))
    }

    fn of_first_layer(options: Options, growth: u32, error_rate: f64, capacity_items: u64) -> Self {
        let hashing = if options.has_wide_hash() { Hashing::Wide } else { Hashing::Narrow };
        Self { options, hashing, growth, first_error_rate: error_rate, first_capacity_items: capacity_items }
    }

    /// Says that the filter's items were added by RedisBloom 1.1, if that can be: its hash differs from that
    /// of 2.0, and what both wrote down does not, so that only who ran it can tell. Later releases read such
    /// a filter by the hash of 2.0 and miss its items. Nothing of this is written down.
    pub fn assume_release_1_1(&mut self) {
        if self.options.has_wide_hash() && self.options.rounding() == Rounding::PowerOfTwo {
            self.hashing = Hashing::WideCutSeeds;
        }
    }

    /// How items are hashed.
    #[must_use]
    pub fn hashing(&self) -> Hashing {
        self.hashing
    }

    /// The rules it was made by and grows by.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// How many times the capacity of the last layer the next one has. Any number in filters from other
    /// servers.
    #[must_use]
    pub fn growth(&self) -> u32 {
        self.growth
    }
}

impl Family for RedisBloom {
    type Digest<'i> = HashPair;
    type Placement = ModuloProbing;

    fn digest(&self, item: &[u8]) -> HashPair {
        HashPair::of(item, self.hashing)
    }

    fn growth(&self) -> Growth {
        if self.options.is_fixed() { Growth::Fixed } else { Growth::Scaling { expansion: self.growth } }
    }

    /// Each item has set a bit that was clear.
    fn validate_layers(&self, layers: &[Layer<ModuloProbing>]) -> Result<(), &'static str> {
        let mut items = 0u64;
        for layer in layers {
            LayerParameters::check(&layer.placement(), layer.bits().len(), layer.capacity_items())?;
            let of_layer = layer.counts().items;
            items = items.saturating_add(of_layer);
            if of_layer > layer.bits().len() || items > ITEMS_MAX {
                return Err("items of the layers");
            }
        }
        Ok(())
    }

    fn next_layer(&self, layers: &[Layer<ModuloProbing>]) -> Result<LayerPlan<ModuloProbing>, AddError> {
        let (capacity_items, error_rate) = match layers.last() {
            None => (Some(self.first_capacity_items), self.first_error_rate),
            Some(_) if self.options.is_fixed() => return Err(AddError::Full),
            Some(last) => {
                let capacity_items = last.capacity_items().checked_mul(self.growth.into());
                (capacity_items, last.placement().error_rate() * TIGHTENING)
            }
        };
        capacity_items
            .and_then(|capacity_items| layer_plan(capacity_items, error_rate, self.options))
            .ok_or(AddError::CannotGrow(ReserveError::TooLong))
    }
}

/// The size of a filter as RedisBloom's BF.INFO shows it: its structs on a 64-bit host, and the bit arrays.
/// O(layers).
#[must_use]
pub fn reported_size_bytes(chain: &Chain<RedisBloom>) -> u64 {
    chain.layers().iter().fold(CHAIN_STRUCT_BYTES, |sum, layer| {
        sum.saturating_add(LAYER_STRUCT_BYTES).saturating_add(layer.bits().size_bytes())
    })
}

/// Growth that BF.RESERVE writes down of a fixed filter where nothing is configured.
pub const RESERVED_GROWTH: u32 = EXPANSION_DEFAULT;
/// Largest error rate of a filter that a command makes; RedisBloom 8 takes this for any above it.
pub const COMMAND_ERROR_RATE_MAX: f64 = 0.25;
/// Largest capacity that RedisBloom 8 takes in a command.
pub const COMMAND_CAPACITY_MAX_ITEMS: u64 = 1 << 30;

/// Bytes of RedisBloom's struct of a chain (8.0 on a 64-bit host).
const CHAIN_STRUCT_BYTES: u64 = 32;
/// Bytes of RedisBloom's struct of a layer (8.0 on a 64-bit host).
const LAYER_STRUCT_BYTES: u64 = 64;
