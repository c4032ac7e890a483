//! The value of valkey-bloom's data type in a snapshot.

use super::layers::{Builder, FilterFields, Slice, fill, seed_of, slice_of};
use crate::stream::{DecodeError, Sink, Source, UnsignedOrBytes};
use everbloom_filter::filter::policy::ValkeyBloom;
use everbloom_filter::filter::policy::valkeybloom::TIGHTENING_RATIO_DEFAULT;
use everbloom_filter::hash::siphash::Seed;
use everbloom_filter::{ByteLimit, Filter, Layer};

/// Most bytes whose bits are reversed at once.
const BLOCK_BYTES: usize = 4096;

/// Writes a filter in the newest encoding. O(bytes). A layer is one string: a head and the bits. It has its head before the
/// bits since it was made, so that the bits are not copied, and saving changes nothing.
pub fn save(policy: &ValkeyBloom, layers: &[Layer], sink: &mut impl Sink) {
    let seed = seed_of(layers);
    sink.unsigned(layers.len() as u64);
    sink.unsigned(policy.growth.expansion().into());
    sink.double(policy.error_rate);
    sink.double(policy.tightening_ratio);
    sink.unsigned(seed.is_random().into());
    let last = layers.len().saturating_sub(1);
    for (index, layer) in layers.iter().enumerate() {
        sink.unsigned(layer.capacity_items());
        if index == last {
            sink.unsigned(layer.counts().items);
        }
        sink.bytes(slice_of(layer));
    }
}

/// Reads a filter in encoding `version`, 0 or 1. O(bytes); takes the memory of the filter and of one layer.
///
/// # Errors
/// The first wrong field.
pub fn load(source: &mut impl Source, version: i32, limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    if version == 0 { load_version_0(source, limit) } else { load_version_1(source, limit) }
}

/// Reads version 1, which has the capacity of a layer before its string. Builds from shortly before release 1.0 wrote
/// it after the string, with the same version. The type of a layer's first field shows which order it is, if the source
/// knows the types of fields.
fn load_version_1(source: &mut impl Source, limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let layers = source.unsigned()?;
    let fields = FilterFields {
        layers,
        expansion: source.unsigned()?,
        error_rate: source.double()?,
        tightening_ratio: source.double()?,
        is_seed_random: source.unsigned()?,
    };
    let mut builder = Builder::new(fields, limit)?;
    for _ in 0..layers {
        let first = source.unsigned_or_bytes().map_err(|error| match error {
            DecodeError::Truncated => DecodeError::PrereleaseOrder,
            other => other,
        })?;
        match first {
            UnsignedOrBytes::Unsigned(capacity_items) => {
                let items = read_items(&builder, capacity_items, source)?;
                let slice = source.bytes()?;
                builder.push(&Slice::decode(&slice)?, capacity_items, items, fill)?;
            }
            UnsignedOrBytes::Bytes(slice) => {
                let capacity_items = source.unsigned()?;
                let items = read_items(&builder, capacity_items, source)?;
                builder.push(&Slice::decode(&slice)?, capacity_items, items, fill)?;
            }
        }
    }
    builder.finish()
}

/// Returns the number of items of the next layer. The number is saved for the last layer only; the other layers are
/// full.
fn read_items(
    builder: &Builder<'_>,
    capacity_items: u64,
    source: &mut impl Source,
) -> Result<u64, DecodeError> {
    if builder.is_at_last() { source.unsigned() } else { Ok(capacity_items) }
}

/// Reads version 0. It has no tightening ratio and no seed, which were constant. The error rate is widened to a double,
/// so that halving it gives the same rates and sizes as in 0.1.0. The bits, most significant first, are reversed. The
/// number of probes is kept, so every reply stays the same.
fn load_version_0(source: &mut impl Source, limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let layers = source.unsigned()?;
    let fields = FilterFields {
        layers,
        expansion: source.unsigned()?,
        error_rate: source.float()?.into(),
        tightening_ratio: TIGHTENING_RATIO_DEFAULT,
        is_seed_random: 0,
    };
    let mut builder = Builder::new(fields, limit)?;
    for _ in 0..layers {
        let bits = source.bytes()?;
        if (bits.len() as u64).checked_mul(8) != Some(source.unsigned()?) {
            return Err(DecodeError::Invalid("length of a layer"));
        }
        let probes = u32::try_from(source.unsigned()?).map_err(|_| DecodeError::Invalid("probes"))?;
        let capacity_items = source.unsigned()?;
        let items = read_items(&builder, capacity_items, source)?;
        let slice = Slice { probes, seed: *Seed::FIXED.bytes(), bits: &bits };
        builder.push(&slice, capacity_items, items, fill_reversed)?;
    }
    builder.finish()
}

/// Sets the bits of a slice, whose bytes have the most significant bit first.
fn fill_reversed(layer: &mut Layer, bits: &[u8]) -> bool {
    let mut blocks = bits.chunks(BLOCK_BYTES).zip((0..).step_by(BLOCK_BYTES));
    blocks.all(|(block, offset)| {
        let mut reversed = [0; BLOCK_BYTES];
        reversed.iter_mut().zip(block).for_each(|(to, from)| *to = from.reverse_bits());
        reversed.get(..block.len()).is_some_and(|reversed| layer.bits_mut().add_bytes(offset, reversed))
    })
}
