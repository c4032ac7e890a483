//! RedisBloom's snapshot of a filter: data type `MBbloom--`. Encodings 0 to 4 are read, 4 is written.

use super::{Totals, checked_options, filter_of, layer_spec};
use crate::stream::{DecodeError, Sink, Source, checked_layers};
use everbloom_filter::bits::layout::LayerParameters;
use everbloom_filter::filter::policy::RedisBloom;
use everbloom_filter::filter::policy::redisbloom::RedisBloomOptions;
use everbloom_filter::filter::policy::redisbloom::sizing::unrounded_bits;
use everbloom_filter::{ByteLimit, Filter, Layer};

/// First encoding with the number of bits of a layer. In encoding 0 the number follows from the capacity and the bits
/// per item.
const WITH_BITS: i32 = 1;
/// First encoding with options.
const WITH_OPTIONS: i32 = 2;
/// First encoding with a growth.
const WITH_GROWTH: i32 = 4;

/// Writes a filter as the newest release does. O(bytes).
pub fn save(policy: &RedisBloom, filter: &Filter, sink: &mut impl Sink) {
    sink.unsigned(filter.items());
    sink.unsigned(filter.layer_count() as u64);
    sink.unsigned(policy.options().bits().into());
    sink.unsigned(policy.expansion().into());
    for layer in filter.layers() {
        let Some(parameters) = LayerParameters::of_layer(layer) else { continue };
        sink.unsigned(parameters.capacity_items);
        sink.double(parameters.error_rate);
        sink.unsigned(parameters.probes);
        sink.double(parameters.bits_per_item);
        sink.unsigned(parameters.size_bits);
        sink.unsigned(parameters.exponent);
        sink.bytes(&layer.bits().bytes());
        sink.unsigned(layer.counts().items);
    }
}

/// Reads a filter in encoding `version`, 0 to 4. O(bytes); takes the memory of the filter and of its largest layer.
///
/// # Errors
/// The first wrong field.
pub fn load(source: &mut impl Source, version: i32, limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let items = source.unsigned()?;
    let layer_count = checked_layers(source.unsigned()?, 1)?;
    let options = match version {
        ..WITH_OPTIONS => RedisBloomOptions::OLDEST,
        _ => checked_options(source.unsigned()?)?,
    };
    let growth = match version {
        ..WITH_GROWTH => RedisBloom::OLDEST_GROWTH,
        _ => u32::try_from(source.unsigned()?).map_err(|_| DecodeError::Invalid("growth"))?,
    };
    let (mut totals, mut layers) = (Totals::new(limit), Vec::with_capacity(layer_count));
    for _ in 0..layer_count {
        let parameters = read_parameters(source, version)?;
        let least_bytes = parameters.least_bytes().map_err(DecodeError::Invalid)?;
        // The limits are checked before the array is read, because a host may allocate a string when it reads its
        // length.
        totals.with_layer(least_bytes, u32::try_from(parameters.probes).unwrap_or(u32::MAX))?;
        source.expect_bytes(least_bytes)?;
        let bytes = source.bytes()?;
        let spec = layer_spec(&parameters, bytes.len() as u64, options)?;
        let items = totals.add(&spec, source.unsigned()?)?;
        let mut layer = Layer::try_new(spec)?;
        if !layer.bits_mut().add_bytes(0, &bytes) {
            return Err(DecodeError::Invalid("size of the bit array"));
        }
        layer.set_items(items);
        layers.push(layer);
    }
    totals.check_items(items)?;
    filter_of(options, growth, layers)
}

/// Reads the fields of a layer before its bit array.
fn read_parameters(source: &mut impl Source, version: i32) -> Result<LayerParameters, DecodeError> {
    let capacity_items = source.unsigned()?;
    let error_rate = source.double()?;
    let probes = source.unsigned()?;
    let bits_per_item = source.double()?;
    let (size_bits, exponent) = match version {
        ..WITH_BITS => (unrounded_bits(capacity_items, bits_per_item), 0),
        _ => (source.unsigned()?, source.unsigned()?),
    };
    Ok(LayerParameters { capacity_items, error_rate, probes, bits_per_item, size_bits, exponent })
}
