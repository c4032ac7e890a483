//! everbloom's own encoding in a snapshot: the header, then the bit arrays in chunks.
//!
//! Chunks bound the memory that saving and loading take beside the filter itself. A chunk whose bits are all clear
//! is an empty string, so an empty filter of any size is saved and loaded without touching its memory.

use super::header::{self, Header};
use super::record::{DecodeError, Sink, Source};
use crate::bloom::{ByteLimit, Chain, Layer, LayerCounts};

/// Version under which the data type is registered.
pub const ENCODING_VERSION: i32 = 1;

/// Bytes of a bit array that are saved as one string.
pub const CHUNK_BYTES: usize = 16 << 20;

/// Writes a filter. O(bytes).
pub fn save(chain: &Chain, sink: &mut impl Sink) {
    sink.bytes(&header::encode(chain));
    for layer in chain.layers() {
        for chunk in layer.bits().bytes().chunks(CHUNK_BYTES) {
            // A layer without a set bit need not be read to know that its chunks are clear.
            let is_clear = layer.counts().set_bits == 0 || chunk.iter().all(|byte| *byte == 0);
            sink.bytes(if is_clear { &[] } else { chunk });
        }
    }
}

/// Reads what [`save`] wrote. O(bytes); takes the memory of the filter and of one chunk.
///
/// # Errors
/// The first thing that is wrong with the bytes.
pub fn load(source: &mut impl Source, limit: &dyn ByteLimit) -> Result<Chain, DecodeError> {
    let header = source.bytes()?;
    Header::decode(&header, limit)?.build(|layer, counts| fill(layer, counts, source))
}

fn fill(layer: &mut Layer, counts: LayerCounts, source: &mut impl Source) -> Result<(), DecodeError> {
    let size_bytes = layer.bits().bytes().len();
    for offset in (0..size_bytes).step_by(CHUNK_BYTES) {
        let chunk = source.bytes()?;
        let expected_bytes = CHUNK_BYTES.min(size_bytes.saturating_sub(offset));
        if !chunk.is_empty()
            && (chunk.len() != expected_bytes || !layer.bits_mut().write_bytes(offset, &chunk))
        {
            return Err(DecodeError::Invalid("chunk length"));
        }
    }
    if layer.counts().set_bits != counts.set_bits {
        return Err(DecodeError::Invalid("set bits"));
    }
    Ok(())
}
