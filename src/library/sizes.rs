//! The sizes of the layers that a filter of each format will have.

use super::{CreateError, Options as Reserved};
use crate::bloom::hash::siphash::Seed;
use crate::bloom::limits::LAYERS_MAX;
use crate::bloom::policy::redisbloom::{Options, RESERVED_GROWTH};
use crate::bloom::policy::valkeybloom::TIGHTENING_RATIO_DEFAULT;
use crate::bloom::policy::{RedisBloom, ValkeyBloom};
use crate::bloom::sizing::Shape;
use crate::bloom::window::{shapes_at_once, shapes_at_pace};
use crate::bloom::{CellType, Format, Hash, Layout, Policy, Promise, ReserveError};

/// The size of one layer of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerSize {
    /// Its capacity.
    pub capacity_items: u64,
    /// Bits of its array.
    pub size_bits: u64,
    /// Probes per item.
    pub probes: u32,
    /// The largest number of lines of 64 bytes that the probes of an item touch.
    pub lines: u32,
}

/// Returns the layers that a filter has once it holds `items` different items, the oldest first. O(layers).
///
/// ```
/// use everbloom::{Format, Options, layer_sizes};
///
/// let options = Options { error_rate: 0.01, capacity_items: 1000, ..Options::default() };
/// let ours = layer_sizes(Format::Everbloom, options, 3000)?;
/// assert_eq!(ours.iter().map(|layer| layer.capacity_items).collect::<Vec<_>>(), [1000, 2000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`CreateError`], also where the filter would refuse some of the items.
pub fn layer_sizes(format: Format, reserved: Reserved, items: u64) -> Result<Vec<LayerSize>, CreateError> {
    let promise = reserved.promise()?;
    let (policy, hash) = policy_of(format, promise);
    let growth = promise.growth;
    let mut sizes: Vec<LayerSize> = Vec::new();
    let mut held_items = 0u64;
    while sizes.is_empty() || held_items < items {
        if (growth.is_fixed_size() && !sizes.is_empty()) || sizes.len() >= LAYERS_MAX {
            return Err(CreateError::Reserve(ReserveError::TooLong));
        }
        let before = sizes.last().map(|layer| layer.capacity_items);
        let parameters = policy.layer_parameters(sizes.len(), before);
        let layer = parameters.and_then(|parameters| policy.sized_layer(parameters, hash, CellType::Bits));
        let layer = layer.map_err(CreateError::Reserve)?;
        let size = size_of(layer.capacity_items, layer.size_bits, layer.placement.layout());
        held_items = held_items.saturating_add(size.capacity_items);
        sizes.push(size);
    }
    Ok(sizes)
}

/// Returns the layers of a sliding-window filter after some windows, if `items` different items are added in every
/// window at an even pace. Layers that were too small have expired by then. Capacities are items per window; the
/// length of the window makes no difference. O(layers^2).
///
/// ```
/// use everbloom::{Options, window_layer_sizes};
///
/// let options = Options { capacity_items: 100_000, ..Options::default() };
/// let reserved = window_layer_sizes(options, 100_000)?;
/// assert_eq!((reserved.len(), reserved[0].size_bits / 100_000), (1, 17));
/// let grown = window_layer_sizes(Options::default(), 100_000)?;
/// assert!(grown[0].capacity_items > 100_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`CreateError`], also where the filter would refuse some of the items.
pub fn window_layer_sizes(reserved: Reserved, items: u64) -> Result<Vec<LayerSize>, CreateError> {
    let shapes = shapes_at_pace(&reserved.promise()?, items).map_err(CreateError::Reserve)?;
    Ok(sizes_of(&shapes))
}

/// Returns the layers of a new sliding-window filter after `items` different items are added at one time. The layers
/// that only this burst needs are freed when its items have expired. O(layers^2).
///
/// ```
/// use everbloom::{Options, window_burst_layer_sizes, window_layer_sizes};
///
/// let options = Options { capacity_items: 100_000, ..Options::default() };
/// let bits = |layers: Vec<everbloom::LayerSize>| layers.iter().map(|layer| layer.size_bits).sum::<u64>();
/// let at_once = bits(window_burst_layer_sizes(options, 100_000)?);
/// let at_pace = bits(window_layer_sizes(options, 100_000)?);
/// assert!(at_once > at_pace && at_once < 3 * at_pace);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`CreateError`], also where the filter would refuse some of the items.
pub fn window_burst_layer_sizes(reserved: Reserved, items: u64) -> Result<Vec<LayerSize>, CreateError> {
    let shapes = shapes_at_once(&reserved.promise()?, items).map_err(CreateError::Reserve)?;
    Ok(sizes_of(&shapes))
}

fn sizes_of(shapes: &[Shape]) -> Vec<LayerSize> {
    let size = |shape: &Shape| size_of(shape.capacity_items, shape.size_bits(), shape.layout());
    shapes.iter().map(size).collect()
}

fn size_of(capacity_items: u64, size_bits: u64, layout: Layout) -> LayerSize {
    LayerSize { capacity_items, size_bits, probes: layout.probes(), lines: layout.lines() }
}

/// Returns the policy of a filter of a format with this promise, and a hash of such filters.
fn policy_of(format: Format, promise: Promise) -> (Policy, Hash) {
    let Promise { error_rate, capacity_items, growth } = promise;
    match format {
        Format::Everbloom => (Policy::Promise(promise), Hash::Murmur3),
        Format::RedisBloom => {
            let (options, expansion) = match growth.is_fixed_size() {
                true => (Options::FIXED, RESERVED_GROWTH),
                false => (Options::SCALING, growth.expansion()),
            };
            let policy = RedisBloom::new(error_rate, capacity_items, options, expansion);
            (Policy::RedisBloom(Box::new(policy)), Hash::RedisBloom(options.hash()))
        }
        Format::ValkeyBloom => {
            let tightening_ratio = TIGHTENING_RATIO_DEFAULT;
            let growth = growth.reserved();
            let policy = ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth };
            (Policy::ValkeyBloom(Box::new(policy)), Hash::ValkeyBloom(Seed::FIXED))
        }
    }
}
