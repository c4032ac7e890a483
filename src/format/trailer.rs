//! The end of every chunk of a dump: the dump id and a checksum.

use crate::bloom::hash::murmur3::hash128;
use crate::bloom::{DumpId, ItemHash, OutOfMemory};

/// Bytes of the dump id.
const ID_BYTES: usize = 8;
/// Bytes of the checksum, which is last.
const CHECKSUM_BYTES: usize = 16;
/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = ID_BYTES + CHECKSUM_BYTES;

/// Returns the payload of a chunk and the id of its dump, if its checksum is that of a chunk with the iterator that
/// `iterator` returns for this id.
pub(super) fn verify(data: &[u8], iterator: impl FnOnce(DumpId) -> u64) -> Option<(&[u8], DumpId)> {
    let (bytes, expected) = data.split_last_chunk::<CHECKSUM_BYTES>()?;
    let (payload, id) = bytes.split_last_chunk::<ID_BYTES>()?;
    let id = DumpId::from_le_bytes(*id);
    (checksum(payload, iterator(id), id) == *expected).then_some((payload, id))
}

/// Returns the checksum of a chunk: a hash of the hash of its payload, of the iterator that it is loaded with, and of
/// its dump id.
fn checksum(payload: &[u8], iterator: u64, id: DumpId) -> [u8; CHECKSUM_BYTES] {
    let ItemHash { h1, h2 } = hash128(payload);
    let digest = hash128(bytemuck::cast_slice(&[h1, h2, iterator, id]));
    bytemuck::cast([digest.h1, digest.h2])
}

/// Makes chunks one after another in the same memory.
#[derive(Default)]
pub(super) struct ChunkWriter(Vec<u8>);

impl ChunkWriter {
    /// Returns the payload of the next chunk, which is empty.
    pub(super) fn payload(&mut self) -> &mut Vec<u8> {
        self.0.clear();
        &mut self.0
    }

    /// Returns the chunk of the payload: with its trailer.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn seal(&mut self, iterator: u64, id: DumpId) -> Result<&[u8], OutOfMemory> {
        let Self(chunk) = self;
        chunk.try_reserve(TRAILER_BYTES).map_err(|_| OutOfMemory)?;
        let checksum = checksum(chunk, iterator, id);
        chunk.extend_from_slice(&id.to_le_bytes());
        chunk.extend_from_slice(&checksum);
        Ok(chunk)
    }

    /// Returns the chunk of these bytes.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn write(&mut self, bytes: &[u8], iterator: u64, id: DumpId) -> Result<&[u8], OutOfMemory> {
        let payload = self.payload();
        payload.try_reserve_exact(bytes.len().saturating_add(TRAILER_BYTES)).map_err(|_| OutOfMemory)?;
        payload.extend_from_slice(bytes);
        self.seal(iterator, id)
    }

    /// Returns the last chunk.
    pub(super) fn into_chunk(self) -> Vec<u8> {
        self.0
    }
}
