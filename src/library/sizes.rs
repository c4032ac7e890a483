//! What a filter will take, in each format, before there is one.

use super::{CreateError, Options as Reserved};
use crate::bloom::limits::LAYERS_MAX;
use crate::bloom::redisbloom::{Options, plan::layer_plan};
use crate::bloom::valkeybloom::{self, sizing::Rounding};
use crate::bloom::window::WindowShape;
use crate::bloom::{Everbloom, Format, LayerShape, Layout, Probes, ReserveError, Window};

/// What one layer of a filter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerSize {
    /// Items that it holds.
    pub capacity_items: u64,
    /// Bits of its array.
    pub size_bits: u64,
    /// Probes per item.
    pub probes: u32,
    /// Lines of 64 bytes that the probes of an item lie in, at most.
    pub lines: u32,
}

/// The layers that a filter has once it holds `items` different items, the oldest first. O(layers).
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
    let Reserved { error_rate, capacity_items, growth } = reserved;
    let family = Everbloom { error_rate, capacity_items, growth };
    family.validate().map_err(CreateError::Option)?;
    let mut sizes: Vec<LayerSize> = Vec::new();
    let mut held_items = 0u64;
    while sizes.is_empty() || held_items < items {
        if (growth.is_fixed_size() && !sizes.is_empty()) || sizes.len() >= LAYERS_MAX {
            return Err(CreateError::Reserve(ReserveError::TooLong));
        }
        let before = sizes.last().map(|layer| layer.capacity_items);
        let size = match format {
            Format::Everbloom => everbloom(family, sizes.len(), before),
            Format::RedisBloom => redisbloom(family, sizes.len(), before),
            Format::ValkeyBloom => valkeybloom(family, sizes.len(), before),
        };
        let size = size.map_err(CreateError::Reserve)?;
        held_items = held_items.saturating_add(size.capacity_items);
        sizes.push(size);
    }
    Ok(sizes)
}

/// The layers of a filter with a window that takes `items` different items in every window at an even pace, once that
/// has lasted for some windows: of those that it has outgrown it keeps none. With capacities of items per
/// window; how long the window is makes no difference. O(layers^2).
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
    let Reserved { error_rate, capacity_items, growth } = reserved;
    let family = Everbloom { error_rate, capacity_items, growth };
    family.validate().map_err(CreateError::Option)?;
    let shapes = Window::shapes_at_pace(family, items).map_err(CreateError::Reserve)?;
    let size = |shape: &WindowShape| {
        let WindowShape { layout, probes, capacity_items, .. } = *shape;
        LayerSize { capacity_items, size_bits: shape.size_bits(), probes, lines: lines_of(layout, probes) }
    };
    Ok(shapes.iter().map(size).collect())
}

fn lines_of(layout: Layout, probes: u32) -> u32 {
    match layout {
        Layout::Scattered => probes,
        Layout::Paged { lines } => lines.into(),
    }
}

fn everbloom(family: Everbloom, index: usize, before: Option<u64>) -> Result<LayerSize, ReserveError> {
    let (capacity_items, error_rate) = family.layer_parameters(index, before)?;
    let LayerShape { layout, probes, size_bits, capacity_items } =
        LayerShape::sized(capacity_items, error_rate);
    Ok(LayerSize { capacity_items, size_bits, probes, lines: lines_of(layout, probes) })
}

fn redisbloom(family: Everbloom, index: usize, before: Option<u64>) -> Result<LayerSize, ReserveError> {
    // Half of the rate for the first layer of a filter that grows, and half of the one before for each later.
    let halvings = if family.growth.is_fixed_size() { 0 } else { index.saturating_add(1) };
    let error_rate = valkeybloom::sizing::layer_error_rate(family.error_rate, 0.5, halvings)
        .ok_or(ReserveError::ErrorRateVanishes)?;
    let plan = next_capacity(family, before)
        .and_then(|capacity_items| layer_plan(capacity_items, error_rate, Options::SCALING))
        .ok_or(ReserveError::TooLong)?;
    let probes = plan.placement.probes();
    Ok(LayerSize { capacity_items: plan.capacity_items, size_bits: plan.size_bits, probes, lines: probes })
}

fn valkeybloom(family: Everbloom, index: usize, before: Option<u64>) -> Result<LayerSize, ReserveError> {
    let capacity_items = next_capacity(family, before).ok_or(ReserveError::TooLong)?;
    let ratio = valkeybloom::TIGHTENING_RATIO_DEFAULT;
    let error_rate = valkeybloom::sizing::layer_error_rate(family.error_rate, ratio, index)
        .ok_or(ReserveError::ErrorRateVanishes)?;
    let size_bits = valkeybloom::sizing::layer_size_bytes(capacity_items, error_rate).saturating_mul(8);
    let probes = valkeybloom::sizing::probes(size_bits, capacity_items, Rounding::Nearest);
    Ok(LayerSize { capacity_items, size_bits, probes, lines: probes })
}

/// Items of the layer behind one of `before` items.
fn next_capacity(family: Everbloom, before: Option<u64>) -> Option<u64> {
    before.map_or(Some(family.capacity_items), |items| items.checked_mul(family.growth.expansion().into()))
}
