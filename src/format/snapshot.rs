//! What the kinds of the data type `everbloom` have in common in a snapshot: the header, then the arrays in
//! segments, each a string of its cells and, where it has stamps, a string of those.
//!
//! A string whose bits are all clear is empty, so an empty filter of any size is saved and loaded without touching its
//! memory.

use super::arrays::{Arrays, CHUNK_BYTES, segments};
use super::plan::FilterPlan;
use super::record::{DecodeError, Sink, Source};
use crate::bloom::layer::Layer;
use crate::bloom::{Chain, Family, Memory, Probes, Storage};

/// Writes a header and the arrays behind it. O(bytes that may be set, as far as is known).
pub fn save<A: Arrays>(header: &[u8], arrays: &A, sink: &mut impl Sink, memory: impl Memory) {
    sink.bytes(header);
    for index in (0..).take_while(|index| arrays.array(*index).is_some()) {
        for (segment, is_clear) in segments(arrays, index, memory) {
            let shown = |bytes| if is_clear { &[][..] } else { bytes };
            sink.bytes(shown(segment.cells));
            if !segment.stamps.is_empty() {
                sink.bytes(shown(segment.stamps));
            }
        }
    }
}

/// Reads the arrays behind a header that has been read. O(bytes); takes the memory of the filter and of one
/// segment.
///
/// # Errors
/// The first thing that is wrong with the bytes, or [`DecodeError::OutOfMemory`].
pub fn load<F: Family>(plan: FilterPlan<F>, source: &mut impl Source) -> Result<Chain<F>, DecodeError> {
    let (mut chain, set_bits) = plan.build()?;
    for (layer, set_bits) in chain.layers_mut().iter_mut().zip(set_bits) {
        fill(layer, set_bits, source)?;
    }
    Ok(chain)
}

/// Reads the array of one layer, which is clear.
fn fill<P: Probes>(layer: &mut Layer<P>, set_bits: u64, source: &mut impl Source) -> Result<(), DecodeError> {
    let mut offset = 0usize;
    while let Some(segment) = layer.storage().segment(offset, CHUNK_BYTES) {
        let (cells_bytes, stamps_bytes) = (segment.cells.len(), segment.stamps.len());
        let cells = source.bytes()?;
        let stamps = if stamps_bytes == 0 { None } else { Some(source.bytes()?) };
        let stamps = stamps.as_deref().unwrap_or_default();
        let is = |bytes: &[u8], expected_bytes| bytes.is_empty() || bytes.len() == expected_bytes;
        if !is(&cells, cells_bytes) || !is(stamps, stamps_bytes) {
            return Err(DecodeError::Invalid("chunk length"));
        }
        let is_clear = cells.is_empty() && stamps.is_empty();
        if !is_clear && !layer.storage_mut().add_segment(offset, &cells, stamps) {
            return Err(DecodeError::Invalid("chunk"));
        }
        offset = offset.saturating_add(cells_bytes).saturating_add(stamps_bytes);
    }
    if layer.counts().set_bits != set_bits {
        return Err(DecodeError::Invalid("set bits"));
    }
    Ok(())
}
