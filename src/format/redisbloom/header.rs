//! The header of a dumped RedisBloom filter: packed structs, little-endian, in the three shapes that releases
//! wrote.

use serde::{Deserialize, Serialize};

use super::checks::{Totals, checked_layers, checked_options};
use crate::bloom::Probes;
use crate::bloom::redisbloom::{LayerParameters, ModuloProbing, Options, RedisBloom};
use crate::bloom::{ByteLimit, Chain, Layer, LayerPlan, OutOfMemory};
use crate::format::fields::{append, read};
use crate::format::record::DecodeError;

/// Bytes of the part about the filter.
pub const CHAIN_HEADER_BYTES: usize = 20;
/// Bytes of the part about the filter before growth was written down (RedisBloom 2.0).
pub const OLD_CHAIN_HEADER_BYTES: usize = 16;
/// Bytes of the part about one layer.
pub const LAYER_HEADER_BYTES: usize = 53;
/// Bytes of the part about one layer while its capacity had 32 bits (RedisBloom 2.2.0).
pub const OLD_LAYER_HEADER_BYTES: usize = 49;

#[derive(Serialize, Deserialize)]
struct ChainHeader {
    items: u64,
    layer_count: u32,
    options: u32,
    growth: u32,
}

#[derive(Deserialize)]
struct OldChainHeader {
    items: u64,
    layer_count: u32,
    options: u32,
}

#[derive(Serialize, Deserialize)]
struct LayerHeader {
    size_bytes: u64,
    size_bits: u64,
    items: u64,
    error_rate: f64,
    bits_per_item: f64,
    probes: u32,
    capacity_items: u64,
    exponent: u8,
}

#[derive(Deserialize)]
struct OldLayerHeader {
    size_bytes: u64,
    size_bits: u64,
    items: u64,
    error_rate: f64,
    bits_per_item: f64,
    probes: u32,
    capacity_items: u32,
    exponent: u8,
}

/// Writes the header of a filter in the newest shape. O(layers).
#[must_use]
pub fn encode(chain: &Chain<RedisBloom>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CHAIN_HEADER_BYTES + LAYER_HEADER_BYTES * chain.layers().len());
    let header = ChainHeader {
        items: chain.items(),
        layer_count: u32::try_from(chain.layers().len()).unwrap_or(u32::MAX),
        options: chain.family().options().bits().into(),
        growth: chain.family().growth(),
    };
    append(&mut bytes, &header);
    for layer in chain.layers() {
        append(&mut bytes, &LayerHeader::of(layer));
    }
    bytes
}

/// A header that has been read and found possible; no memory has been taken for its arrays yet.
#[derive(Debug)]
pub struct Header {
    options: Options,
    growth: u32,
    layers: Vec<(LayerPlan<ModuloProbing>, u64)>,
}

impl Header {
    /// Reads a header of any shape and checks every field. The shapes have different lengths for the same
    /// number of layers, so that its length tells which one it is. O(layers).
    ///
    /// # Errors
    /// The first field that is wrong, or [`DecodeError::TooLarge`] when the filter breaks the limit.
    pub fn decode(bytes: &[u8], limit: &dyn ByteLimit) -> Result<Self, DecodeError> {
        let (old_chain, old_rest) =
            bytes.split_at_checked(OLD_CHAIN_HEADER_BYTES).ok_or(DecodeError::Truncated)?;
        let chain: OldChainHeader = read(old_chain)?;
        let layer_count = checked_layers(chain.layer_count.into())?;
        let (layers, growth) = if old_rest.len() == layer_count * OLD_LAYER_HEADER_BYTES {
            (read_layers::<OldLayerHeader, OLD_LAYER_HEADER_BYTES>(old_rest), RedisBloom::OLDEST_GROWTH)
        } else {
            let (new_chain, rest) =
                bytes.split_at_checked(CHAIN_HEADER_BYTES).ok_or(DecodeError::Truncated)?;
            let growth = read::<ChainHeader>(new_chain)?.growth;
            if rest.len() == layer_count * OLD_LAYER_HEADER_BYTES {
                (read_layers::<OldLayerHeader, OLD_LAYER_HEADER_BYTES>(rest), growth)
            } else if rest.len() == layer_count * LAYER_HEADER_BYTES {
                (read_layers::<LayerHeader, LAYER_HEADER_BYTES>(rest), growth)
            } else {
                return Err(DecodeError::Invalid("header length"));
            }
        };
        let options = checked_options(chain.options.into())?;
        let layers = validate(&layers?, chain.items, limit)?;
        Ok(Self { options, growth, layers })
    }

