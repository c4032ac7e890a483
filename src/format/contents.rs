//! The bits of layers and the segments of tables, in strings of bounded size: the strings of a snapshot and the
//! payloads of the chunks of a dump.
//!
//! A dump has the bytes of all layers, the oldest first, then the [positions](POSITIONS) of the table. A chunk never
//! spans two layers, or a layer and the table.

use super::stream::{DecodeError, append, read};
use crate::bloom::bits::is_clear;
use crate::bloom::table::{DumpedSegment, POSITIONS, Table};
use crate::bloom::{Filter, Layer, Memory, OutOfMemory};

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
) -> impl Iterator<Item = (&'f [u8], bool)> {
    let occupancy = layer.bits().occupancy(memory);
    layer.bits().bytes().chunks(most_bytes).scan(0usize, move |start, bytes| {
        let range = *start..start.saturating_add(bytes.len());
        *start = range.end;
        Some((bytes, occupancy.is_clear(range) || is_clear(bytes)))
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
pub(super) fn bits_at(filter: &Filter, position: u64) -> Option<&[u8]> {
    let (number, offset) = locate(filter, position)?;
    filter.layers().get(number)?.bits().bytes_from(offset, CHUNK_BYTES)
}

/// Returns the words of a string of little-endian words. O(bytes).
///
/// # Errors
/// [`DecodeError`].
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

/// Appends the stored segments from a position of the table on, about [`CHUNK_BYTES`]. Returns the position after the
/// last of them, or [`POSITIONS`] if no further one is stored.
///
/// # Errors
/// [`OutOfMemory`].
pub(super) fn append_segments(table: &Table, position: u64, bytes: &mut Vec<u8>) -> Result<u64, OutOfMemory> {
    let (mut segments, mut counted_bytes) = (table.segments_from(position)?, 0usize);
    let mut position = position;
    while counted_bytes < CHUNK_BYTES {
        let Some(next) = segments.next() else { return Ok(POSITIONS) };
        let (segment, end) = next?;
        position = end;
        let words: &[u8] = bytemuck::cast_slice(&segment.words);
        let segment_bytes = SEGMENT_FIELDS_BYTES.saturating_add(words.len());
        counted_bytes = counted_bytes.saturating_add(segment_bytes.max(COUNTED_MIN_BYTES));
        if words.is_empty() && segment.stamp == 0 {
            continue;
        }
        bytes.try_reserve(segment_bytes).map_err(|_| OutOfMemory)?;
        let (number, length) = (u32::try_from(segment.number), u32::try_from(segment.words.len()));
        let (depth, blocks_log) = (u8::try_from(segment.depth), u8::try_from(segment.blocks_log));
        let fields: SegmentFields = (
            number.unwrap_or(u32::MAX),
            length.unwrap_or(u32::MAX),
            depth.unwrap_or(u8::MAX),
            blocks_log.unwrap_or(u8::MAX),
            [0; 6],
            segment.stamp,
        );
        append(bytes, &fields);
        bytes.extend_from_slice(words);
    }
    Ok(position)
}

/// Returns the segments in the payload of a chunk. `end` is the position of the table at which the chunk ends.
///
/// # Errors
/// [`DecodeError`].
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
