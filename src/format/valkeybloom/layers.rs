//! The layers of valkey-bloom's filters in its encodings.

use serde::Deserialize;

use crate::stream::{DecodeError, checked_layers, read};
use everbloom_filter::bits::HEAD_VERSION;
use everbloom_filter::bits::layout::Prime;
use everbloom_filter::filter::policy::ValkeyBloom;
use everbloom_filter::hash::siphash::{SEED_BYTES, Seed};
use everbloom_filter::limits::LAYER_MAX_BYTES;
use everbloom_filter::{
    ByteLimit, Filter, Footprint, Growth, Hash, Layer, LayerSpec, Layout, Placement, Policy,
};

/// The [head](everbloom_filter::bits::HEAD_BYTES) of a slice: the fields before its bits.
#[derive(Deserialize)]
struct SliceHead {
    version: u8,
    size_bytes: u64,
    probes: u32,
    seed: [u8; SEED_BYTES],
}

/// Returns the slice of a layer: its head and its bits.
#[expect(
    clippy::expect_used,
    reason = "`Policy::validate` checks that each layer of such a filter has a head"
)]
pub(super) fn slice_of(layer: &Layer) -> &[u8] {
    layer.bits().head_and_bytes().expect("a head")
}

/// A slice. Its bits are not copied yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice<'a> {
    /// Probes per item; not checked yet.
    pub(super) probes: u32,
    /// The seed of the hashes.
    pub(super) seed: [u8; SEED_BYTES],
    /// The bits, least significant first.
    pub(super) bits: &'a [u8],
}

impl<'a> Slice<'a> {
    /// Reads a slice. The length of the bits must equal `size_bytes` of the head. Allocates nothing.
    pub(super) fn decode(mut bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let SliceHead { version, size_bytes, probes, seed } = read(&mut bytes)?;
        if version != HEAD_VERSION {
            return Err(DecodeError::unsupported("version of a layer", version));
        }
        if size_bytes != bytes.len() as u64 {
            return Err(DecodeError::Invalid("length of a layer"));
        }
        Ok(Self { probes, seed, bits: bytes })
    }
}

/// Returns the seed of a filter, which is the same in all layers.
pub(super) fn seed_of(layers: &[Layer]) -> Seed {
    match layers.first().map(Layer::hash) {
        Some(Hash::ValkeyBloom(seed)) => *seed,
        _ => Seed::FIXED,
    }
}

/// The fields of a filter that come before its layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilterFields {
    /// Number of layers.
    pub(super) layers: u64,
    /// Expansion, 0 for a fixed filter.
    pub(super) expansion: u64,
    /// Error rate of the first layer.
    pub(super) error_rate: f64,
    /// Tightening ratio.
    pub(super) tightening_ratio: f64,
    /// 1 with a random seed, 0 with the fixed one.
    pub(super) is_seed_random: u64,
}

/// Builds a filter layer by layer. Checks every field before it is used, and all sizes before memory is allocated.
pub(super) struct Builder<'l> {
    layer_count: usize,
    /// The policy, with a capacity of 1. The capacity of the filter is not known before the first layer is read.
    policy: ValkeyBloom,
    pub(super) is_seed_random: bool,
    pub(super) layers: Vec<Layer>,
    footprint: Footprint,
    limit: &'l dyn ByteLimit,
}

impl<'l> Builder<'l> {
    /// Checks the fields of the filter.
    pub(super) fn new(fields: FilterFields, limit: &'l dyn ByteLimit) -> Result<Self, DecodeError> {
        let FilterFields { layers, expansion, error_rate, tightening_ratio, is_seed_random } = fields;
        let layer_count = checked_layers(layers, 1)?;
        let expansion = u32::try_from(expansion).map_err(|_| DecodeError::Invalid("expansion"))?;
        let growth = Growth::from_expansion(expansion);
        let policy = ValkeyBloom { error_rate, tightening_ratio, capacity_items: 1, growth };
        policy.validate().map_err(DecodeError::Invalid)?;
        if is_seed_random > 1 {
            return Err(DecodeError::Invalid("seed mark"));
        }
        Ok(Self {
            layer_count,
            policy,
            is_seed_random: is_seed_random == 1,
            layers: Vec::with_capacity(layer_count),
            footprint: Footprint::default(),
            limit,
        })
    }

    /// Returns whether the next layer is the last. All layers before the last are full.
    pub(super) fn is_at_last(&self) -> bool {
        self.layers.len() == self.layer_count.saturating_sub(1)
    }

    /// Adds a layer for a slice. `fill` writes the bits of the slice to the layer.
    pub(super) fn push(
        &mut self,
        slice: &Slice<'_>,
        capacity_items: u64,
        items: u64,
        fill: fn(&mut Layer, &[u8]) -> bool,
    ) -> Result<(), DecodeError> {
        let seed = Seed::marked(slice.seed, self.is_seed_random)
            .filter(|seed| self.layers.is_empty() || seed_of(&self.layers) == *seed);
        let seed = seed.ok_or(DecodeError::Invalid("seed"))?;
        let size_bytes = slice.bits.len() as u64;
        if !(1..=LAYER_MAX_BYTES).contains(&size_bytes) {
            return Err(DecodeError::Invalid("length of a layer"));
        }
        let size_bits = size_bytes.saturating_mul(8);
        let layout = Prime::new(slice.probes, size_bits).ok_or(DecodeError::Invalid("probes"))?;
        let placement = Placement::new(Hash::ValkeyBloom(seed), Layout::Prime(layout));
        let spec = LayerSpec { placement, size_bits, capacity_items, has_head: true };
        self.footprint = self.footprint.with_layer_spec(&spec);
        self.footprint.check(self.limit)?;
        let mut layer = Layer::try_new(spec)?;
        if !fill(&mut layer, slice.bits) {
            return Err(DecodeError::Invalid("length of a layer"));
        }
        layer.set_items(items);
        self.layers.push(layer);
        Ok(())
    }

    /// Returns the filter of the layers. [`Filter::from_parts`] checks the remaining fields.
    pub(super) fn finish(self) -> Result<Filter, DecodeError> {
        let first = self.layers.first().ok_or(DecodeError::Truncated)?;
        let policy = ValkeyBloom { capacity_items: first.capacity_items(), ..self.policy };
        let policy = Policy::ValkeyBloom(Box::new(policy));
        Filter::from_parts(policy, self.layers, None).map_err(DecodeError::Invalid)
    }
}

/// Sets the bits of a slice.
pub(super) fn fill(layer: &mut Layer, bits: &[u8]) -> bool {
    layer.bits_mut().add_bytes(0, bits)
}
