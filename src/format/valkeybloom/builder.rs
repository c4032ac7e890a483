//! Where every reader of valkey-bloom's bytes ends: fields in, a checked filter out.

use crate::bloom::limits::{LAYER_MAX_BYTES, LAYERS_MAX};
use crate::bloom::valkeybloom::{Seed, SipProbing, ValkeyBloom};
use crate::bloom::{ByteLimit, Chain, Extent, Growth, Layer, LayerPlan, OutOfMemory};
use crate::format::record::DecodeError;

/// A filter of valkey-bloom.
pub type ValkeyChain = Chain<ValkeyBloom>;

/// The fields of a filter that come before its layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilterFields {
    /// Number of layers.
    pub(super) layers: u64,
    /// Growth factor, 0 for a fixed filter.
    pub(super) expansion: u64,
    /// Error rate of the first layer.
    pub(super) error_rate: f64,
    /// Tightening ratio.
    pub(super) tightening_ratio: f64,
}

/// The fields of a layer beside its bits and seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerFields {
    pub(super) size_bytes: u64,
    pub(super) probes: u32,
    pub(super) capacity_items: u64,
    pub(super) items: u64,
}

/// Builds a filter layer by layer, checking every field before it is used and all sizes before memory is
/// taken.
pub(super) struct Builder<'l> {
    fields: FilterFields,
    growth: Growth,
    seed: Option<Seed>,
    layers: Vec<Layer<SipProbing>>,
    extent: Extent,
    limit: &'l dyn ByteLimit,
}

impl<'l> Builder<'l> {
    /// Checks the fields of the filter.
    pub(super) fn new(fields: FilterFields, limit: &'l dyn ByteLimit) -> Result<Self, DecodeError> {
        let layers = usize::try_from(fields.layers).ok().filter(|layers| (1..=LAYERS_MAX).contains(layers));
        if layers.is_none() {
            return Err(DecodeError::Invalid("layer count"));
        }
        let expansion = u32::try_from(fields.expansion).map_err(|_| DecodeError::Invalid("expansion"))?;
        Ok(Self {
            fields,
            growth: Growth::from_expansion(expansion),
            seed: None,
            layers: Vec::new(),
            extent: Extent::default(),
            limit,
        })
    }

    /// Whether the layer that comes next is the last: the only one that need not be full.
    pub(super) fn is_at_last(&self) -> bool {
        self.layers.len() as u64 == self.fields.layers.saturating_sub(1)
    }

    /// Adds a layer whose bits `fill` writes.
    pub(super) fn push(
        &mut self,
        fields: LayerFields,
        seed: Seed,
        fill: impl FnOnce(&mut Layer<SipProbing>) -> bool,
    ) -> Result<(), DecodeError> {
        if *self.seed.get_or_insert(seed) != seed {
            return Err(DecodeError::Invalid("seed"));
        }
        let mut plan = self.plan(fields)?;
        plan.placement = plan.placement.with_equal_hashes(seed.has_equal_halves());
        let mut layer = Layer::try_new(plan).map_err(|OutOfMemory| DecodeError::OutOfMemory)?;
        if !fill(&mut layer) {
            return Err(DecodeError::Invalid("length of a layer"));
        }
        layer.set_items(fields.items);
        self.layers.try_reserve(1).map_err(|_| DecodeError::OutOfMemory)?;
        self.layers.push(layer);
        Ok(())
    }

    /// The filter, all of its layers being there.
    pub(super) fn finish(mut self) -> Result<ValkeyChain, DecodeError> {
        self.layers.shrink_to_fit();
        let (Some(first), Some(seed)) = (self.layers.first(), self.seed) else {
            return Err(DecodeError::Truncated);
        };
        if self.layers.len() as u64 != self.fields.layers {
            return Err(DecodeError::Truncated);
        }
        let FilterFields { error_rate, tightening_ratio, .. } = self.fields;
        let capacity_items = first.capacity_items();
        let parameters =
            ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth: self.growth, seed };
        ValkeyChain::from_layers(parameters, self.layers).map_err(DecodeError::Invalid)
    }

    fn plan(&mut self, fields: LayerFields) -> Result<LayerPlan<SipProbing>, DecodeError> {
        let LayerFields { size_bytes, probes, capacity_items, .. } = fields;
        let size_bits = size_bytes.checked_mul(8).filter(|_| (1..=LAYER_MAX_BYTES).contains(&size_bytes));
        let size_bits = size_bits.ok_or(DecodeError::Invalid("length of a layer"))?;
        let placement = SipProbing::new(probes, size_bits).ok_or(DecodeError::Invalid("probes"))?;
        self.extent = self.extent.and_layer(size_bytes, probes);
        self.extent.check::<ValkeyBloom>(self.limit)?;
        Ok(LayerPlan { placement, size_bits, capacity_items, has_head: true })
    }
}
