//! The seal at the end of every chunk of a dump: the dump id and a checksum.

use super::segments::LayerChunk;
use super::stream::DecodeError;
use crate::bloom::hash::murmur3::hash128;
use crate::bloom::{ItemHash, Layer, Origin, OutOfMemory, StateMark};

/// Bytes of the dump id.
const MARK_BYTES: usize = 8;
/// Bytes of the checksum, which is last.
const CHECK_BYTES: usize = 16;
/// Bytes of the seal at the end of every chunk.
pub const SEAL_BYTES: usize = MARK_BYTES + CHECK_BYTES;

/// Returns the payload and the dump id of a chunk if its checksum is correct.
pub(super) fn open<'d>(data: &'d [u8], place: &Place) -> Option<(&'d [u8], StateMark)> {
    let (bytes, check) = data.split_last_chunk::<CHECK_BYTES>()?;
    let (payload, mark) = bytes.split_last_chunk::<MARK_BYTES>()?;
    let mark = StateMark::from_le_bytes(*mark);
    (place.check(payload, mark) == *check).then_some((payload, mark))
}

/// Returns a header without its seal if its checksum is correct, and the origin of the filter that it creates.
///
/// # Errors
/// [`DecodeError::Truncated`] if it is damaged, or not one of everbloom's.
pub(super) fn open_header(data: &[u8]) -> Result<(&[u8], Origin), DecodeError> {
    let (bytes, mark) = open(data, &Place::Header).ok_or(DecodeError::Truncated)?;
    // The id is 0 in a dump that did not begin with its header.
    Ok((bytes, if mark == 0 { Origin::NoHeader } else { Origin::Marked(mark) }))
}

/// The place of a chunk, which is part of its checksum.
pub(super) enum Place {
    /// The chunk is the header.
    Header,
    /// The chunk is a part of a layer.
    Chunk {
        /// Its start in the dump.
        position: u64,
        /// Bits of its layer. This and the next two fields are 0 if the position alone identifies the layer among all
        /// layers that the filter ever had, because the layer may have been dropped when the chunk is loaded.
        size_bits: u64,
        capacity_items: u64,
        probes: u32,
    },
}

impl Place {
    /// Returns the place of a chunk of a layer that begins at `position` of a dump.
    pub(super) fn chunk(layer: &Layer, position: u64) -> Self {
        if layer.address().is_some() {
            return Self::in_window(position);
        }
        let (size_bits, capacity_items) = (layer.cells().size_bits(), layer.capacity_items());
        Self::Chunk { position, size_bits, capacity_items, probes: layer.layout().probes() }
    }

    /// Returns the place of a chunk of a sliding-window filter, whose layers are identified by their positions.
    pub(super) const fn in_window(position: u64) -> Self {
        Self::Chunk { position, size_bits: 0, capacity_items: 0, probes: 0 }
    }

    /// Returns the checksum of `bytes` at this place: a hash of their hash, of the place, and of the dump id.
    fn check(&self, bytes: &[u8], mark: StateMark) -> [u8; CHECK_BYTES] {
        let ItemHash { h1, h2 } = hash128(bytes);
        let [position, size_bits, capacity_items, probes] = match *self {
            Self::Header => [0; 4],
            Self::Chunk { position, size_bits, capacity_items, probes } => {
                [position, size_bits, capacity_items, probes.into()]
            }
        };
        let words = [h1, h2, position, size_bits, capacity_items, probes, mark];
        let digest = hash128(bytemuck::cast_slice(&words));
        bytemuck::cast([digest.h1, digest.h2])
    }
}

/// Makes chunks one after another in the same memory.
#[derive(Default)]
pub(super) struct Sealer(Vec<u8>);

impl Sealer {
    /// Returns a header with its seal.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn header(&mut self, header: &[u8], mark: StateMark) -> Result<&[u8], OutOfMemory> {
        self.seal([header, &[]], |_| {}, &Place::Header, mark)
    }

    /// Returns a chunk with its seal. `cut` may change the payload first.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn chunk(
        &mut self,
        chunk: &LayerChunk<'_>,
        cut: impl FnOnce(&mut [u8]),
        mark: StateMark,
    ) -> Result<&[u8], OutOfMemory> {
        let place = Place::chunk(chunk.layer, chunk.position);
        self.seal([chunk.segment.cells, chunk.segment.stamps], cut, &place, mark)
    }

    fn seal(
        &mut self,
        payload: [&[u8]; 2],
        cut: impl FnOnce(&mut [u8]),
        place: &Place,
        mark: StateMark,
    ) -> Result<&[u8], OutOfMemory> {
        let Self(sealed) = self;
        sealed.clear();
        let payload_bytes = payload.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()));
        sealed.try_reserve_exact(payload_bytes.saturating_add(SEAL_BYTES)).map_err(|_| OutOfMemory)?;
        payload.iter().for_each(|part| sealed.extend_from_slice(part));
        cut(sealed);
        let check = place.check(sealed, mark);
        sealed.extend_from_slice(&mark.to_le_bytes());
        sealed.extend_from_slice(&check);
        Ok(sealed)
    }

    /// Returns the last chunk.
    pub(super) fn into_chunk(self) -> Vec<u8> {
        self.0
    }
}
