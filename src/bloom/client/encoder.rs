//! Encoded items in chunks on the stack: however long an item is, its encoded form takes no memory.

use std::io::{self, Read};

use smallvec::SmallVec;

use super::text::{BLOCK_BYTES, Form};

/// A prefix, text in a form, then perhaps one more byte.
#[derive(Debug)]
pub(super) struct FormedText<'i> {
    pub(super) form: Form,
    pub(super) prefix: SmallVec<[u8; PREFIX_MAX_BYTES]>,
    pub(super) text: &'i str,
    pub(super) suffix: Option<u8>,
}

impl<'i> FormedText<'i> {
    /// Nothing but the text.
    #[inline(always)]
    pub(super) fn plain(form: Form, text: &'i str) -> Self {
        Self { form, prefix: SmallVec::new(), text, suffix: None }
    }
}

/// Shows `take` all chunks of a text.
// Not for every hash anew: a call for each chunk is nothing beside the chunk.
#[inline(never)]
pub(super) fn encode_text(text: FormedText<'_>, take: &mut dyn FnMut(&[u8])) {
    let mut encoder = TextEncoder::new(text);
    while let Some(chunk) = encoder.next_chunk() {
        take(chunk);
    }
}

/// Text on its way into a form.
#[derive(Debug)]
pub(super) struct TextEncoder<'i> {
    form: Form,
    rest: &'i [u8],
    suffix: Option<u8>,
    output: Output,
    /// Bytes of the chunk that are still to be [read](Read::read).
    unread: usize,
    /// Whether the last chunk, which is not full, has been made.
    is_at_end: bool,
}

impl<'i> TextEncoder<'i> {
    #[inline(always)]
    pub(super) fn new(text: FormedText<'i>) -> Self {
        let FormedText { form, prefix, text, suffix } = text;
        let mut output = Output { bytes: [0; CHUNK_BYTES + STEP_MAX_BYTES], filled: 0 };
        prefix.iter().for_each(|byte| output.put([*byte], 1));
        Self { form, rest: text.as_bytes(), suffix, output, unread: 0, is_at_end: false }
    }

    /// The next bytes, in chunks of which all but the last are whole blocks of 64. O(bytes).
    #[inline(always)]
    pub(super) fn next_chunk(&mut self) -> Option<&[u8]> {
        if self.is_at_end {
            return None;
        }
        self.output.drop_chunk();
        self.rest = self.form.put_text(self.rest, &mut self.output);
        if self.output.has_room() {
            self.is_at_end = true;
            if let Some(suffix) = self.suffix {
                self.output.put([suffix], 1);
            }
        }
        Some(self.output.chunk())
    }
}

impl Read for TextEncoder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.unread == 0 {
            self.unread = self.next_chunk().map_or(0, <[u8]>::len);
        }
        let chunk = self.output.chunk();
        let mut rest = chunk.len().checked_sub(self.unread).and_then(|at| chunk.get(at..)).unwrap_or(&[]);
        let bytes = rest.read(buffer)?;
        self.unread = self.unread.saturating_sub(bytes);
        Ok(bytes)
    }
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