    /// The filter with all bits clear. O(layers), for memory is zeroed when it is first used.
    ///
    /// # Errors
    /// [`DecodeError::OutOfMemory`].
    pub fn build(self) -> Result<Chain<RedisBloom>, DecodeError> {
        let mut layers = Vec::with_capacity(self.layers.len());
        for (plan, items) in self.layers {
            let mut layer = Layer::try_new(plan).map_err(|OutOfMemory| DecodeError::OutOfMemory)?;
            layer.set_items(items);
            layers.push(layer);
        }
        let family = RedisBloom::of_layers(self.options, self.growth, &layers);
        let family = family.ok_or(DecodeError::Invalid("layers"))?;
        Chain::from_layers(family, layers).map_err(DecodeError::Invalid)
    }
}

/// What the layers are to be, and their items, if all of that is possible.
fn validate(
    layers: &[LayerHeader],
    items: u64,
    limit: &dyn ByteLimit,
) -> Result<Vec<(LayerPlan<ModuloProbing>, u64)>, DecodeError> {
    let mut totals = Totals::default();
    let plans = layers.iter().map(|layer| {
        let plan = layer.parameters().plan(layer.size_bytes).map_err(DecodeError::Invalid)?;
        let items = totals.add(&plan, layer.items, limit)?;
        Ok::<_, DecodeError>((plan, items))
    });
    let plans = plans.collect::<Result<_, _>>()?;
    totals.check_items(items)?;
    Ok(plans)
}

/// Reads layer headers of `BYTES` each.
fn read_layers<'a, T, const BYTES: usize>(bytes: &'a [u8]) -> Result<Vec<LayerHeader>, DecodeError>
where
    T: Deserialize<'a> + Into<LayerHeader>,
{
    bytes.as_chunks::<BYTES>().0.iter().map(|layer| read::<T>(layer).map(Into::into)).collect()
}

impl LayerHeader {
    fn of(layer: &Layer<ModuloProbing>) -> Self {
        let parameters = LayerParameters::of(layer);
        Self {
            size_bytes: layer.bits().size_bytes(),
            size_bits: parameters.size_bits,
            items: layer.counts().items,
            error_rate: parameters.error_rate,
            bits_per_item: parameters.bits_per_item,
            probes: layer.placement().probes(),
            capacity_items: parameters.capacity_items,
            exponent: layer.placement().exponent(),
        }
    }

    fn parameters(&self) -> LayerParameters {
        LayerParameters {
            capacity_items: self.capacity_items,
            error_rate: self.error_rate,
            probes: self.probes.into(),
            bits_per_item: self.bits_per_item,
            size_bits: self.size_bits,
            exponent: self.exponent.into(),
        }
    }
}

impl From<OldLayerHeader> for LayerHeader {
    fn from(old: OldLayerHeader) -> Self {
        let OldLayerHeader {
            size_bytes,
            size_bits,
            items,
            error_rate,
            bits_per_item,
            probes,
            capacity_items,
            exponent,
        } = old;
        let capacity_items = capacity_items.into();
        Self { size_bytes, size_bits, items, error_rate, bits_per_item, probes, capacity_items, exponent }
    }
}
