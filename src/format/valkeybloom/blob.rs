//! The blob of valkey-bloom's BF.LOAD, which its append-only file contains after a rewrite without a snapshot
//! preamble.

use serde::{Deserialize, Serialize};

use super::layers::{Builder, FilterFields, SLICE_HEAD_BYTES, Slice, SliceHead, fill, seed_of};
use crate::stream::{DecodeError, append, read};
use everbloom_filter::filter::policy::ValkeyBloom;
use everbloom_filter::{ByteLimit, Filter, Layer, OutOfMemory};

/// The version of the blob, which is its first byte.
const VERSION: u8 = 1;
/// Bytes of [`Head`].
const HEAD_BYTES: usize = 30;
/// Bytes of [`Counts`].
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
    let slice_bytes = |layer: &Layer| SLICE_HEAD_BYTES.saturating_add(layer.bits().contents().len());
    let layer_bytes = |layer| slice_bytes(layer).saturating_add(size_of::<u64>() + COUNTS_BYTES);
    let size_bytes = layers.iter().map(layer_bytes).fold(HEAD_BYTES, usize::saturating_add);
    let mut blob = Vec::new();
    blob.try_reserve_exact(size_bytes).map_err(|_| OutOfMemory)?;
    let seed = seed_of(layers);
    let head = Head {
        version: VERSION,
        expansion: policy.growth.expansion(),
        error_rate: policy.error_rate,
        tightening_ratio: policy.tightening_ratio,
        is_seed_random: seed.is_random().into(),
        layers: layers.len() as u64,
    };
    append(&mut blob, &head);
    for layer in layers {
        append(&mut blob, &(slice_bytes(layer) as u64));
        SliceHead::append(layer, &seed, &mut blob);
        blob.extend_from_slice(&layer.bits().bytes());
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
pub fn decode(mut blob: &[u8], limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let Head { version, expansion, error_rate, tightening_ratio, is_seed_random, layers } = read(&mut blob)?;
    if version != VERSION {
        return Err(DecodeError::unsupported("version", version));
    }
    let (expansion, is_seed_random) = (expansion.into(), is_seed_random.into());
    let fields = FilterFields { layers, expansion, error_rate, tightening_ratio, is_seed_random };
    let mut builder = Builder::new(fields, limit)?;
    for _ in 0..layers {
        let slice_bytes: u64 = read(&mut blob)?;
        let slice = usize::try_from(slice_bytes).ok().and_then(|bytes| blob.split_at_checked(bytes));
        let (slice, rest) = slice.ok_or(DecodeError::Truncated)?;
        blob = rest;
        let slice = Slice::decode(slice)?;
        let Counts { items, capacity_items } = read(&mut blob)?;
        let items = u64::try_from(items).map_err(|_| DecodeError::Invalid("items"))?;
        let capacity_items = u64::try_from(capacity_items).map_err(|_| DecodeError::Invalid("capacity"))?;
        builder.push(&slice, capacity_items, items, fill)?;
    }
    if blob.is_empty() { builder.finish() } else { Err(DecodeError::Invalid("length")) }
}
