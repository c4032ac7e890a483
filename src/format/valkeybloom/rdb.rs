//! The value of valkey-bloom's data type in a snapshot.

use super::{Builder, FilterFields, LayerFields, SLICE_HEADER_BYTES, Slice, seed_of, slice_header};
use crate::bloom::bits::HEAD_BYTES;
use crate::bloom::filter::policy::ValkeyBloom;
use crate::bloom::filter::policy::valkeybloom::TIGHTENING_RATIO_DEFAULT;
use crate::bloom::hash::siphash::Seed;
use crate::bloom::{ByteLimit, Filter, Layer};
use crate::format::stream::{DecodeError, Sink, Source, UnsignedOrBytes};

/// Most bytes whose bits are reversed at once.
const BLOCK_BYTES: usize = 4096;

/// Writes a filter in the newest encoding. O(bytes). A layer is one string that begins with a header, which is
/// written to the space before its bits.
pub fn save(policy: &ValkeyBloom, layers: &mut [Layer], sink: &mut impl Sink) {
    let seed = seed_of(layers);
    sink.unsigned(layers.len() as u64);
    sink.unsigned(policy.growth.expansion().into());
    sink.double(policy.error_rate);
    sink.double(policy.tightening_ratio);
    sink.unsigned(seed.is_random().into());
    let last = layers.len().saturating_sub(1);
    for (index, layer) in layers.iter_mut().enumerate() {
        sink.unsigned(layer.capacity_items());
        if index == last {
            sink.unsigned(layer.counts().items);
        }
        let header = slice_header(layer, seed.bytes());
        let slice = layer.bits_mut().bytes_behind(&header);
        debug_assert!(slice.is_some(), "a layer of this kind that was made without space for its header");
        sink.bytes(slice.unwrap_or(&[]));
    }
}

const _: () = assert!(SLICE_HEADER_BYTES <= HEAD_BYTES, "every layer of this kind has space for its header");

/// Reads a filter in encoding `version`, 0 or 1. O(bytes); takes the memory of the filter and of one layer.
///
/// # Errors
/// The first wrong field.
pub fn load(source: &mut impl Source, version: i32, limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    match version {
        0 => load_generation_0(source, limit),
        1 => load_generation_1(source, limit),
        other => {
            let got = u64::try_from(other).unwrap_or(u64::MAX);
            Err(DecodeError::Unsupported { what: "encoding version", got })
        }
    }
}

/// Reads version 1, which has the capacity first. Builds from shortly before release 1.0 wrote the capacity after the
/// string, with the same version. The type of the field after the header shows which it is, if the source knows it.
fn load_generation_1(source: &mut impl Source, limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let fields = FilterFields {
        layers: source.unsigned()?,
        expansion: source.unsigned()?,
        error_rate: source.double()?,
        tightening_ratio: source.double()?,
    };
    let mut builder = Builder::new(fields, limit)?;
    let is_random = match source.unsigned()? {
        0 => false,
        1 => true,
        _ => return Err(DecodeError::Invalid("seed mark")),
    };
    let mut next = source.unsigned_or_bytes().map_err(|error| match error {
        DecodeError::Truncated => DecodeError::PrereleaseOrder,
        other => other,
    })?;
    for index in 0..fields.layers {
        if index > 0 {
            next = match next {
                UnsignedOrBytes::Unsigned(_) => UnsignedOrBytes::Unsigned(source.unsigned()?),
                UnsignedOrBytes::Bytes(_) => UnsignedOrBytes::Bytes(source.bytes()?),
            };
        }
        match &next {
            UnsignedOrBytes::Unsigned(capacity_items) => {
                let items = if builder.is_at_last() { source.unsigned()? } else { *capacity_items };
                let bytes = source.bytes()?;
                push(&mut builder, &bytes, is_random, *capacity_items, items)?;
            }
            UnsignedOrBytes::Bytes(bytes) => {
                let capacity_items = source.unsigned()?;
                let items = if builder.is_at_last() { source.unsigned()? } else { capacity_items };
                push(&mut builder, bytes, is_random, capacity_items, items)?;
            }
        }
    }
    builder.finish()
}

fn push(
    builder: &mut Builder<'_>,
    bytes: &[u8],
    is_random: bool,
    capacity_items: u64,
    items: u64,
) -> Result<(), DecodeError> {
    let slice = Slice::decode(bytes)?;
    let seed = Seed::marked(slice.seed, is_random).ok_or(DecodeError::Invalid("seed"))?;
    builder.push(slice.fields(capacity_items, items), seed, |layer| layer.bits_mut().add_bytes(0, slice.bits))
}

/// Reads version 0. It has no tightening ratio and no seed, which were constant. The error rate is widened to a
/// double, so that halving it gives the same rates and sizes as in 0.1.0. The bits, most significant first, are
/// reversed. The probes stay, so every reply stays the same.
fn load_generation_0(source: &mut impl Source, limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let fields = FilterFields {
        layers: source.unsigned()?,
        expansion: source.unsigned()?,
        error_rate: source.float()?.into(),
        tightening_ratio: TIGHTENING_RATIO_DEFAULT,
    };
    let mut builder = Builder::new(fields, limit)?;
    for _ in 0..fields.layers {
        let bits = source.bytes()?;
        if (bits.len() as u64).checked_mul(8) != Some(source.unsigned()?) {
            return Err(DecodeError::Invalid("length of a layer"));
        }
        let probes = u32::try_from(source.unsigned()?).map_err(|_| DecodeError::Invalid("probes"))?;
        let capacity_items = source.unsigned()?;
        let items = if builder.is_at_last() { source.unsigned()? } else { capacity_items };
        let fields = LayerFields { size_bytes: bits.len() as u64, probes, capacity_items, items };
        builder.push(fields, Seed::FIXED, |layer| {
            let mut blocks = bits.chunks(BLOCK_BYTES).zip((0..).step_by(BLOCK_BYTES));
            blocks.all(|(block, offset)| {
                let mut reversed = [0; BLOCK_BYTES];
                for (to, from) in reversed.iter_mut().zip(block) {
                    *to = from.reverse_bits();
                }
                reversed
                    .get(..block.len())
                    .is_some_and(|reversed| layer.bits_mut().add_bytes(offset, reversed))
            })
        })?;
    }
    builder.finish()
}
