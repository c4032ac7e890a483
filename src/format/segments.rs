//! The bits of a filter in pieces: as strings of a snapshot, or as chunks of a dump at positions in the bytes of all
//! layers.

use std::ops::Range;

use crate::bloom::bits::is_clear;
use crate::bloom::{Filter, Layer, Memory};

/// Most bytes of a layer in one string of a snapshot or one chunk of a dump: 16 MiB. It bounds the memory that
/// saving, dumping and loading take besides the filter. Snapshots are read in strings of this length, so it is part
/// of the format and must not change.
pub const CHUNK_BYTES: usize = 16 << 20;

/// At most [`CHUNK_BYTES`] of one layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerChunk<'f> {
    /// Its start in a dump.
    pub(super) position: u64,
    /// Its bits.
    pub(super) bytes: &'f [u8],
}

impl LayerChunk<'_> {
    /// Returns the position of the byte after it in a dump.
    pub(super) const fn end(&self) -> u64 {
        self.position.saturating_add(self.bytes.len() as u64)
    }
}

/// Returns the pieces of a layer, each with whether it is clear. Does not touch memory that was never written to.
/// O(bytes that may be set).
pub(super) fn pieces<'f, M: Memory + 'f>(
    layer: &'f Layer,
    memory: M,
) -> impl Iterator<Item = (&'f [u8], bool)> {
    let occupancy = layer.bits().occupancy(memory);
    layer.bits().bytes().chunks(CHUNK_BYTES).scan(0usize, move |start, bytes| {
        let range = *start..start.saturating_add(bytes.len());
        *start = range.end;
        Some((bytes, occupancy.is_clear(range) || is_clear(bytes)))
    })
}

/// Returns the chunks of all layers, those of the oldest first, each with whether it is clear. O(bytes that may be
/// set).
pub(super) fn chunks<'f, M: Memory + 'f>(
    filter: &'f Filter,
    memory: M,
) -> impl Iterator<Item = (LayerChunk<'f>, bool)> {
    located(filter).flat_map(move |Located { layer, range, .. }| {
        let mut position = range.start;
        pieces(layer, memory).map(move |(bytes, is_clear)| {
            let chunk = LayerChunk { position, bytes };
            position = chunk.end();
            (chunk, is_clear)
        })
    })
}

/// A layer and its position in a dump.
#[derive(Clone, Debug)]
pub(super) struct Located<'f> {
    /// The layer.
    pub(super) layer: &'f Layer,
    /// Its index, 0 being the oldest.
    pub(super) index: usize,
    /// Its bytes in a dump.
    pub(super) range: Range<u64>,
}

impl Located<'_> {
    /// Returns the offset in the layer of a position in a dump.
    pub(super) fn offset_of(&self, position: u64) -> Option<usize> {
        position.checked_sub(self.range.start).and_then(|offset| usize::try_from(offset).ok())
    }
}

/// Returns the layers with their positions in a dump.
fn located(filter: &Filter) -> impl Iterator<Item = Located<'_>> {
    let mut end = 0;
    filter.layers().iter().enumerate().map(move |(index, layer)| {
        let range = layer.dump_range(end);
        end = range.end;
        Located { layer, index, range }
    })
}

/// Returns the first layer that ends after a position of a dump; `None` past the end. O(layers).
pub(super) fn locate(filter: &Filter, position: u64) -> Option<Located<'_>> {
    located(filter).find(|located| position < located.range.end)
}

/// Returns the chunk with a position of a dump, or the first one after it; `None` past the end. O(layers).
pub(super) fn chunk_at(filter: &Filter, position: u64) -> Option<LayerChunk<'_>> {
    let located = locate(filter, position)?;
    let bytes = located.layer.bits().bytes_from(located.offset_of(position)?, CHUNK_BYTES)?;
    Some(LayerChunk { position, bytes })
}
