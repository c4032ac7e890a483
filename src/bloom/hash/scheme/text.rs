//! The forms that text takes in clients, block by block and character by character.

use super::output::{BLOCK_BYTES, Output, STEP_MAX_BYTES};

/// How text becomes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// UTF-16, low byte first.
    Utf16Le,
    /// UTF-8, but characters beyond 16 bits as two surrogates of three bytes each.
    Cesu8,
    /// UTF-8, but quotes, backslash and control characters escaped, and characters beyond 16 bits as two
    /// escaped surrogates: Jackson's UTF-8 generator.
    Json,
}

/// In UTF-8, the first byte of characters that UTF-16 has two units for, the surrogates.
const SURROGATES_FROM: u8 = 0xF0;

impl Form {
    /// Writes text, which must be UTF-8, until there is no room or no more of it; answers what is left.
    /// O(bytes).
    pub(super) fn put_text<'i>(self, text: &'i [u8], output: &mut Output) -> &'i [u8] {
        match self {
            Self::Utf16Le => put_text(text, output, put_block_utf16le, put_character_utf16le),
            Self::Cesu8 => put_text(text, output, put_block_cesu8, put_character_cesu8),
            Self::Json => put_text(text, output, put_block_json, put_character_json),
        }
    }
}

/// Writes a whole block of what is plain, as most text is, and one character after another of any other.
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

/// Writes the block as it is if no byte of it is special.
#[inline(always)]
fn put_plain(block: &[u8; BLOCK_BYTES], output: &mut Output, is_special: impl Fn(u8) -> bool) -> bool {
    // Looks at all of them, which the processor does at once.
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
        // As UTF-8 writes characters of 16 bits.
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

/// What each byte but those of [`SURROGATES_FROM`] on is written as, and the length of that.
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

/// A unit of UTF-16 as `\u` and four digits.
const fn escaped(unit: u16) -> [u8; 6] {
    [b'\\', b'u', digit(unit >> 12), digit(unit >> 8), digit(unit >> 4), digit(unit)]
}

/// The lowest four bits.
const fn digit(unit: u16) -> u8 {
    match (unit & 0xF) as u8 {
        low @ ..10 => b'0' + low,
        high => b'A' - 10 + high,
    }
}

/// The number of the first character, and what follows it.
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
        // No text ends within a character.
        _ => (0, &[]),
    }
}

/// The two units of UTF-16 of a character beyond 16 bits.
fn surrogates(character: u32) -> [u16; 2] {
    let bits = character.wrapping_sub(0x1_0000);
    [0xD800 | (bits >> 10 & 0x3FF) as u16, 0xDC00 | (bits & 0x3FF) as u16]
}
