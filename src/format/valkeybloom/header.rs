//! The header of a filter of valkey-bloom's kind in the pieces of BF.SCANDUMP and BF.LOADCHUNK. valkey-bloom
//! has no such commands, so it is one of ours.

use serde::{Deserialize, Serialize};

use super::builder::{Builder, FilterFields, LayerFields, ValkeyChain};
use crate::bloom::valkeybloom::{SEED_BYTES, Seed};
use crate::bloom::{ByteLimit, Origin, Probes};
use crate::format::envelope::{Kind, Opening};
use crate::format::fields::{append, read};
use crate::format::record::DecodeError;

/// Bytes of the part that every header has.
const CHAIN_HEADER_BYTES: usize = 72;
/// Bytes of the part that a header has once per layer.
const LAYER_HEADER_BYTES: usize = 32;

#[derive(Serialize, Deserialize)]
struct ChainHeader {
    opening: Opening,
    expansion: u32,
    error_rate: f64,
    tightening_ratio: f64,
    seed: [u8; SEED_BYTES],
    is_seed_random: u64,
}

#[derive(Serialize, Deserialize)]
struct LayerHeader {
    size_bytes: u64,
    capacity_items: u64,
    items: u64,
    probes: u64,
}

/// The header of a filter. O(layers).
#[must_use]
pub fn encode(chain: &ValkeyChain) -> Vec<u8> {
    let family = chain.family();
    let mut bytes = Vec::new();
    let header = ChainHeader {
        opening: Opening::new(Kind::ValkeyBloom, chain.layers().len()),
        expansion: family.growth.expansion(),
        error_rate: family.error_rate,
        tightening_ratio: family.tightening_ratio,
        seed: *family.seed.bytes(),
        is_seed_random: family.seed.is_random().into(),
    };
    append(&mut bytes, &header);
    for layer in chain.layers() {
        let header = LayerHeader {
            size_bytes: layer.bits().size_bytes(),
            capacity_items: layer.capacity_items(),
            items: layer.counts().items,
            probes: layer.placement().probes().into(),
        };
        append(&mut bytes, &header);
    }
    bytes
}

/// An empty filter of the shape that a header describes, which is its `origin`. O(layers).
///
/// # Errors
/// [`DecodeError`] for a header that is not possible, or larger than `limit` allows.
pub fn build(bytes: &[u8], origin: Origin, limit: &dyn ByteLimit) -> Result<ValkeyChain, DecodeError> {
    let (chain_bytes, layer_bytes) =
        bytes.split_at_checked(CHAIN_HEADER_BYTES).ok_or(DecodeError::Truncated)?;
    let header: ChainHeader = read(chain_bytes)?;
    let (layers, rest) = layer_bytes.as_chunks::<LAYER_HEADER_BYTES>();
    header.opening.check(Kind::ValkeyBloom, layers.len())?;
    if !rest.is_empty() {
        return Err(DecodeError::Invalid("header length"));
    }
    let seed = Seed::marked(header.seed, header.is_seed_random == 1).ok_or(DecodeError::Invalid("seed"))?;
    let mut builder = Builder::new(header.fields(), limit)?;
    for bytes in layers {
        let layer: LayerHeader = read(bytes)?;
        builder.push(layer.fields()?, seed, |_| true)?;
    }
    let mut chain = builder.finish()?;
    // It does not say how many bits are set.
    chain.set_origin(origin, None);
    Ok(chain)
}

impl ChainHeader {
    fn fields(&self) -> FilterFields {
        FilterFields {
            layers: self.opening.layer_count().into(),
            expansion: self.expansion.into(),
            error_rate: self.error_rate,
            tightening_ratio: self.tightening_ratio,
        }
    }
}

impl LayerHeader {
    fn fields(&self) -> Result<LayerFields, DecodeError> {
        let Self { size_bytes, capacity_items, items, probes } = *self;
        let probes = u32::try_from(probes).map_err(|_| DecodeError::Invalid("probes"))?;
        Ok(LayerFields { size_bytes, probes, capacity_items, items })
    }
}
