//! The encodings of valkey-bloom: the values of its data type in a snapshot and the blob of its BF.LOAD.
//!
//! The encodings of its older releases are read; the newest is written. valkey-bloom has no commands for dumps, so in
//! dumps its filters have [everbloom's record](super::record). docs/formats.md has every byte.
//!
//! A layer is the same string in snapshots and blobs, a slice: a header and then the bits. All numbers are
//! little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | version: 1 |
//! | 1..9 | length of the bits, in bytes |
//! | 9..13 | probes per item |
//! | 13..45 | the seed of the hashes, the same in all layers |
//! | 45.. | the bits; bit i is bit i % 8, least significant first, of byte i / 8 |
//!
//! Capacity and items are separate fields. Version 0 of the data type (valkey-bloom 0.1.0) had no such header.

mod blob;
mod rdb;

use super::stream::DecodeError;
use crate::bloom::bits::layout::Prime;
use crate::bloom::filter::policy::ValkeyBloom;
use crate::bloom::hash::siphash::{SEED_BYTES, Seed};
use crate::bloom::limits::{LAYER_MAX_BYTES, LAYERS_MAX};
use crate::bloom::{ByteLimit, Filter, Footprint, Growth, Hash, Layer, LayerSpec, Layout, Placement, Policy};

pub use blob::{decode as decode_blob, encode as encode_blob};
pub use rdb::{load, save};

/// Bytes of a slice before the bits.
const SLICE_HEADER_BYTES: usize = 1 + 8 + 4 + SEED_BYTES;
/// Version of the header of a slice.
const SLICE_VERSION: u8 = 1;

/// The fields of a slice. Its bits are not copied yet.
#[derive(Clone, Copy, Debug)]
struct Slice<'a> {
    /// Probes per item; not checked yet.
    probes: u32,
    /// The seed of the hashes.
    seed: [u8; SEED_BYTES],
    /// The bits, least significant first.
    bits: &'a [u8],
}

impl<'a> Slice<'a> {
    /// Reads a slice. The length of the bits must be that of the header. Allocates nothing.
    fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, rest) = bytes.split_first_chunk::<1>().ok_or(DecodeError::Truncated)?;
        if *version != [SLICE_VERSION] {
            return Err(DecodeError::Unsupported {
                what: "version of a layer",
                got: u8::from_le_bytes(*version).into(),
            });
        }
        let (size_bytes, rest) = rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
        let (probes, rest) = rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
        let (seed, bits) = rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
        if u64::from_le_bytes(*size_bytes) != bits.len() as u64 {
            return Err(DecodeError::Invalid("length of a layer"));
        }
        Ok(Self { probes: u32::from_le_bytes(*probes), seed: *seed, bits })
    }

    /// Returns the fields of the layer.
    fn fields(&self, capacity_items: u64, items: u64) -> LayerFields {
        let size_bytes = self.bits.len() as u64;
        LayerFields { size_bytes, probes: self.probes, capacity_items, items }
    }
}

/// Returns the seed of a filter, which all of its layers have.
fn seed_of(layers: &[Layer]) -> Seed {
    match layers.first().map(Layer::hash) {
        Some(Hash::ValkeyBloom(seed)) => *seed,
        _ => Seed::FIXED,
    }
}

/// Returns the header of the slice of a layer.
fn slice_header(layer: &Layer, seed: &[u8; SEED_BYTES]) -> [u8; SLICE_HEADER_BYTES] {
    let size_bytes = layer.bits().size_bytes().to_le_bytes();
    let probes = layer.layout().probes().to_le_bytes();
    let mut header = [SLICE_VERSION; SLICE_HEADER_BYTES];
    let fields = size_bytes.iter().chain(&probes).chain(seed);
    header.iter_mut().skip(1).zip(fields).for_each(|(to, from)| *to = *from);
    header
}

/// The fields of a filter that come before its layers.
#[derive(Clone, Copy, Debug)]
struct FilterFields {
    /// Number of layers.
    layers: u64,
    /// Expansion, 0 for a fixed filter.
    expansion: u64,
    /// Error rate of the first layer.
    error_rate: f64,
    /// Tightening ratio.
    tightening_ratio: f64,
}

