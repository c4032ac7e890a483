//! The cells of a filter in segments: as strings of a snapshot, or as chunks of a dump at positions in the bytes of
//! all layers.

use std::ops::Range;

use crate::bloom::cells::{Segment, is_clear};
use crate::bloom::{Filter, Layer, Memory, Occupancy};

/// Most bytes of a layer in one string of a snapshot or one chunk of a dump: 16 MiB. It bounds the memory that
/// saving, dumping and loading take besides the filter. Snapshots are read in strings of this length, so it is part
/// of the format and must not change.
pub const CHUNK_BYTES: usize = 16 << 20;

/// At most [`CHUNK_BYTES`] of one layer.
#[derive(Clone, Debug)]
pub(super) struct LayerChunk<'f> {
    /// Its layer.
    pub(super) layer: &'f Layer,
    /// Its start in a dump.
    pub(super) position: u64,
    /// Its cells and stamps.
    pub(super) segment: Segment<'f>,
}

impl LayerChunk<'_> {
    /// Returns the position of the byte after it in a dump.
    pub(super) const fn end(&self) -> u64 {
        let Segment { cells, stamps, .. } = self.segment;
        self.position.saturating_add(cells.len() as u64).saturating_add(stamps.len() as u64)
    }
}

/// Returns the segments of a layer, each with whether it is clear. Does not touch memory that was never written to.
/// O(bytes that may be set).
pub(super) fn segments<'f, M: Memory + 'f>(
    layer: &'f Layer,
    memory: M,
) -> impl Iterator<Item = (Segment<'f>, bool)> {
    let occupancy = Occupancy::of(layer.cells(), memory);
    let mut offset = 0usize;
    let next = move || {
        let segment = layer.cells().segment(offset, CHUNK_BYTES)?;
        offset = offset.saturating_add(segment.cells.len()).saturating_add(segment.stamps.len());
        Some(segment)
    };
    std::iter::from_fn(next).map(move |segment| {
        let are_cells_clear = || occupancy.is_clear(segment.range.clone()) || is_clear(segment.cells);
        let is_clear = is_clear(segment.stamps) && are_cells_clear();
        (segment, is_clear)
    })
}

/// Returns all chunks, those of the oldest layer first, each with whether it is clear. O(bytes that may be set).
pub(super) fn chunks<'f, M: Memory + 'f>(
    filter: &'f Filter,
    memory: M,
) -> impl Iterator<Item = (LayerChunk<'f>, bool)> {
    located(filter).flat_map(move |Located { layer, range, .. }| {
        segments(layer, memory).map(move |(segment, is_clear)| {
            let position = range.start.saturating_add(segment.offset as u64);
            (LayerChunk { layer, position, segment }, is_clear)
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
    /// Returns the offset in the layer of a position in a dump; `None` for a position before the layer, in a layer
    /// that was dropped.
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
    let segment = located.layer.cells().segment(located.offset_of(position).unwrap_or(0), CHUNK_BYTES)?;
    let position = located.range.start.saturating_add(segment.offset as u64);
    Some(LayerChunk { layer: located.layer, position, segment })
}
