//! The header of a dumped RedisBloom filter: packed structs, little-endian, in the three shapes that releases wrote.

use serde::{Deserialize, Serialize};

use super::{Totals, checked_options, filter_of, layer_spec};
use crate::stream::{DecodeError, append, checked_layers, read};
use everbloom_filter::bits::layout::LayerParameters;
use everbloom_filter::filter::policy::RedisBloom;
use everbloom_filter::{ByteLimit, Filter, Layer};

/// Bytes of the part for the filter.
pub const CHAIN_HEADER_BYTES: usize = 20;
/// Bytes of the part for the filter before growth was saved (RedisBloom 2.0).
pub const OLD_CHAIN_HEADER_BYTES: usize = 16;
/// Bytes of the part for one layer.
pub const LAYER_HEADER_BYTES: usize = 53;
/// Bytes of the part for one layer with a capacity of 32 bits (RedisBloom 2.2.0).
pub const OLD_LAYER_HEADER_BYTES: usize = 49;

#[derive(Serialize, Deserialize)]
struct ChainHeader {
    items: u64,
    layer_count: u32,
    options: u32,
    growth: u32,
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

/// Returns the header of a filter in the newest shape. O(layers).
#[must_use]
pub fn encode(policy: &RedisBloom, filter: &Filter) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CHAIN_HEADER_BYTES + LAYER_HEADER_BYTES * filter.layer_count());
    let header = ChainHeader {
        items: filter.items(),
        layer_count: u32::try_from(filter.layer_count()).unwrap_or(u32::MAX),
        options: policy.options().bits().into(),
        growth: policy.expansion(),
    };
    append(&mut bytes, &header);
    for header in filter.layers().iter().filter_map(LayerHeader::of) {
        append(&mut bytes, &header);
    }
    bytes
}

/// Returns the filter that a header of any shape describes, with all bits clear. Checks every field. The length of
/// the header determines its shape: for the same number of layers each shape has another length. O(layers): memory is
/// zeroed when it is first used.
///
/// # Errors
/// The first wrong field, [`DecodeError::TooLarge`] if the filter exceeds the limit, or [`DecodeError::OutOfMemory`].
pub fn decode(bytes: &[u8], limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let (head, rest) = bytes.split_at_checked(OLD_CHAIN_HEADER_BYTES).ok_or(DecodeError::Truncated)?;
    let mut chain: ChainHeader = read(&mut &*[head, &RedisBloom::OLDEST_GROWTH.to_le_bytes()].concat())?;
    let layer_count = checked_layers(chain.layer_count.into(), 1)?;
    let (layers, layer_bytes) = if rest.len() == layer_count * OLD_LAYER_HEADER_BYTES {
        (rest, OLD_LAYER_HEADER_BYTES)
    } else {
        let (growth, layers) = rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
        chain.growth = u32::from_le_bytes(*growth);
        let mut shapes = [OLD_LAYER_HEADER_BYTES, LAYER_HEADER_BYTES].into_iter();
        let shape = shapes.find(|layer_bytes| layers.len() == layer_count * layer_bytes);
        (layers, shape.ok_or(DecodeError::Invalid("header length"))?)
    };
    let options = checked_options(chain.options.into())?;
    let (mut totals, mut specs) = (Totals::new(limit), Vec::with_capacity(layer_count));
    for layer in layers.chunks(layer_bytes) {
        let header = LayerHeader::read(layer)?;
        let spec = layer_spec(&header.parameters(), header.size_bytes, options)?;
        let items = totals.add(&spec, header.items)?;
        specs.push((spec, items));
    }
    totals.check_items(chain.items)?;
    let mut layers = Vec::with_capacity(layer_count);
    for (spec, items) in specs {
        let mut layer = Layer::try_new(spec)?;
        layer.set_items(items);
        layers.push(layer);
    }
    filter_of(options, chain.growth, layers)
}

impl LayerHeader {
    /// Reads a layer in either shape. The older shape has only the lower half of the capacity.
    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        match bytes.split_at_checked(OLD_LAYER_HEADER_BYTES - 1) {
            Some((fields, exponent @ [_])) => read(&mut &*[fields, &[0; 4], exponent].concat()),
            _ => read(&mut &*bytes),
        }
    }

    fn of(layer: &Layer) -> Option<Self> {
        let parameters = LayerParameters::of_layer(layer)?;
        Some(Self {
            size_bytes: layer.bits().size_bytes(),
            size_bits: parameters.size_bits,
            items: layer.counts().items,
            error_rate: parameters.error_rate,
            bits_per_item: parameters.bits_per_item,
            probes: layer.layout().probes(),
            capacity_items: parameters.capacity_items,
            exponent: u8::try_from(parameters.exponent).ok()?,
        })
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
