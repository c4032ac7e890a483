//! How a client's library turns an item into the bytes that it hashes, under frozen ids.

use std::io::{self, Cursor, Read};

use smallvec::{SmallVec, smallvec};
use thiserror::Error;

/// How a client's library turns an item into bytes before it hashes them. The number of each variant is its id in the
/// format. Add variants, but never change a number.
///
/// Commands pass items as text. Libraries often hash other bytes: both bytes of every character, the memory of an
/// integer, or the text with the framing of a serializer. A client cannot have added an item that the encoding cannot
/// express, so such an item is absent and cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ItemEncoding {
    /// The item's own bytes: Go, PHP, Guava's `stringFunnel(UTF_8)` and `byteArrayFunnel`, Redisson's
    /// `StringCodec`.
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

    /// Returns the id in the format, never 0.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// Returns the encoding with an id.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.id() == id)
    }

    /// Returns which items the encoding can express, as words that complete "the item is not".
    #[must_use]
    pub const fn domain(self) -> &'static str {
        match self {
            Self::Raw => "a string of bytes",
            Self::Utf16Le | Self::Kryo5String | Self::JsonString => "UTF-8 text",
            Self::Int32Le | Self::Int32Be => "a decimal integer of 32 bits",
            Self::Int64Le => "a decimal integer of 64 bits",
        }
    }
}

/// The encoding of the filter cannot express the item, so no client can have added it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the item is not {}", .0.domain())]
pub struct NotEncodable(
    /// The encoding.
    pub ItemEncoding,
);

impl ItemEncoding {
    /// Passes to `take` the bytes that the client hashes for an item, in chunks. The length of each chunk but the last
    /// is a multiple of 64. Returns `None`, without a call, if the item is outside the [domain](Self::domain).
    ///
    /// Integers have no plus sign, leading zeros or spaces. O(length); allocates nothing.
    #[inline]
    pub fn encode(self, item: &[u8], mut take: impl FnMut(&[u8])) -> Option<()> {
        match self {
            Self::Raw => take(item),
            _ => pass_chunks(self.reader(item)?, &mut take),
        }
        Some(())
    }

    /// Returns a reader of the bytes that [`encode`](Self::encode) passes. Reading cannot fail.
    #[expect(clippy::big_endian_bytes, reason = "one of the clients writes integers high byte first")]
    pub(super) fn reader(self, item: &[u8]) -> Option<EncodedItem<'_>> {
        let mut encoded =
            EncodedItem { encoding: self, run: &[], special: Cursor::default(), text: "", suffix: None };
        let mut prefix = Bytes::new();
        match self {
            Self::Raw => encoded.run = item,
            Self::Utf16Le => encoded.text = text(item)?,
            Self::Int32Le => prefix.extend(int32(item)?.to_le_bytes()),
            Self::Int64Le => prefix.extend(int64(item)?.to_le_bytes()),
            Self::Int32Be => prefix.extend(int32(item)?.to_be_bytes()),
            Self::Kryo5String => (encoded.text, encoded.suffix) = kryo5_string(text(item)?, &mut prefix),
            Self::JsonString => {
                prefix.push(b'"');
                (encoded.text, encoded.suffix) = (text(item)?, Some(b'"'));
            }
        }
        encoded.special = Cursor::new(prefix);
        Some(encoded)
    }

    /// Returns whether Kryo's or JSON's encoding changes the UTF-8 bytes of a character. `first` is the first of these.
    fn is_special(self, first: u8) -> bool {
        match self {
            Self::JsonString => first < b' ' || first == b'"' || first == b'\\' || first >= SURROGATES_FROM,
            _ => first >= SURROGATES_FROM,
        }
    }

    /// Returns the bytes of a special character in Kryo's or JSON's text.
    fn special_bytes(self, character: char) -> Bytes {
        let mut units = [0; 2];
        let units = character.encode_utf16(&mut units).iter();
        match self {
            Self::JsonString => match character {
                '"' | '\\' => smallvec![b'\\', character as u8],
                '\u{8}' => smallvec![b'\\', b'b'],
                '\t' => smallvec![b'\\', b't'],
                '\n' => smallvec![b'\\', b'n'],
                '\u{c}' => smallvec![b'\\', b'f'],
                '\r' => smallvec![b'\\', b'r'],
                _ => units.flat_map(|unit| escaped(*unit)).collect(),
            },
            _ => units.flat_map(|unit| utf8(*unit)).collect(),
        }
    }
}

