//! What the fields of a snapshot and of a dumped header are both held to.

use crate::bloom::limits::LAYERS_MAX;
use crate::bloom::redisbloom::probing::ITEMS_MAX;
use crate::bloom::redisbloom::{ModuloProbing, Options};
use crate::bloom::{ByteLimit, Extent, LayerPlan, Probes, RedisBloom};
use crate::format::record::DecodeError;

/// The number of layers, if there can be so many.
pub(super) fn checked_layers(layers: u64) -> Result<usize, DecodeError> {
    usize::try_from(layers)
        .ok()
        .filter(|layers| (1..=LAYERS_MAX).contains(layers))
        .ok_or(DecodeError::Invalid("layer count"))
}

/// The options, if all of their bits are known.
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
    /// The extent with one more layer, if the filter may have it.
    pub(super) fn with_layer(
        &self,
        size_bytes: u64,
        probes: u32,
        limit: &dyn ByteLimit,
    ) -> Result<Extent, DecodeError> {
        let extent = self.extent.and_layer(size_bytes, probes);
        extent.check::<RedisBloom>(limit)?;
        Ok(extent)
    }

    /// Adds a layer with its items, if the filter may have them. Returns the items that the layer can have taken.
    pub(super) fn add(
        &mut self,
        plan: &LayerPlan<ModuloProbing>,
        items: u64,
        limit: &dyn ByteLimit,
    ) -> Result<u64, DecodeError> {
        self.extent = self.with_layer(plan.size_bits / 8, plan.placement.probes(), limit)?;
        let sum = self.items.checked_add(items).filter(|sum| *sum <= ITEMS_MAX);
        self.items = sum.ok_or(DecodeError::Invalid("items of the layers"))?;
        // Each has set a bit that was clear. RedisBloom does not check that, so its dumps and files may say more.
        Ok(items.min(plan.size_bits))
    }

    /// Whether the layers have as many items as the filter says.
    pub(super) fn check_items(&self, items: u64) -> Result<(), DecodeError> {
        if self.items == items { Ok(()) } else { Err(DecodeError::Invalid("items")) }
    }
}
