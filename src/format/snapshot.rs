//! A filter of everbloom's own format in a snapshot: its record, then the cells of each layer in segments. Each
//! segment is a string of its cells and, for cells with stamps, a string of the stamps.
//!
//! A string whose cells are all clear is empty, so an empty filter of any size is saved and loaded without touching
//! its memory.

use super::record::Header;
use super::segments::{CHUNK_BYTES, segments};
use super::stream::{DecodeError, Sink, Source};
use crate::bloom::{ByteLimit, Filter, Layer, Memory};

/// Writes a filter. O(bytes that may be set).
pub(super) fn save(header: &[u8], filter: &Filter, sink: &mut impl Sink, memory: impl Memory) {
    sink.bytes(header);
    for layer in filter.layers() {
        for (segment, is_clear) in segments(layer, memory) {
            let shown = |bytes| if is_clear { &[][..] } else { bytes };
            sink.bytes(shown(segment.cells));
            if !segment.stamps.is_empty() {
                sink.bytes(shown(segment.stamps));
            }
        }
    }
}

/// Reads a filter. O(bytes); takes the memory of the filter and of two segments.
///
/// # Errors
/// The first wrong field, [`DecodeError::TooLarge`] or [`DecodeError::OutOfMemory`].
pub(super) fn load(source: &mut impl Source, limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let header = source.bytes()?;
    let (mut filter, set_cells) = Header::decode(&header, limit)?.build()?;
    for (layer, set_cells) in filter.layers_mut().iter_mut().zip(set_cells) {
        fill(layer, source)?;
        if layer.counts().set_cells != set_cells {
            return Err(DecodeError::Invalid("set cells"));
        }
    }
    Ok(filter)
}

/// Reads the cells of one layer, which must be clear.
fn fill(layer: &mut Layer, source: &mut impl Source) -> Result<(), DecodeError> {
    let mut offset = 0usize;
    while let Some(segment) = layer.cells().segment(offset, CHUNK_BYTES) {
        let (cell_bytes, stamp_bytes) = (segment.cells.len(), segment.stamps.len());
        let cells = source.bytes()?;
        let stamps = if stamp_bytes == 0 { None } else { Some(source.bytes()?) };
        let stamps = stamps.as_deref().unwrap_or_default();
        let is = |bytes: &[u8], expected_bytes| bytes.is_empty() || bytes.len() == expected_bytes;
        if !is(&cells, cell_bytes) || !is(stamps, stamp_bytes) {
            return Err(DecodeError::Invalid("chunk length"));
        }
        let is_clear = cells.is_empty() && stamps.is_empty();
        if !is_clear && !layer.cells_mut().add_parts(offset, &cells, stamps) {
            return Err(DecodeError::Invalid("chunk"));
        }
        offset = offset.saturating_add(cell_bytes).saturating_add(stamp_bytes);
    }
    Ok(())
}