/// The smallest first byte, in UTF-8, of characters that are two units (surrogates) in UTF-16. Kryo's CESU-8 writes
/// each unit as three bytes, and JSON escapes each.
const SURROGATES_FROM: u8 = 0xF0;

/// A few bytes: a prefix, or some encoded characters.
type Bytes = SmallVec<[u8; 16]>;

/// A reader of an encoded item: a prefix, text, and optionally one more byte.
pub(super) struct EncodedItem<'i> {
    encoding: ItemEncoding,
    /// The next bytes of the item that the encoding does not change.
    run: &'i [u8],
    /// The bytes after the run: the prefix, a special character, or some characters in UTF-16.
    special: Cursor<Bytes>,
    /// The text after the special bytes.
    text: &'i str,
    suffix: Option<u8>,
}

impl EncodedItem<'_> {
    /// Takes the next run from the text, and the special bytes after it. Returns false at the end.
    fn step(&mut self) -> bool {
        if self.encoding == ItemEncoding::Utf16Le {
            return self.step_in_utf16();
        }
        let (run, rest) = self.text.split_at_checked(self.run_bytes()).unwrap_or_default();
        let mut rest = rest.chars();
        let special = match rest.next() {
            Some(character) => self.encoding.special_bytes(character),
            None => self.suffix.take().into_iter().collect(),
        };
        let is_end = run.is_empty() && special.is_empty();
        (self.run, self.special, self.text) = (run.as_bytes(), Cursor::new(special), rest.as_str());
        !is_end
    }

    /// Takes the next characters from the text: eight if they are ASCII, otherwise four. Either number fits [`Bytes`],
    /// because a character has at most four bytes. Returns false at the end.
    // Inlined, this function would make the steps of other encodings slower.
    #[inline(never)]
    fn step_in_utf16(&mut self) -> bool {
        let mut special = Bytes::new();
        if let Some((ascii, rest)) = self.text.split_at_checked(8)
            && ascii.is_ascii()
        {
            special.extend(ascii.bytes().flat_map(|byte| [byte, 0]));
            self.text = rest;
        } else {
            let mut characters = self.text.chars();
            for character in characters.by_ref().take(4) {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    special.extend_from_slice(&unit.to_le_bytes());
                }
            }
            self.text = characters.as_str();
        }
        let is_end = special.is_empty();
        self.special = Cursor::new(special);
        !is_end
    }

    /// Returns the number of bytes before the first special character of the text.
    fn run_bytes(&self) -> usize {
        let is_special = |byte: &u8| self.encoding.is_special(*byte);
        // Without a branch for each byte, the compiler uses vector instructions.
        let is_plain = |part: &&[u8; 16]| !part.iter().fold(false, |any, byte| any | is_special(byte));
        let (parts, _) = self.text.as_bytes().as_chunks();
        let plain_bytes = 16 * parts.iter().take_while(is_plain).count();
        let rest = self.text.as_bytes().get(plain_bytes..).unwrap_or_default();
        plain_bytes + rest.iter().position(is_special).unwrap_or(rest.len())
    }
}

impl Read for EncodedItem<'_> {
    /// Fills the whole buffer, except at the end of the item.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        loop {
            filled += self.run.read(buffer.get_mut(filled..).unwrap_or_default())?;
            filled += self.special.read(buffer.get_mut(filled..).unwrap_or_default())?;
            if filled == buffer.len() || !self.step() {
                return Ok(filled);
            }
        }
    }
}

/// Bytes of a chunk: a multiple of the blocks of every hash.
const CHUNK_BYTES: usize = 128;

/// Passes the bytes of an encoded item to `take`, in chunks. Compiled once for all hashes, since calls cost little.
#[inline(never)]
#[expect(clippy::expect_used, reason = "the reader of an encoded item returns no errors")]
fn pass_chunks(mut item: EncodedItem<'_>, take: &mut dyn FnMut(&[u8])) {
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        let filled = item.read(&mut chunk).expect("the bytes of an item");
        take(chunk.get(..filled).unwrap_or_default());
        if filled < CHUNK_BYTES {
            return;
        }
    }
}

