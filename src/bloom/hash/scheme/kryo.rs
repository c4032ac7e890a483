//! Text as Kryo 5 writes a `String` with its class, which is Redisson's default codec.

use smallvec::SmallVec;

use super::encoder::{FormedText, PREFIX_MAX_BYTES};
use super::text::Form;

/// Class number 3, then Kryo 5's `Output.writeString`: short ASCII ends with its high bit set; other text has
/// its length plus one in front, in UTF-16 units, and follows in CESU-8.
pub(super) fn kryo5_string(text: &str) -> FormedText<'_> {
    const CLASS: u8 = 3;
    let mut formed = FormedText::plain(Form::Cesu8, text);
    formed.prefix.push(CLASS);
    if text.is_ascii()
        && (2..=32).contains(&text.len())
        && let Some((rest, last)) = text.split_at_checked(text.len().saturating_sub(1))
        && let [last] = last.as_bytes()
    {
        return FormedText { text: rest, suffix: Some(last | 0x80), ..formed };
    }
    push_flagged_varint(&mut formed.prefix, utf16_units(text).saturating_add(1));
    formed
}

/// Six bits beside the flag in the first byte, seven in each further one; the next bit up says that more
/// follow.
pub(super) fn push_flagged_varint(bytes: &mut SmallVec<[u8; PREFIX_MAX_BYTES]>, value: usize) {
    let low_byte = |value: usize| {
        let [low, ..] = value.to_le_bytes();
        low
    };
    let mut rest = value >> 6;
    bytes.push(low_byte(value & 0x3F) | 0x80 | if rest == 0 { 0 } else { 0x40 });
    while rest != 0 {
        let low = low_byte(rest & 0x7F);
        rest >>= 7;
        bytes.push(low | if rest == 0 { 0 } else { 0x80 });
    }
}

/// Units of UTF-16 that the text has: one for every character, and another for those of four bytes.
fn utf16_units(text: &str) -> usize {
    // Counted in bytes, of which the processor adds many at once, as long as they cannot overflow.
    let is_long = |bytes: &[u8]| bytes.iter().map(|byte| u8::from(*byte >= 0xF0)).sum::<u8>();
    let long_characters =
        text.as_bytes().chunks(usize::from(u8::MAX)).map(|bytes| usize::from(is_long(bytes)));
    text.chars().count().saturating_add(long_characters.sum())
}
