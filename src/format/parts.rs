//! The segments of a table: as strings of a snapshot, and as parts of the chunks of a dump.

use serde::{Deserialize, Serialize};

use super::segments::CHUNK_BYTES;
use super::stream::{DecodeError, append, read, take};
use crate::bloom::OutOfMemory;
use crate::bloom::table::{POSITIONS, Table, TablePart};

/// Bytes before the words of a part.
const PART_BYTES: usize = 24;

/// Bytes that a segment counts in a chunk at least, so that the time for a chunk of many empty segments is bounded.
const COUNTED_MIN_BYTES: usize = 64;

/// What is before the words of a part. Unused fields are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PartHead {
    number: u32,
    words: u32,
    depth: u8,
    blocks_log: u8,
    reserved: [u8; 6],
    stamp: u64,
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

/// Appends the parts from a position of a dump on, about [`CHUNK_BYTES`]. Returns the position after the last.
///
/// # Errors
/// [`OutOfMemory`].
pub(super) fn append_parts(table: &Table, position: u64, bytes: &mut Vec<u8>) -> Result<u64, OutOfMemory> {
    let (mut position, mut counted_bytes) = (position, 0usize);
    while counted_bytes < CHUNK_BYTES {
        let Some((part, end)) = table.part_at(position)? else { break };
        position = end;
        if !part.words.is_empty() || part.stamp != 0 {
            append_part(&part, bytes)?;
        }
        let part_bytes = size_of_val(&*part.words).saturating_add(PART_BYTES);
        counted_bytes = counted_bytes.saturating_add(part_bytes.max(COUNTED_MIN_BYTES));
    }
    Ok(position)
}

fn append_part(part: &TablePart, bytes: &mut Vec<u8>) -> Result<(), OutOfMemory> {
    let words: &[u8] = bytemuck::cast_slice(&part.words);
    bytes.try_reserve(PART_BYTES.saturating_add(words.len())).map_err(|_| OutOfMemory)?;
    let head = PartHead {
        number: u32::try_from(part.number).unwrap_or(u32::MAX),
        words: u32::try_from(part.words.len()).unwrap_or(u32::MAX),
        depth: u8::try_from(part.depth).unwrap_or(u8::MAX),
        blocks_log: u8::try_from(part.blocks_log).unwrap_or(u8::MAX),
        stamp: part.stamp,
        ..PartHead::default()
    };
    append(bytes, &head);
    bytes.extend_from_slice(words);
    Ok(())
}

/// Returns the parts of a chunk that ends at a position of a dump.
///
/// # Errors
/// [`DecodeError`].
pub(super) fn read_parts(mut bytes: &[u8], end: u64) -> Result<Vec<TablePart>, DecodeError> {
    if end > POSITIONS {
        return Err(DecodeError::Invalid("position"));
    }
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let head: PartHead = read(take::<PART_BYTES>(&mut bytes)?)?;
        let PartHead { number, words, depth, blocks_log, reserved, stamp } = head;
        let length = (words as usize).checked_mul(8).ok_or(DecodeError::Truncated)?;
        let (words, rest) = bytes.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        bytes = rest;
        let first = u64::from(number.reverse_bits());
        if reserved != [0; 6] || first >= end {
            return Err(DecodeError::Invalid("part"));
        }
        let words = read_words(words)?;
        parts.try_reserve(1).map_err(|_| DecodeError::OutOfMemory)?;
        let number = number as usize;
        parts.push(TablePart { number, depth: depth.into(), blocks_log: blocks_log.into(), stamp, words });
    }
    Ok(parts)
}
