//! The blob of valkey-bloom's BF.LOAD, which its append-only file contains after a rewrite without a snapshot
//! preamble.

use serde::{Deserialize, Serialize};

use super::{Builder, FilterFields, SLICE_HEADER_BYTES, Slice, seed_of, slice_header};
use crate::bloom::filter::policy::ValkeyBloom;
use crate::bloom::hash::siphash::Seed;
use crate::bloom::{ByteLimit, Filter, Layer, OutOfMemory};
use crate::format::stream::{self, DecodeError, append};

/// First byte of a blob.
const VERSION: u8 = 1;
/// Bytes of the header.
const HEAD_BYTES: usize = 30;
/// Bytes of the counts after a layer.
const COUNTS_BYTES: usize = 16;

#[derive(Serialize, Deserialize)]
struct Head {
    version: u8,
    expansion: u32,
    error_rate: f64,
    tightening_ratio: f64,
    is_seed_random: u8,
    layers: u64,
}

/// The counts of a layer, which follow its slice.
#[derive(Serialize, Deserialize)]
struct Counts {
    items: i64,
    capacity_items: i64,
}

/// Returns the blob of a filter. O(bytes).
///
/// # Errors
/// [`OutOfMemory`].
pub fn encode(policy: &ValkeyBloom, layers: &[Layer]) -> Result<Vec<u8>, OutOfMemory> {
    let slice_bytes = |layer: &Layer| SLICE_HEADER_BYTES.saturating_add(layer.bits().bytes().len());
    let layer_bytes = |layer| slice_bytes(layer).saturating_add(size_of::<u64>() + COUNTS_BYTES);
    let size_bytes = layers.iter().map(layer_bytes).fold(HEAD_BYTES, usize::saturating_add);
    let mut blob = Vec::new();
    blob.try_reserve_exact(size_bytes).map_err(|_| OutOfMemory)?;
    let head = Head {
        version: VERSION,
        expansion: policy.growth.expansion(),
        error_rate: policy.error_rate,
        tightening_ratio: policy.tightening_ratio,
        is_seed_random: seed_of(layers).is_random().into(),
        layers: layers.len() as u64,
    };
    append(&mut blob, &head);
    for layer in layers {
        blob.extend_from_slice(&(slice_bytes(layer) as u64).to_le_bytes());
        blob.extend_from_slice(&slice_header(layer, seed_of(layers).bytes()));
        blob.extend_from_slice(layer.bits().bytes());
        let signed = |items| i64::try_from(items).unwrap_or(i64::MAX);
        let items = signed(layer.counts().items);
        append(&mut blob, &Counts { items, capacity_items: signed(layer.capacity_items()) });
    }
    Ok(blob)
}

/// Reads a whole blob. O(bytes).
///
/// # Errors
/// The first wrong field.
pub fn decode(blob: &[u8], limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let (head, mut rest) = read::<Head>(blob, HEAD_BYTES)?;
    if head.version != VERSION {
        return Err(DecodeError::Unsupported { what: "version", got: head.version.into() });
    }
    let is_random = match head.is_seed_random {
        0 => false,
        1 => true,
        _ => return Err(DecodeError::Invalid("seed mark")),
    };
    let fields = FilterFields {
        layers: head.layers,
        expansion: head.expansion.into(),
        error_rate: head.error_rate,
        tightening_ratio: head.tightening_ratio,
    };
    let mut builder = Builder::new(fields, limit)?;
    for _ in 0..head.layers {
        let (slice_bytes, after) = rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
        let slice_bytes = usize::try_from(u64::from_le_bytes(*slice_bytes)).ok();
        let (bytes, after) =
            slice_bytes.and_then(|bytes| after.split_at_checked(bytes)).ok_or(DecodeError::Truncated)?;
        let slice = Slice::decode(bytes)?;
        let (counts, after) = read::<Counts>(after, COUNTS_BYTES)?;
        let items = u64::try_from(counts.items).map_err(|_| DecodeError::Invalid("items"))?;
        let capacity_items =
            u64::try_from(counts.capacity_items).map_err(|_| DecodeError::Invalid("capacity"))?;
        let seed = Seed::marked(slice.seed, is_random).ok_or(DecodeError::Invalid("seed"))?;
        builder.push(slice.fields(capacity_items, items), seed, |layer| {
            layer.bits_mut().add_bytes(0, slice.bits)
        })?;
        rest = after;
    }
    if rest.is_empty() { builder.finish() } else { Err(DecodeError::Invalid("length")) }
}

/// Returns a record of `size_bytes` bytes and what comes after it.
fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], size_bytes: usize) -> Result<(T, &'a [u8]), DecodeError> {
    let (record, rest) = bytes.split_at_checked(size_bytes).ok_or(DecodeError::Truncated)?;
    Ok((stream::read(record)?, rest))
}
