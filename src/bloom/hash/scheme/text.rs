//! Encodes text as clients' libraries do, in chunks on the stack: a long item allocates nothing.

use std::io::{self, Read};

use smallvec::SmallVec;

/// A prefix, text in a form, and optionally one more byte.
#[derive(Debug)]
pub(super) struct FormedText<'i> {
    pub(super) form: Form,
    pub(super) prefix: SmallVec<[u8; PREFIX_MAX_BYTES]>,
    pub(super) text: &'i str,
    pub(super) suffix: Option<u8>,
}

impl<'i> FormedText<'i> {
    /// Returns the text without prefix and suffix.
    #[inline(always)]
    pub(super) fn plain(form: Form, text: &'i str) -> Self {
        Self { form, prefix: SmallVec::new(), text, suffix: None }
    }
}

/// Passes each chunk of a text to `take`.
///
/// Compiled once for all hashes: a call per chunk costs little.
#[inline(never)]
pub(super) fn encode_text(text: FormedText<'_>, take: &mut dyn FnMut(&[u8])) {
    let mut encoder = TextEncoder::new(text);
    while let Some(chunk) = encoder.next_chunk() {
        take(chunk);
    }
}

/// An encoder of text, chunk by chunk.
#[derive(Debug)]
pub(super) struct TextEncoder<'i> {
    form: Form,
    rest: &'i [u8],
    suffix: Option<u8>,
    output: Output,
    /// Bytes of the chunk that [`read`](Read::read) has not returned yet.
    unread: usize,
    /// Whether the last chunk, which is not full, was returned.
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

    /// Returns the next chunk. All but the last are whole blocks of 64 bytes. O(bytes).
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

/// Most bytes of a prefix.
pub(super) const PREFIX_MAX_BYTES: usize = 16;

/// How text becomes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// UTF-16, low byte first.
    Utf16Le,
    /// UTF-8, but characters beyond 16 bits as two surrogates of three bytes each.
    Cesu8,
    /// UTF-8, but quotes, backslash and control characters escaped, and characters beyond 16 bits as two escaped
    /// surrogates: Jackson's UTF-8 generator.
    Json,
}

/// The smallest first byte, in UTF-8, of characters that are two units (surrogates) in UTF-16.
const SURROGATES_FROM: u8 = 0xF0;

impl Form {
    /// Writes text, which must be UTF-8, until the chunk is full or the text ends. Returns the rest of the text.
    /// O(bytes).
    pub(super) fn put_text<'i>(self, text: &'i [u8], output: &mut Output) -> &'i [u8] {
        match self {
            Self::Utf16Le => put_text(text, output, put_block_utf16le, put_character_utf16le),
            Self::Cesu8 => put_text(text, output, put_block_cesu8, put_character_cesu8),
            Self::Json => put_text(text, output, put_block_json, put_character_json),
        }
    }
}

/// Writes text as [`Form::put_text`] does: blocks without special bytes at once, other text character by character.
#[inline(always)]
fn put_text<'i>(
    mut text: &'i [u8],
    output: &mut Output,
    put_block: impl Fn(&[u8; BLOCK_BYTES], &mut Output) -> bool,
    put_character: impl Fn(&'i [u8], &mut Output) -> &'i [u8],
) -> &'i [u8] {
    while output.has_room() && !text.is_empty() {
        if let Some((block, rest)) = text.split_first_chunk()
            && put_block(block, output)
        {
            text = rest;
            continue;
        }
        let end = text.len().saturating_sub(BLOCK_BYTES);
        while text.len() > end && output.has_room() {
            text = put_character(text, output);
        }
    }
    text
}

/// Writes the block unchanged if it has no special byte. Returns whether it did.
#[inline(always)]
fn put_plain(block: &[u8; BLOCK_BYTES], output: &mut Output, is_special: impl Fn(u8) -> bool) -> bool {
    // Tests all bytes, which the processor does in parallel.
    let is_plain = !block.iter().fold(false, |any, byte| any | is_special(*byte));
    if is_plain {
        output.put(*block, BLOCK_BYTES);
    }
    is_plain
}

#[inline(always)]
fn put_block_utf16le(block: &[u8; BLOCK_BYTES], output: &mut Output) -> bool {
    let is_ascii = block.is_ascii();
    if is_ascii {
        let mut units = [0; STEP_MAX_BYTES];
        units.as_chunks_mut().0.iter_mut().zip(block).for_each(|(unit, byte)| *unit = [*byte, 0]);
        output.put(units, STEP_MAX_BYTES);
    }
    is_ascii
}

#[inline(always)]
fn put_character_utf16le<'i>(text: &'i [u8], output: &mut Output) -> &'i [u8] {
    let (character, rest) = split_character(text);
    match u16::try_from(character) {
        Ok(unit) => output.put(unit.to_le_bytes(), 2),
        Err(_) => surrogates(character).iter().for_each(|unit| output.put(unit.to_le_bytes(), 2)),
    }
    rest
}

