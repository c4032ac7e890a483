//! RedisBloom's encodings of a filter, byte for byte: the snapshots of every release, and the chunks of BF.SCANDUMP.
//!
//! The encodings of all releases are read, and every field is checked before it is used or memory is allocated for
//! it. The newest encoding is written. docs/formats.md has the tables of fields. The protocol of the chunks is that
//! of [`chunks`](super::chunks) without dump ids and checksums: iterators are positions plus 1, and the position of a
//! chunk of bits follows from its iterator and its length.

pub mod cuckoo;
pub mod header;
pub mod rdb;

use std::borrow::Cow;

use super::chunks::{Chunk, ChunkError, Rewritten};
use super::contents::{bits_at, locate};
use super::stream::DecodeError;
use everbloom_filter::bits::layout::{LayerParameters, Modulo};
use everbloom_filter::filter::policy::RedisBloom;
use everbloom_filter::filter::policy::redisbloom::RedisBloomOptions;
use everbloom_filter::{ByteLimit, Filter, Footprint, Hash, Layer, LayerSpec, Layout, Placement, Policy};

/// The iterator that goes with a header.
pub const HEADER_ITERATOR: u64 = 1;

/// Returns the chunk that `iterator` requests, or `None` past the end. O(layers): bits are not copied.
pub(super) fn chunk<'f>(policy: &RedisBloom, filter: &'f Filter, iterator: u64) -> Option<Chunk<'f>> {
    let Some(position) = iterator.checked_sub(1) else {
        let data = Cow::Owned(header::encode(policy, filter));
        return Some(Chunk { next_iterator: HEADER_ITERATOR, data });
    };
    let bits = bits_at(filter, position)?;
    let next_iterator = iterator.saturating_add(bits.len() as u64);
    Some(Chunk { next_iterator, data: bits.joined() })
}

/// Sets the bits of a chunk. RedisBloom overwrites bits instead, and loses items that were added meanwhile.
/// `next_iterator` is the iterator that BF.SCANDUMP replied with the chunk. Returns whether the filter has changed.
/// O(bytes).
///
/// # Errors
/// [`ChunkError`]; the filter is then unchanged. The checks have RedisBloom's order: [`ChunkError::BadData`] for data
/// longer than the iterator, [`ChunkError::BeyondEnd`] for a position outside all layers, then [`ChunkError::TooBig`].
pub(super) fn load_chunk(filter: &mut Filter, next_iterator: u64, data: &[u8]) -> Result<bool, ChunkError> {
    let start = next_iterator
        .checked_sub(data.len() as u64)
        .filter(|_| next_iterator > 0)
        .ok_or(ChunkError::BadData)?;
    let position = start.checked_sub(1).ok_or(ChunkError::BeyondEnd)?;
    let (layer, offset) = locate(filter, position).ok_or(ChunkError::BeyondEnd)?;
    filter.add_bytes(layer, offset, data).ok_or(ChunkError::TooBig)
}

/// Calls `emit` with the commands that recreate the filter. Clear chunks are not omitted, because RedisBloom before
/// 2.2.19, 2.4.8 and 2.6.11 does not clear the array that a header creates. O(bytes).
pub(super) fn rewrite(policy: &RedisBloom, filter: &Filter, emit: &mut dyn FnMut(Rewritten<'_>)) {
    let mut iterator = 0;
    while let Some(chunk) = chunk(policy, filter, iterator) {
        iterator = chunk.next_iterator;
        emit(Rewritten::Chunk { iterator, data: &chunk.data });
    }
}

/// Returns the options, if all of their bits are known.
fn checked_options(bits: u64) -> Result<RedisBloomOptions, DecodeError> {
    RedisBloomOptions::from_bits(bits).ok_or(DecodeError::unsupported("options", bits))
}

/// The sums over the layers that were read so far.
struct Totals<'l> {
    limit: &'l dyn ByteLimit,
    items: u64,
    footprint: Footprint,
}

impl<'l> Totals<'l> {
    /// Returns the sums over no layers.
    fn new(limit: &'l dyn ByteLimit) -> Self {
        Self { limit, items: 0, footprint: Footprint::default() }
    }

    /// Returns the footprint with one more layer, if the limits permit it.
    fn with_layer(&self, size_bytes: u64, probes: u32) -> Result<Footprint, DecodeError> {
        let footprint = self.footprint.and_layer(size_bytes, probes);
        footprint.check(self.limit)?;
        Ok(footprint)
    }

    /// Adds a layer with its items, if the limits permit it. Returns its items, at most as many as it can hold.
    fn add(&mut self, spec: &LayerSpec, items: u64) -> Result<u64, DecodeError> {
        self.footprint = self.with_layer(spec.size_bits.div_ceil(8), spec.placement.layout().probes())?;
        let sum = self.items.checked_add(items).filter(|sum| *sum <= Modulo::ITEMS_MAX);
        self.items = sum.ok_or(DecodeError::Invalid("items of the layers"))?;
        // A layer cannot have more items than bits, because each item has set a clear bit. RedisBloom does not check
        // this, so its dumps and snapshots may have larger counts.
        Ok(items.min(spec.size_bits))
    }

    /// Checks that the sum of the items of all layers is that of the filter.
    fn check_items(&self, items: u64) -> Result<(), DecodeError> {
        if self.items == items { Ok(()) } else { Err(DecodeError::Invalid("items")) }
    }
}

/// Returns the layer with these parameters in an array of `size_bytes` bytes, if they are valid.
fn layer_spec(
    parameters: &LayerParameters,
    size_bytes: u64,
    options: RedisBloomOptions,
) -> Result<LayerSpec, DecodeError> {
    let layout = parameters.layout(size_bytes).map_err(DecodeError::Invalid)?;
    Ok(LayerSpec {
        placement: Placement::new(Hash::RedisBloom(options.hash()), Layout::Modulo(layout)),
        size_bits: size_bytes.saturating_mul(8),
        capacity_items: parameters.capacity_items,
        has_head: false,
    })
}

/// Returns the filter of these layers; the first one determines the policy.
fn filter_of(options: RedisBloomOptions, growth: u32, layers: Vec<Layer>) -> Result<Filter, DecodeError> {
    let policy = layers.first().and_then(|first| RedisBloom::of_first_layer(options, growth, first));
    let policy = policy.ok_or(DecodeError::Invalid("layers"))?;
    Filter::from_parts(Policy::RedisBloom(Box::new(policy)), layers, None).map_err(DecodeError::Invalid)
}
