//! From the item that a command names to the bytes that the client's library hashed.

use std::fmt::Write;
use std::ops::Deref;

use smallvec::SmallVec;

/// How a client's library turns an item into bytes before it hashes them. The number of each variant is its id in
/// the format: add, never edit.
///
/// Commands name items by text. Libraries often hash something else: both bytes of every character, an integer's
/// memory, the text in a serialiser's frame. An item that its encoding cannot express was never added by a client:
/// it is absent, and cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ItemEncoding {
    /// The item's own bytes: Go, PHP, Guava's `stringFunnel(UTF_8)` and `byteArrayFunnel`, Redisson's `StringCodec`.
    Raw = 1,
    /// Text in UTF-16, low byte first, no byte order mark: Guava's `unencodedCharsFunnel`.
    Utf16Le = 2,
    /// A decimal number of 32 bits, low byte first: Guava's `integerFunnel`.
    Int32Le = 3,
    /// A decimal number of 64 bits, low byte first: Guava's `longFunnel`.
    Int64Le = 4,
    /// A decimal number of 32 bits, high byte first: `int` in EventHorizon.BloomFilter for C#.
    Int32Be = 5,
    /// Text as Kryo 5 writes a `String` with its class: Redisson's default codec since 3.19.0.
    Kryo5String = 6,
    /// Text as a JSON string the way Jackson writes it: Redisson's `JsonJacksonCodec`.
    JsonString = 7,
}

/// The bytes that the client hashed: the item itself, or its encoded form, on the stack when short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodedItem<'i> {
    /// The item as it came.
    Item(&'i [u8]),
    /// Another form of it.
    Encoded(SmallVec<[u8; ENCODED_INLINE_BYTES]>),
}

impl Deref for EncodedItem<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Item(item) => item,
            Self::Encoded(bytes) => bytes,
        }
    }
}

/// Encoded items up to this length take no allocation.
const ENCODED_INLINE_BYTES: usize = 128;

type Buffer = SmallVec<[u8; ENCODED_INLINE_BYTES]>;

impl ItemEncoding {
    /// Every encoding, by id.
    pub const ALL: [Self; 7] = [
        Self::Raw,
        Self::Utf16Le,
        Self::Int32Le,
        Self::Int64Le,
        Self::Int32Be,
        Self::Kryo5String,
        Self::JsonString,
    ];

    /// The id in the format, never 0.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The encoding with an id.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.id() == id)
    }

    /// The name in commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Utf16Le => "utf16le",
            Self::Int32Le => "int32le",
            Self::Int64Le => "int64le",
            Self::Int32Be => "int32be",
            Self::Kryo5String => "kryo5-string",
            Self::JsonString => "json-string",
        }
    }

    /// The encoding with a name, in any case.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// What an item must be, in words that complete "the item is not".
    #[must_use]
    pub const fn domain(self) -> &'static str {
        match self {
            Self::Raw => "a string of bytes",
            Self::Utf16Le | Self::Kryo5String | Self::JsonString => "UTF-8 text",
            Self::Int32Le | Self::Int32Be => "a decimal integer of 32 bits",
            Self::Int64Le => "a decimal integer of 64 bits",
        }
    }

    /// The bytes that the client hashes for an item; nothing for an item outside the [domain](Self::domain).
    ///
    /// Integers have one spelling: no plus sign, no leading zeros, no space. O(length).
    #[must_use]
    #[expect(clippy::big_endian_bytes, reason = "one of the clients writes integers high byte first")]
    pub fn encode(self, item: &[u8]) -> Option<EncodedItem<'_>> {
        let bytes = match self {
            Self::Raw => return Some(EncodedItem::Item(item)),
            Self::Utf16Le => text(item)?.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Int32Le => Buffer::from_slice(&int32(item)?.to_le_bytes()),
            Self::Int64Le => Buffer::from_slice(&int64(item)?.to_le_bytes()),
            Self::Int32Be => Buffer::from_slice(&int32(item)?.to_be_bytes()),
            Self::Kryo5String => kryo5_string(text(item)?),
            Self::JsonString => json_string(text(item)?),
        };
        Some(EncodedItem::Encoded(bytes))
    }
}

fn text(item: &[u8]) -> Option<&str> {
    std::str::from_utf8(item).ok()
}

fn int32(item: &[u8]) -> Option<i32> {
    i32::try_from(int64(item)?).ok()
}

/// A decimal number in its only spelling, so that no two items are one.
fn int64(item: &[u8]) -> Option<i64> {
    let has_one_spelling = matches!(item, [b'0'] | [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..]);
    text(item).filter(|_| has_one_spelling)?.parse().ok()
}

/// Class number 3, then Kryo 5's `Output.writeString`: short ASCII ends with its high bit set; other text has its
/// length plus one in front, in UTF-16 units, and follows in CESU-8.
fn kryo5_string(text: &str) -> Buffer {
    let mut bytes = Buffer::new();
    bytes.push(3);
    if text.is_ascii() && (2..=32).contains(&text.len()) {
        bytes.extend_from_slice(text.as_bytes());
        if let Some(last) = bytes.last_mut() {
            *last |= 0x80;
        }
        return bytes;
    }
    push_flagged_varint(&mut bytes, text.encode_utf16().count().saturating_add(1));
    for character in text.chars() {
        // Characters beyond 16 bits are two surrogates of three bytes each; all others are as in UTF-8.
        let mut utf8 = [0; 4];
        if character.len_utf16() == 1 {
            bytes.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
        } else {
            character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| push_surrogate(&mut bytes, *unit));
        }
    }
    bytes
}

