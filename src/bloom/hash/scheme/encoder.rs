//! Encoded items in chunks on the stack: however long an item is, its encoded form takes no memory.

use std::io::{self, Read};

use smallvec::SmallVec;

use super::output::Output;
use super::text::Form;

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
        let mut output = Output::default();
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

/// Most bytes in front of a text.
pub(super) const PREFIX_MAX_BYTES: usize = 16;
