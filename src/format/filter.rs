//! Reading and writing complete filters, depending on their format.

use super::chunks::{self, Chunk, DumpError, Rewritten};
use super::contents::{STRING_BYTES, layer_chunks};
use super::stream::{DecodeError, Sink};
use super::{record, redisbloom, snapshot, valkeybloom};
use everbloom_filter::filter::dumps::Dump;
use everbloom_filter::hash::murmur2::Murmur2;
use everbloom_filter::work::count_slots;
use everbloom_filter::{ByteLimit, Filter, Format, Hash, Layer, Memory, OutOfMemory, Policy};

/// Writes a filter to a snapshot, as the newest release of its module does. O(bytes); O(bytes that may be set) for
/// everbloom's own filters.
pub fn save(filter: &Filter, sink: &mut impl Sink, memory: impl Memory) {
    match filter.policy() {
        Policy::RedisBloom(policy) => redisbloom::rdb::save(policy, filter, sink),
        Policy::ValkeyBloom(policy) => valkeybloom::save(policy, filter.layers(), sink),
        _ => snapshot::save(filter, sink, memory),
    }
}

/// Calls `emit` with the commands that recreate the filter, in order, for the module of its format. O(bytes that may
/// be set); O(bytes) for filters of other formats.
///
/// `fresh` is a number that no other rewrite has.
///
/// # Errors
/// [`OutOfMemory`] if a chunk cannot be allocated; `emit` may have been called then.
pub fn rewrite(
    filter: &Filter,
    memory: impl Memory,
    fresh: u64,
    emit: &mut dyn FnMut(Rewritten<'_>),
) -> Result<(), OutOfMemory> {
    match filter.policy() {
        Policy::RedisBloom(policy) => {
            redisbloom::rewrite(policy, filter, emit);
            return Ok(());
        }
        // If there is no memory for a string of the whole filter, the filter is written in chunks.
        Policy::ValkeyBloom(policy) => {
            if let Ok(blob) = valkeybloom::encode_blob(policy, filter.layers()) {
                emit(Rewritten::Blob(&blob));
                return Ok(());
            }
        }
        _ => {}
    }
    chunks::rewrite(filter, memory, fresh, emit)
}

/// Returns the chunk of the last dump that `iterator` requests, or `None` at its end. Iterator 0 requests the header.
/// `dump` is `None` if no dump has begun, or the last one has ended. O(bytes of the chunk).
///
/// # Errors
/// [`DumpError`]. A dump in RedisBloom's format never ends, because its iterators do not depend on a dump id.
pub fn chunk(filter: &Filter, dump: Option<Dump>, iterator: u64) -> Result<Option<Chunk<'_>>, DumpError> {
    match filter.policy() {
        Policy::RedisBloom(policy) => Ok(redisbloom::chunk(policy, filter, iterator)),
        _ => chunks::chunk(filter, dump, iterator),
    }
}

/// Returns the filter in a blob of BF.LOAD, which only valkey-bloom writes. O(bytes).
///
/// # Errors
/// The first wrong field of the blob, as in [`load`](super::value::load).
pub fn from_blob(blob: &[u8], limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    valkeybloom::decode_blob(blob, limit)
}

/// Returns the header of a filter, which describes everything but its bits and entries. O(layers).
#[must_use]
pub fn header(filter: &Filter) -> Vec<u8> {
    match filter.policy() {
        Policy::RedisBloom(policy) => redisbloom::header::encode(policy, filter),
        _ => record::encode(filter),
    }
}

/// Calls `add` with strings of bytes. Two filters have the same strings if and only if they have the same replies and
/// the same saved form. O(bytes that may be set).
pub fn digest(filter: &Filter, memory: impl Memory, add: &mut dyn FnMut(&[u8])) {
    add(&header(filter));
    if let (Format::RedisBloom, Some(Hash::RedisBloom(Murmur2::WideCutSeeds))) =
        (filter.format(), filter.layers().first().map(Layer::hash))
    {
        // A filter of RedisBloom 1.1 has the same bytes as one of later releases, but other replies. This string makes
        // the digest differ on a replica with another `bf.assume-redisbloom-1-1`.
        add(b"1.1");
    }
    digest_layers(filter, memory, add);
    let Some(table) = filter.table() else { return };
    for (number, words, stamp) in table.segments() {
        count_slots(|| words.len());
        add(bytemuck::cast_slice(&[number as u64, stamp]));
        add(bytemuck::cast_slice(words));
    }
}

/// Calls `add` with the bits of the layers that are not clear, and where they stand. O(bytes that may be set).
pub(super) fn digest_layers(filter: &Filter, memory: impl Memory, add: &mut dyn FnMut(&[u8])) {
    for layer in filter.layers() {
        let mut end = 0u64;
        for (bits, is_clear) in layer_chunks(layer, STRING_BYTES, memory) {
            end = end.saturating_add(bits.len() as u64);
            if !is_clear {
                add(&end.to_le_bytes());
                add(&bits.joined());
            }
        }
    }
}
