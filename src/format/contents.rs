//! The bits of layers and the segments of tables, in strings of bounded size: the strings of a snapshot and the
//! payloads of the chunks of a dump.
//!
//! A dump has the bytes of all layers, the oldest first, then the [positions](POSITIONS) of the table. A chunk never
//! spans two layers, or a layer and the table.

use std::ops::Deref;

use super::stream::{DecodeError, append, read};
use everbloom_filter::bits::{BitBytes, is_clear};
use everbloom_filter::table::{DumpedSegment, POSITIONS, Table};
use everbloom_filter::{Filter, Layer, Memory, OutOfMemory};

/// Most bytes of a layer in one chunk of a dump: 16 MiB. It bounds the memory that dumping and loading take besides the
/// filter.
pub const CHUNK_BYTES: usize = 16 << 20;

/// Most bytes of a layer in one string of a snapshot: 1 MiB. A server that loads a compressed string needs twice as many
/// bytes besides the filter, and the module cannot refuse these. Snapshots are read in strings of this length, so it is
/// part of the format and must not change.
pub const STRING_BYTES: usize = 1 << 20;

/// Returns the bits of a layer in strings of at most `most_bytes`, each with whether all its bits are clear. Does not
/// touch memory that was never written to. O(bytes that may be set).
pub(super) fn layer_chunks<'f, M: Memory + 'f>(
    layer: &'f Layer,
    most_bytes: usize,
    memory: M,
) -> impl Iterator<Item = (BitBytes<'f>, bool)> {
    let occupancy = layer.bits().occupancy(memory);
    layer.bits().contents().chunks(most_bytes).scan(0usize, move |start, bytes| {
        let range = *start..start.saturating_add(bytes.len());
        *start = range.end;
        Some((bytes, occupancy.is_clear(range) || bytes.slices().into_iter().all(is_clear)))
    })
}

/// Returns the number of the layer that contains a position of a dump, and the offset of the position in its bytes;
/// `None` after the last layer. O(layers).
pub(super) fn locate(filter: &Filter, position: u64) -> Option<(usize, usize)> {
    let mut offset = position;
    for (number, layer) in filter.layers().iter().enumerate() {
        let Some(after) = offset.checked_sub(layer.bits().size_bytes()) else {
            return Some((number, usize::try_from(offset).ok()?));
        };
        offset = after;
    }
    None
}

/// Returns the bits from a position of a dump on, at most [`CHUNK_BYTES`] of one layer; `None` after the last layer.
/// O(layers).
pub(super) fn bits_at(filter: &Filter, position: u64) -> Option<BitBytes<'_>> {
    let (number, offset) = locate(filter, position)?;
    filter.layers().get(number)?.bits().bytes_from(offset, CHUNK_BYTES)
}

/// Returns the words of a string of little-endian words. O(bytes).
pub(super) fn read_words(bytes: &[u8]) -> Result<Box<[u64]>, DecodeError> {
    if !bytes.len().is_multiple_of(8) {
        return Err(DecodeError::Invalid("segment length"));
    }
    let words = bytemuck::try_zeroed_slice_box(bytes.len() / 8);
    let mut words = words.map_err(|()| DecodeError::OutOfMemory)?;
    bytemuck::cast_slice_mut(&mut words).copy_from_slice(bytes);
    Ok(words)
}

/// The fields before the words of a segment in a chunk: the number of the segment, the number of words, the depth, the
/// logarithm of the blocks, zeros, and the stamp.
type SegmentFields = (u32, u32, u8, u8, [u8; 6], u64);

/// Bytes of [`SegmentFields`].
const SEGMENT_FIELDS_BYTES: usize = 24;

/// The least bytes that a segment counts towards [`CHUNK_BYTES`], so that the time for a chunk of many empty segments
/// is bounded.
const COUNTED_MIN_BYTES: usize = 64;

/// Appends the segments from a position of the table on, about [`CHUNK_BYTES`]. Returns the position after the last
/// segment.
pub(super) fn append_segments(table: &Table, position: u64, bytes: &mut Vec<u8>) -> Result<u64, OutOfMemory> {
    let (mut position, mut counted_bytes) = (position, 0usize);
    while counted_bytes < CHUNK_BYTES {
        let Some((segment, end)) = table.segment_at(position)? else { break };
        position = end;
        let is_stored = !segment.words.is_empty() || segment.stamp != 0;
        let segment_bytes = if is_stored { append_segment(&segment, bytes)? } else { 0 };
        counted_bytes += segment_bytes.max(COUNTED_MIN_BYTES);
    }
    Ok(position)
}

/// Appends a segment. Returns the number of its bytes.
pub(super) fn append_segment(
    segment: &DumpedSegment<impl Deref<Target = [u64]>>,
    bytes: &mut Vec<u8>,
) -> Result<usize, OutOfMemory> {
    let DumpedSegment { number, depth, blocks_log, stamp, words } = segment;
    let words: &[u64] = words;
    let segment_bytes = SEGMENT_FIELDS_BYTES + size_of_val(words);
    bytes.try_reserve(segment_bytes).map_err(|_| OutOfMemory)?;
    let (number, length) = (u32::try_from(*number), u32::try_from(words.len()));
    let (depth, blocks_log) = (u8::try_from(*depth), u8::try_from(*blocks_log));
    let fields: SegmentFields = (
        number.unwrap_or(u32::MAX),
        length.unwrap_or(u32::MAX),
        depth.unwrap_or(u8::MAX),
        blocks_log.unwrap_or(u8::MAX),
        [0; 6],
        *stamp,
    );
    append(bytes, &fields);
    bytes.extend_from_slice(bytemuck::cast_slice(words));
    Ok(segment_bytes)
}

/// Returns the segments in the payload of a chunk. `end` is the position of the table at which the chunk ends.
pub(super) fn read_segments(mut bytes: &[u8], end: u64) -> Result<Vec<DumpedSegment>, DecodeError> {
    if end > POSITIONS {
        return Err(DecodeError::Invalid("position"));
    }
    let mut segments = Vec::new();
    while !bytes.is_empty() {
        let (number, words, depth, blocks_log, reserved, stamp): SegmentFields = read(&mut bytes)?;
        let length = (words as usize).checked_mul(8).ok_or(DecodeError::Truncated)?;
        let (words, rest) = bytes.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        bytes = rest;
        let first = u64::from(number.reverse_bits());
        if reserved != [0; 6] || first >= end {
            return Err(DecodeError::Invalid("segment"));
        }
        let words = read_words(words)?;
        segments.try_reserve(1).map_err(|_| DecodeError::OutOfMemory)?;
        let number = number as usize;
        segments.push(DumpedSegment {
            number,
            depth: depth.into(),
            blocks_log: blocks_log.into(),
            stamp,
            words,
        });
    }
    Ok(segments)
}
