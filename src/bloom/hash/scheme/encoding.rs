//! How an item becomes the bytes that are hashed, where those are not its own, under frozen ids.

use std::fmt;

/// How a client's library turns an item into bytes before it hashes them. The number of each variant is its
/// id in the format: add, never edit.
///
/// Commands name items by text. Libraries often hash something else: both bytes of every character, an
/// integer's memory, the text in a serialiser's frame. An item that its encoding cannot express was never
/// added by a client: it is absent, and cannot be added.
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
}

/// The item cannot be written in the filter's encoding, so no client can have added it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotEncodable(
    /// The encoding.
    pub ItemEncoding,
);

impl std::error::Error for NotEncodable {}

impl fmt::Display for NotEncodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the item is not {}", self.0.domain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_frozen_ones_and_find_their_encodings() {
        for (id, encoding) in (1..).zip(ItemEncoding::ALL) {
            assert_eq!((encoding.id(), ItemEncoding::from_id(id)), (id, Some(encoding)));
        }
        assert_eq!((ItemEncoding::from_id(0), ItemEncoding::from_id(8)), (None, None));
    }
}
