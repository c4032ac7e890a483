//! What the kinds of the data type `everbloom` have in common in a snapshot: the header, then the arrays in
//! chunks.
//!
//! A chunk whose bits are all clear is an empty string, so an empty filter of any size is saved and loaded
//! without touching its memory.

use super::arrays::{Arrays, CHUNK_BYTES, chunks};
use super::plan::FilterPlan;
use super::record::{DecodeError, Sink, Source};
use crate::bloom::layer::Layer;
use crate::bloom::{Chain, Family, LayerCounts, Memory, Probes, Storage};

/// Writes a header and the arrays behind it. O(bytes that may be set, as far as is known).
pub fn save<A: Arrays>(header: &[u8], arrays: &A, sink: &mut impl Sink, memory: impl Memory) {
    sink.bytes(header);
    for (chunk, is_clear) in chunks(arrays, memory) {
        sink.bytes(if is_clear { &[] } else { chunk.bytes });
    }
}

/// Reads the arrays behind a header that has been read. O(bytes); takes the memory of the filter and of one
/// chunk.
///
/// # Errors
/// The first thing that is wrong with the bytes, or [`DecodeError::OutOfMemory`].
pub fn load<F: Family>(plan: FilterPlan<F>, source: &mut impl Source) -> Result<Chain<F>, DecodeError> {
    plan.build(|layer, counts| fill(layer, counts, source))
}

/// Reads the array of one layer, which is made and clear, behind a header that says so much of it.
///
/// # Errors
/// As [`load`].
pub(super) fn fill<P: Probes>(
    layer: &mut Layer<P>,
    counts: LayerCounts,
    source: &mut impl Source,
) -> Result<(), DecodeError> {
    let size_bytes = layer.storage().bytes().len();
    for offset in (0..size_bytes).step_by(CHUNK_BYTES) {
        let chunk = source.bytes()?;
        let expected_bytes = CHUNK_BYTES.min(size_bytes.saturating_sub(offset));
        if !chunk.is_empty()
            && (chunk.len() != expected_bytes || !layer.storage_mut().add_bytes(offset, &chunk))
        {
            return Err(DecodeError::Invalid("chunk length"));
        }
    }
    if layer.counts().set_bits != counts.set_bits {
        return Err(DecodeError::Invalid("set bits"));
    }
    Ok(())
}
