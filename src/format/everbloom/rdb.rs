//! everbloom's own encoding in a snapshot: the header, then the bit arrays in chunks.
//!
//! Chunks bound the memory that saving and loading take beside the filter itself. A chunk whose bits are all clear
//! is an empty string, so an empty filter of any size is saved and loaded without touching its memory.

use super::header::{self, Header, KIND_CLIENT};
use crate::bloom::bits::is_clear;
use crate::bloom::{
    BitFamily, Bits, ByteLimit, Chain, Filter, Layer, LayerCounts, Memory, Occupancy, Probes,
};
use crate::format::client::header::{self as client, ClientChain};
use crate::format::record::{DecodeError, Sink, Source};

/// Version under which the data type is registered.
pub const ENCODING_VERSION: i32 = 1;

/// Bytes of a bit array that are saved as one string.
pub const CHUNK_BYTES: usize = 16 << 20;

/// Writes a filter. O(bytes that may be set, as far as is known).
pub fn save(chain: &Chain, sink: &mut impl Sink, memory: impl Memory) {
    save_with(chain, &header::encode(chain), sink, memory);
}

/// Writes a client's filter that was taken over. O(bytes that may be set, as far as is known).
pub fn save_imported(chain: &ClientChain, sink: &mut impl Sink, memory: impl Memory) {
    save_with(chain, &client::encode(chain), sink, memory);
}

fn save_with<F: BitFamily>(chain: &Chain<F>, header: &[u8], sink: &mut impl Sink, memory: impl Memory) {
    sink.bytes(header);
    for layer in chain.layers() {
        let occupancy = Occupancy::of(layer.bits(), memory);
        for (chunk, start) in layer.bits().bytes().chunks(CHUNK_BYTES).zip((0..).step_by(CHUNK_BYTES)) {
            let is_clear = occupancy.is_clear(start..start.saturating_add(chunk.len())) || is_clear(chunk);
            sink.bytes(if is_clear { &[] } else { chunk });
        }
    }
}

/// Reads what [`save`] or [`save_imported`] wrote. O(bytes); takes the memory of the filter and of one chunk.
///
/// # Errors
/// The first thing that is wrong with the bytes.
pub fn load(source: &mut impl Source, limit: &dyn ByteLimit) -> Result<Filter, DecodeError> {
    let header = source.bytes()?;
    if header::kind_of(&header) == Some(KIND_CLIENT) {
        let chain = client::build(&header, limit, |layer, counts| fill(layer, counts, source))?;
        return Ok(Filter::Client(Box::new(chain)));
    }
    let chain = Header::decode(&header, limit)?.build(|layer, counts| fill(layer, counts, source))?;
    Ok(Filter::Everbloom(chain))
}

fn fill<P: Probes<Storage = Bits>>(
    layer: &mut Layer<P>,
    counts: LayerCounts,
    source: &mut impl Source,
) -> Result<(), DecodeError> {
    let size_bytes = layer.bits().bytes().len();
    for offset in (0..size_bytes).step_by(CHUNK_BYTES) {
        let chunk = source.bytes()?;
        let expected_bytes = CHUNK_BYTES.min(size_bytes.saturating_sub(offset));
        if !chunk.is_empty() && (chunk.len() != expected_bytes || !layer.bits_mut().add_bytes(offset, &chunk))
        {
            return Err(DecodeError::Invalid("chunk length"));
        }
    }
    if layer.counts().set_bits != counts.set_bits {
        return Err(DecodeError::Invalid("set bits"));
    }
    Ok(())
}