#[inline(always)]
fn put_block_cesu8(block: &[u8; BLOCK_BYTES], output: &mut Output) -> bool {
    put_plain(block, output, |byte| byte >= SURROGATES_FROM)
}

#[inline(always)]
fn put_character_cesu8<'i>(text: &'i [u8], output: &mut Output) -> &'i [u8] {
    if let [byte, rest @ ..] = text
        && *byte < SURROGATES_FROM
    {
        output.put([*byte], 1);
        return rest;
    }
    let (character, rest) = split_character(text);
    let tail = |bits: u16| 0x80 | (bits & 0x3F) as u8;
    for unit in surrogates(character) {
        // The UTF-8 encoding of characters of 16 bits.
        output.put([0xE0 | (unit >> 12) as u8, tail(unit >> 6), tail(unit)], 3);
    }
    rest
}

#[inline(always)]
fn put_block_json(block: &[u8; BLOCK_BYTES], output: &mut Output) -> bool {
    put_plain(block, output, |byte| {
        (byte < b' ') | (byte == b'"') | (byte == b'\\') | (byte >= SURROGATES_FROM)
    })
}

#[inline(always)]
fn put_character_json<'i>(text: &'i [u8], output: &mut Output) -> &'i [u8] {
    if let [byte, rest @ ..] = text
        && let Some((written, length)) = JSON.get(usize::from(*byte))
    {
        output.put(*written, usize::from(*length));
        return rest;
    }
    let (character, rest) = split_character(text);
    surrogates(character).iter().for_each(|unit| output.put(escaped(*unit), 6));
    rest
}

/// The JSON form of each byte below [`SURROGATES_FROM`], with its length.
static JSON: [([u8; 6], u8); SURROGATES_FROM as usize] = {
    let mut table = [([0; 6], 0); SURROGATES_FROM as usize];
    let mut byte = 0;
    while byte < SURROGATES_FROM {
        #[expect(
            clippy::indexing_slicing,
            reason = "evaluated by the compiler, which refuses an index outside"
        )]
        let entry = &mut table[byte as usize];
        *entry = written_in_json(byte);
        byte += 1;
    }
    table
};

const fn written_in_json(byte: u8) -> ([u8; 6], u8) {
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0C => b'f',
        b'\r' => b'r',
        ..b' ' => return (escaped(byte as u16), 6),
        _ => return ([byte, 0, 0, 0, 0, 0], 1),
    };
    ([b'\\', letter, 0, 0, 0, 0], 2)
}

/// Returns a unit of UTF-16 as `\u` and four digits.
const fn escaped(unit: u16) -> [u8; 6] {
    [b'\\', b'u', digit(unit >> 12), digit(unit >> 8), digit(unit >> 4), digit(unit)]
}

/// Returns the lowest four bits as a digit.
const fn digit(unit: u16) -> u8 {
    match (unit & 0xF) as u8 {
        low @ ..10 => b'0' + low,
        high => b'A' - 10 + high,
    }
}

/// Returns the first character as a number, and the rest of the text.
#[inline(always)]
fn split_character(text: &[u8]) -> (u32, &[u8]) {
    let tail = |byte: u8| u32::from(byte & 0x3F);
    match text {
        [a, rest @ ..] if *a < 0x80 => (u32::from(*a), rest),
        [a, b, rest @ ..] if *a < 0xE0 => (u32::from(*a & 0x1F) << 6 | tail(*b), rest),
        [a, b, c, rest @ ..] if *a < SURROGATES_FROM => {
            (u32::from(*a & 0xF) << 12 | tail(*b) << 6 | tail(*c), rest)
        }
        [a, b, c, d, rest @ ..] => {
            (u32::from(*a & 7) << 18 | tail(*b) << 12 | tail(*c) << 6 | tail(*d), rest)
        }
        // Text never ends within a character.
        _ => (0, &[]),
    }
}

/// Returns the two units of UTF-16 of a character beyond 16 bits.
fn surrogates(character: u32) -> [u16; 2] {
    let bits = character.wrapping_sub(0x1_0000);
    [0xD800 | (bits >> 10 & 0x3FF) as u16, 0xDC00 | (bits & 0x3FF) as u16]
}

/// Bytes of text that are tested together: the width of a vector instruction.
pub(super) const BLOCK_BYTES: usize = 16;
/// Bytes of a chunk: a multiple of the blocks of every hash.
const CHUNK_BYTES: usize = 128;
/// Most bytes that one step writes: a block in UTF-16.
pub(super) const STEP_MAX_BYTES: usize = 2 * BLOCK_BYTES;

/// A chunk, and the bytes after it that the last step wrote.
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

    /// Writes `bytes`, of which only the first `used` count; later ones overwrite the others. They fit while the
    /// output [`has_room`](Self::has_room).
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

    /// Removes a full chunk and moves the bytes after it to the front.
    pub(super) fn drop_chunk(&mut self) {
        if let Some(beyond) = self.filled.checked_sub(CHUNK_BYTES) {
            self.bytes.copy_within(CHUNK_BYTES.., 0);
            self.filled = beyond;
        }
    }
}