fn text(item: &[u8]) -> Option<&str> {
    std::str::from_utf8(item).ok()
}

fn int32(item: &[u8]) -> Option<i32> {
    i32::try_from(int64(item)?).ok()
}

/// Returns a decimal number; `None` unless it has the only accepted spelling. So no two items are the same number.
fn int64(item: &[u8]) -> Option<i64> {
    let has_one_spelling = matches!(item, [b'0'] | [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..]);
    text(item).filter(|_| has_one_spelling)?.parse().ok()
}

/// Encodes text as Kryo 5, Redisson's default codec, writes a `String` with its class: class number 3, then
/// `Output.writeString`. The last byte of short ASCII text has its high bit set. Other text is CESU-8 after its
/// length in UTF-16 units plus one. Appends the bytes before the text to `prefix`. Returns the text that
/// follows, and the last byte if its high bit is set.
fn kryo5_string<'i>(text: &'i str, prefix: &mut Bytes) -> (&'i str, Option<u8>) {
    const CLASS: u8 = 3;
    prefix.push(CLASS);
    let is_ascii = text.is_ascii();
    if is_ascii
        && (2..=32).contains(&text.len())
        && let Some((rest, last)) = text.split_at_checked(text.len().saturating_sub(1))
        && let [last] = last.as_bytes()
    {
        return (rest, Some(last | 0x80));
    }
    let units = if is_ascii { text.len() } else { text.encode_utf16().count() };
    push_flagged_varint(prefix, units.saturating_add(1));
    (text, None)
}