/// Six bits beside the flag in the first byte, seven in each further one; the next bit up says that more follow.
fn push_flagged_varint(bytes: &mut Buffer, value: usize) {
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

fn push_surrogate(bytes: &mut Buffer, unit: u16) {
    let tail = |bits: u16| 0x80 | (bits & 0x3F) as u8;
    bytes.extend_from_slice(&[0xE0 | (unit >> 12) as u8, tail(unit >> 6), tail(unit)]);
}

/// Jackson's UTF-8 generator: quotes, backslash and control characters escaped, and characters beyond 16 bits as two
/// escaped surrogates; everything else stays UTF-8.
fn json_string(text: &str) -> Buffer {
    let mut bytes = Buffer::new();
    bytes.push(b'"');
    for character in text.chars() {
        let short = match character {
            '"' | '\\' => Some(character),
            '\u{8}' => Some('b'),
            '\t' => Some('t'),
            '\n' => Some('n'),
            '\u{c}' => Some('f'),
            '\r' => Some('r'),
            _ => None,
        };
        if let Some(letter) = short {
            push_text(&mut bytes, format_args!("\\{letter}"));
        } else if character < ' ' || character.len_utf16() == 2 {
            for unit in character.encode_utf16(&mut [0; 2]) {
                push_text(&mut bytes, format_args!("\\u{unit:04X}"));
            }
        } else {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    bytes.push(b'"');
    bytes
}

fn push_text(bytes: &mut Buffer, text: std::fmt::Arguments<'_>) {
    struct Sink<'b>(&'b mut Buffer);
    impl Write for Sink<'_> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    // Writing to memory cannot fail.
    let written = Sink(bytes).write_fmt(text);
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_the_frozen_ones_and_find_their_encodings() {
        let names = ["raw", "utf16le", "int32le", "int64le", "int32be", "kryo5-string", "json-string"];
        for (id, name) in (1..).zip(names) {
            let encoding = ItemEncoding::from_id(id).unwrap();
            assert_eq!((encoding.id(), encoding.name()), (id, name));
            assert_eq!(ItemEncoding::from_name(name.to_uppercase().as_bytes()), Some(encoding));
        }
        assert_eq!((ItemEncoding::from_id(0), ItemEncoding::from_id(8)), (None, None));
        assert_eq!(ItemEncoding::from_name(b"utf8"), None);
    }

    #[test]
    fn integers_have_one_spelling_and_keep_to_their_width() {
        let encoded =
            |encoding: ItemEncoding, item: &str| encoding.encode(item.as_bytes()).map(|bytes| bytes.to_vec());
        assert_eq!(encoded(ItemEncoding::Int32Le, "-2").unwrap(), [0xFE, 0xFF, 0xFF, 0xFF]);
        assert_eq!(encoded(ItemEncoding::Int32Be, "258").unwrap(), [0, 0, 1, 2]);
        assert_eq!(encoded(ItemEncoding::Int64Le, "0").unwrap(), [0; 8]);
        for item in ["2147483647", "-2147483648"] {
            assert!(encoded(ItemEncoding::Int32Le, item).is_some());
        }
        for item in ["9223372036854775807", "-9223372036854775808"] {
            assert!(encoded(ItemEncoding::Int64Le, item).is_some());
            assert_eq!(encoded(ItemEncoding::Int32Be, item), None);
        }
        let refused = ["", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1.0", "0x1", "1e3", "1_0", "a"];
        for item in refused.into_iter().chain(["9223372036854775808", "-9223372036854775809"]) {
            assert_eq!(encoded(ItemEncoding::Int64Le, item), None, "{item}");
        }
        assert_eq!(encoded(ItemEncoding::Int32Le, "2147483648"), None);
    }

    #[test]
    fn text_encodings_refuse_what_is_not_text() {
        for encoding in [ItemEncoding::Utf16Le, ItemEncoding::Kryo5String, ItemEncoding::JsonString] {
            assert_eq!(encoding.encode(b"a\xff"), None);
            // A surrogate on its own, in the form of UTF-8, is not text either.
            assert_eq!(encoding.encode(b"\xed\xa0\xbd"), None);
        }
        assert_eq!(&*ItemEncoding::Raw.encode(b"a\xff").unwrap(), b"a\xff");
    }

    #[test]
    fn the_length_of_kryo_grows_by_whole_bytes() {
        let lengths = [(33, 1), (62, 1), (63, 2), (8190, 2), (8191, 3), (1 << 20, 4)];
        for (length, varint_bytes) in lengths {
            let encoded = ItemEncoding::Kryo5String.encode(&vec![b'x'; length]).unwrap().to_vec();
            assert_eq!(encoded.len(), 1 + varint_bytes + length, "{length}");
            assert_eq!(encoded[1 + varint_bytes..], vec![b'x'; length]);
        }
        // 8191 + 1 = 2^13: six low bits clear, then seven clear with more to follow, then one.
        let encoded = ItemEncoding::Kryo5String.encode(&[b'x'; 8191]).unwrap().to_vec();
        assert_eq!(encoded[..5], [3, 0xC0, 0x80, 0x01, b'x']);
    }

    #[test]
    fn json_escapes_as_jackson_does() {
        let encoded =
            ItemEncoding::JsonString.encode("\"\\/\u{8}\u{c}\n\r\t\u{1f}\u{7f}é\u{2028}😀".as_bytes());
        let expected = "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u001F\u{7f}é\u{2028}\\uD83D\\uDE00\"";
        assert_eq!(std::str::from_utf8(&encoded.unwrap()).unwrap(), expected);
    }
}