/// The fields of a layer besides its bits and seed.
#[derive(Clone, Copy, Debug)]
struct LayerFields {
    size_bytes: u64,
    probes: u32,
    capacity_items: u64,
    items: u64,
}

/// Builds a filter layer by layer. Checks every field before it is used, and all sizes before memory is allocated.
struct Builder<'l> {
    fields: FilterFields,
    growth: Growth,
    seed: Option<Seed>,
    layers: Vec<Layer>,
    footprint: Footprint,
    limit: &'l dyn ByteLimit,
}

impl<'l> Builder<'l> {
    /// Checks the fields of the filter.
    fn new(fields: FilterFields, limit: &'l dyn ByteLimit) -> Result<Self, DecodeError> {
        let layers = usize::try_from(fields.layers).ok().filter(|layers| (1..=LAYERS_MAX).contains(layers));
        if layers.is_none() {
            return Err(DecodeError::Invalid("layer count"));
        }
        let expansion = u32::try_from(fields.expansion).map_err(|_| DecodeError::Invalid("expansion"))?;
        let builder = Self {
            fields,
            growth: Growth::from_expansion(expansion),
            seed: None,
            layers: Vec::new(),
            footprint: Footprint::default(),
            limit,
        };
        builder.policy(1).validate().map_err(DecodeError::Invalid)?;
        Ok(builder)
    }

    /// Returns whether the next layer is the last one, which is the only one that need not be full.
    fn is_at_last(&self) -> bool {
        self.layers.len() as u64 == self.fields.layers.saturating_sub(1)
    }

    /// Adds a layer whose bits `fill` writes.
    fn push(
        &mut self,
        fields: LayerFields,
        seed: Seed,
        fill: impl FnOnce(&mut Layer) -> bool,
    ) -> Result<(), DecodeError> {
        if *self.seed.get_or_insert(seed) != seed {
            return Err(DecodeError::Invalid("seed"));
        }
        let mut layer = Layer::try_new(self.check(fields, seed)?).map_err(|_| DecodeError::OutOfMemory)?;
        if !fill(&mut layer) {
            return Err(DecodeError::Invalid("length of a layer"));
        }
        layer.set_items(fields.items);
        self.layers.try_reserve(1).map_err(|_| DecodeError::OutOfMemory)?;
        self.layers.push(layer);
        Ok(())
    }

    /// Returns the filter, which must have all of its layers.
    fn finish(self) -> Result<Filter, DecodeError> {
        let first = self.layers.first().ok_or(DecodeError::Truncated)?;
        if self.layers.len() as u64 != self.fields.layers {
            return Err(DecodeError::Truncated);
        }
        let policy = Policy::ValkeyBloom(Box::new(self.policy(first.capacity_items())));
        Filter::from_parts(policy, self.layers, None).map_err(DecodeError::Invalid)
    }

    fn policy(&self, capacity_items: u64) -> ValkeyBloom {
        let FilterFields { error_rate, tightening_ratio, .. } = self.fields;
        ValkeyBloom { error_rate, tightening_ratio, capacity_items, growth: self.growth }
    }

    /// Checks the fields that determine the memory. The filter checks the others.
    fn check(&mut self, fields: LayerFields, seed: Seed) -> Result<LayerSpec, DecodeError> {
        let LayerFields { size_bytes, probes, capacity_items, .. } = fields;
        let size_bits = size_bytes.checked_mul(8).filter(|_| (1..=LAYER_MAX_BYTES).contains(&size_bytes));
        let size_bits = size_bits.ok_or(DecodeError::Invalid("length of a layer"))?;
        let layout = Layout::Prime(Prime::new(probes, size_bits).ok_or(DecodeError::Invalid("probes"))?);
        self.footprint = self.footprint.and_layer(size_bytes, probes);
        self.footprint.check(self.limit)?;
        let placement = Placement::new(Hash::ValkeyBloom(seed), layout);
        Ok(LayerSpec { placement, size_bits, capacity_items, has_head: true })
    }
}
