//! Encoded items in chunks on the stack: however long an item is, its encoded form takes no memory.

use super::text::{BLOCK_BYTES, Form};

/// Shows `take` a prefix of at most [`PREFIX_MAX_BYTES`], then the text in a form, then perhaps one more
/// byte, in chunks of which all but the last are whole blocks of 64. O(length).
// Not for every hash anew: a call for each chunk is nothing beside the chunk.
#[inline(never)]
pub(super) fn encode_text(
    form: Form,
    prefix: &[u8],
    text: &str,
    suffix: Option<u8>,
    take: &mut dyn FnMut(&[u8]),
) {
    debug_assert!(prefix.len() <= PREFIX_MAX_BYTES, "a prefix of {} bytes", prefix.len());
    let mut output = Output { bytes: [0; CHUNK_BYTES + STEP_MAX_BYTES], filled: 0 };
    prefix.iter().for_each(|byte| output.put([*byte], 1));
    let mut rest = text.as_bytes();
    loop {
        rest = form.put_text(rest, &mut output);
        if output.has_room() {
            break;
        }
        take(output.chunk());
        output.drop_chunk();
    }
    if let Some(suffix) = suffix {
        output.put([suffix], 1);
    }
    take(output.chunk());
}

/// Bytes of a chunk: a multiple of the blocks of every hash.
const CHUNK_BYTES: usize = 128;
/// Most bytes that are written at once: a block in UTF-16.
pub(super) const STEP_MAX_BYTES: usize = 2 * BLOCK_BYTES;
/// Most bytes in front of a text.
pub(super) const PREFIX_MAX_BYTES: usize = 16;

/// A chunk, and what the last step wrote beyond it.
#[derive(Clone, Debug)]
pub(super) struct Output {
    bytes: [u8; CHUNK_BYTES + STEP_MAX_BYTES],
    filled: usize,
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

    fn chunk(&self) -> &[u8] {
        self.bytes.get(..self.filled.min(CHUNK_BYTES)).unwrap_or(&[])
    }

    /// Moves what lies beyond a full chunk to the front.
    fn drop_chunk(&mut self) {
        if let Some(beyond) = self.filled.checked_sub(CHUNK_BYTES) {
            self.bytes.copy_within(CHUNK_BYTES.., 0);
            self.filled = beyond;
        }
    }
}
