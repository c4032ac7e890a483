//! The chunk that encoded text is written into.

/// Bytes of text that are looked at together: what a processor compares in one instruction.
pub(super) const BLOCK_BYTES: usize = 16;
/// Bytes of a chunk: a multiple of the blocks of every hash.
const CHUNK_BYTES: usize = 128;
/// Most bytes that are written at once: a block in UTF-16.
pub(super) const STEP_MAX_BYTES: usize = 2 * BLOCK_BYTES;

/// A chunk, and what the last step wrote beyond it.
#[derive(Clone, Debug)]
pub(super) struct Output {
    bytes: [u8; CHUNK_BYTES + STEP_MAX_BYTES],
    filled: usize,
}

impl Default for Output {
    #[inline(always)]
    fn default() -> Self {
        Self { bytes: [0; CHUNK_BYTES + STEP_MAX_BYTES], filled: 0 }
    }
}

impl Output {
    pub(super) fn has_room(&self) -> bool {
        self.filled < CHUNK_BYTES
    }

    /// Writes the first `used` of the bytes; the others are written over later. There is room for all of them
    /// as long as [`has_room`](Self::has_room).
    #[inline(always)]
    pub(super) fn put<const N: usize>(&mut self, bytes: [u8; N], used: usize) {
        const { assert!(N <= STEP_MAX_BYTES) };
        if let Some(target) = self.bytes.get_mut(self.filled..).and_then(<[u8]>::first_chunk_mut) {
            *target = bytes;
            self.filled += used;
        }
    }

    pub(super) fn chunk(&self) -> &[u8] {
        self.bytes.get(..self.filled.min(CHUNK_BYTES)).unwrap_or(&[])
    }

    /// Moves what lies beyond a full chunk to the front.
    pub(super) fn drop_chunk(&mut self) {
        if let Some(beyond) = self.filled.checked_sub(CHUNK_BYTES) {
            self.bytes.copy_within(CHUNK_BYTES.., 0);
            self.filled = beyond;
        }
    }
}