/// Appends a number as Kryo writes it. The first byte has six bits and the flag 0x80; 0x40 is set if more bytes follow.
/// Each further byte has seven bits; 0x80 is set if more bytes follow.
fn push_flagged_varint(bytes: &mut Bytes, value: usize) {
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

/// Returns three bytes for a unit of UTF-16, as UTF-8 encodes a character with this number. The unit is at least 0x800.
fn utf8(unit: u16) -> [u8; 3] {
    let tail = |bits: u16| 0x80 | (bits & 0x3F) as u8;
    [0xE0 | (unit >> 12) as u8, tail(unit >> 6), tail(unit)]
}

/// Returns a unit of UTF-16 as `\u` and four hexadecimal digits.
fn escaped(unit: u16) -> [u8; 6] {
    let digit = |shift: u32| match (unit >> shift & 0xF) as u8 {
        low @ ..10 => b'0' + low,
        high => b'A' - 10 + high,
    };
    [b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns all bytes of an encoded item.
    fn encoded(encoding: ItemEncoding, item: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let encoded = encoding.encode(item, |chunk| {
            assert!(bytes.len().is_multiple_of(64), "a chunk after {} bytes", bytes.len());
            bytes.extend_from_slice(chunk);
        });
        encoded?;
        let mut read = Vec::new();
        let mut reader = encoding.reader(item).unwrap();
        let mut buffer = [0; 7];
        loop {
            match reader.read(&mut buffer).unwrap() {
                0 => break,
                bytes => read.extend_from_slice(&buffer[..bytes]),
            }
        }
        assert_eq!(read, bytes);
        Some(bytes)
    }

    #[test]
    fn integers_have_one_spelling_and_the_range_of_their_width() {
        let encoded = |encoding, item: &str| encoded(encoding, item.as_bytes());
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
    fn text_encodings_refuse_invalid_utf_8() {
        for encoding in [ItemEncoding::Utf16Le, ItemEncoding::Kryo5String, ItemEncoding::JsonString] {
            assert_eq!(encoded(encoding, b"a\xff"), None);
            // A single surrogate in the form of UTF-8 is not valid text either.
            assert_eq!(encoded(encoding, b"\xed\xa0\xbd"), None);
        }
        assert_eq!(encoded(ItemEncoding::Raw, b"a\xff").unwrap(), b"a\xff");
    }

    #[test]
    fn the_length_of_kryo_grows_by_whole_bytes() {
        let lengths = [(33, 1), (62, 1), (63, 2), (8190, 2), (8191, 3), (1 << 20, 4)];
        for (length, varint_bytes) in lengths {
            let encoded = encoded(ItemEncoding::Kryo5String, &vec![b'x'; length]).unwrap();
            assert_eq!(encoded.len(), 1 + varint_bytes + length, "{length}");
            assert_eq!(encoded[1 + varint_bytes..], vec![b'x'; length]);
        }
        // 8191 + 1 = 2^13: the bits of the number are 0 in the first two bytes, and 1 in the third.
        let encoded = encoded(ItemEncoding::Kryo5String, &[b'x'; 8191]).unwrap();
        assert_eq!(encoded[..5], [3, 0xC0, 0x80, 0x01, b'x']);
    }

    #[test]
    fn json_escapes_as_jackson_does() {
        let encoded =
            encoded(ItemEncoding::JsonString, "\"\\/\u{8}\u{c}\n\r\t\u{1f}\u{7f}é\u{2028}😀".as_bytes());
        let expected = "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u001F\u{7f}é\u{2028}\\uD83D\\uDE00\"";
        assert_eq!(std::str::from_utf8(&encoded.unwrap()).unwrap(), expected);
    }

    /// Returns the encoded text, computed character by character from the definition of the encodings.
    fn plainly(encoding: ItemEncoding, text: &str) -> Vec<u8> {
        let surrogate = |unit: &u16| {
            let [lead, high, low] = [0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F];
            [lead, high, low].map(|byte| u8::try_from(byte).unwrap())
        };
        let cesu8 = |character: char| match character {
            ..='\u{ffff}' => character.to_string().into_bytes(),
            _ => character.encode_utf16(&mut [0; 2]).iter().flat_map(surrogate).collect(),
        };
        let json = |character: char| match character {
            '"' | '\\' => format!("\\{character}"),
            '\u{8}' => "\\b".to_owned(),
            '\t' => "\\t".to_owned(),
            '\n' => "\\n".to_owned(),
            '\u{c}' => "\\f".to_owned(),
            '\r' => "\\r".to_owned(),
            ' '..='\u{ffff}' => character.to_string(),
            _ => character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect(),
        };
        match encoding {
            ItemEncoding::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            ItemEncoding::JsonString => {
                ["\"", &text.chars().map(json).collect::<String>(), "\""].concat().into()
            }
            ItemEncoding::Kryo5String if text.is_ascii() && (2..=32).contains(&text.len()) => {
                let mut bytes = [&[3], text.as_bytes()].concat();
                *bytes.last_mut().unwrap() |= 0x80;
                bytes
            }
            ItemEncoding::Kryo5String => {
                let mut bytes = SmallVec::from_slice(&[3]);
                push_flagged_varint(&mut bytes, text.encode_utf16().count() + 1);
                bytes.into_iter().chain(text.chars().flat_map(cesu8)).collect()
            }
            _ => text.as_bytes().to_vec(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn text_of_any_length_is_encoded_like_single_characters(
            text in prop::collection::vec(
                prop_oneof![
                    "[a-z]{1,40}", "[\"\\\\\u{0}-\u{1f}]{1,4}", "[\u{80}-\u{7ff}]{1,3}",
                    "[\u{800}-\u{d7ff}]{1,20}", "[\u{10000}-\u{10ffff}]{1,3}",
                ],
                0..40,
            ),
        ) {
            let text = text.concat();
            for encoding in [ItemEncoding::Utf16Le, ItemEncoding::Kryo5String, ItemEncoding::JsonString] {
                let expected = plainly(encoding, &text);
                prop_assert_eq!(encoded(encoding, text.as_bytes()).unwrap(), expected, "{:?}", encoding);
            }
        }
    }

    #[test]
    fn ids_of_encodings_never_change() {
        for (id, encoding) in (1..).zip(ItemEncoding::ALL) {
            assert_eq!((encoding.id(), ItemEncoding::from_id(id)), (id, Some(encoding)));
        }
        assert_eq!((ItemEncoding::from_id(0), ItemEncoding::from_id(8)), (None, None));
    }
}
