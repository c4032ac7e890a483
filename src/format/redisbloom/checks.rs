//! What the fields of a snapshot and of a dumped header are both held to.

use crate::bloom::cells::CellState;
use crate::bloom::layout::{LayerParameters, Modulo};
use crate::bloom::limits::LAYERS_MAX;
use crate::bloom::policy::RedisBloom;
use crate::bloom::policy::redisbloom::Options;
use crate::bloom::{ByteLimit, Extent, Filter, Hash, Layer, LayerSpec, Layout, Placement, Policy};
use crate::format::stream::DecodeError;

/// Returns the number of layers, if there can be so many.
pub(super) fn checked_layers(layers: u64) -> Result<usize, DecodeError> {
    usize::try_from(layers)
        .ok()
        .filter(|layers| (1..=LAYERS_MAX).contains(layers))
        .ok_or(DecodeError::Invalid("layer count"))
}

/// Returns the options, if all of their bits are known.
pub(super) fn checked_options(bits: u64) -> Result<Options, DecodeError> {
    Options::from_bits(bits).ok_or(DecodeError::Unsupported { what: "options", got: bits })
}

/// Sums over the layers of one filter that is being read.
#[derive(Default)]
pub(super) struct Totals {
    items: u64,
    extent: Extent,
}

impl Totals {
    /// Returns the extent with one more layer, if the filter may have it.
    pub(super) fn with_layer(
        &self,
        size_bytes: u64,
        probes: u32,
        limit: &dyn ByteLimit,
    ) -> Result<Extent, DecodeError> {
        let extent = self.extent.and_layer(size_bytes, probes);
        extent.check(limit)?;
        Ok(extent)
    }

    /// Adds a layer with its items, if the filter may have them. Returns the items that the layer can have taken.
    pub(super) fn add(
        &mut self,
        size_bytes: u64,
        probes: u32,
        items: u64,
        limit: &dyn ByteLimit,
    ) -> Result<u64, DecodeError> {
        self.extent = self.with_layer(size_bytes, probes, limit)?;
        let sum = self.items.checked_add(items).filter(|sum| *sum <= Modulo::ITEMS_MAX);
        self.items = sum.ok_or(DecodeError::Invalid("items of the layers"))?;
        // Each has set a bit that was clear. RedisBloom does not check that, so its dumps and files may say more.
        Ok(items.min(size_bytes.saturating_mul(8)))
    }

    /// Checks that the layers have as many items as the filter says.
    pub(super) fn check_items(&self, items: u64) -> Result<(), DecodeError> {
        if self.items == items { Ok(()) } else { Err(DecodeError::Invalid("items")) }
    }
}

/// Returns the layer with these parameters in an array of so many bytes, if there can be one.
pub(super) fn layer_spec(
    parameters: &LayerParameters,
    size_bytes: u64,
    options: Options,
) -> Result<LayerSpec, DecodeError> {
    let layout = parameters.layout(size_bytes).map_err(DecodeError::Invalid)?;
    Ok(LayerSpec {
        placement: Placement::new(Hash::RedisBloom(options.hash()), Layout::Modulo(layout)),
        cells: CellState::Bits,
        size_bits: size_bytes.saturating_mul(8),
        capacity_items: parameters.capacity_items,
        has_head: false,
    })
}

/// Returns the filter of these layers.
pub(super) fn filter_of(options: Options, growth: u32, layers: Vec<Layer>) -> Result<Filter, DecodeError> {
    let policy = layers.first().and_then(|first| RedisBloom::of_first_layer(options, growth, first));
    let policy = policy.ok_or(DecodeError::Invalid("layers"))?;
    Filter::from_layers(Policy::RedisBloom(Box::new(policy)), layers).map_err(DecodeError::Invalid)
}
