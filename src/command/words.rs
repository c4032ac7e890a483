//! The words for formats, schemes, encodings and orders in commands and settings. They are case-insensitive.

use everbloom_filter::Format;
use everbloom_filter::encoding::ItemEncoding;
use everbloom_filter::filter::policy::BitOrder;
use everbloom_filter::hash::scheme::Scheme;

/// A type whose values have words. The words never change: documents and logs contain them.
pub trait Word: Copy + PartialEq + 'static {
    /// Every value with its word.
    const WORDS: &'static [(Self, &'static str)];

    /// Returns the word for this value.
    #[must_use]
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(value, _)| *value == self).map_or("", |(_, word)| word)
    }

    /// Returns all words, as errors list them.
    #[must_use]
    fn listed() -> String {
        Self::WORDS.iter().map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
    }

    /// Returns the value of a word.
    #[must_use]
    fn named(word: &[u8]) -> Option<Self> {
        let mut words = Self::WORDS.iter();
        words.find(|(_, name)| name.as_bytes().eq_ignore_ascii_case(word)).map(|(value, _)| *value)
    }
}

/// The words of all formats, in the order of [`Format::ALL`].
pub const FORMAT_WORDS: [&str; 3] = ["everbloom", "redisbloom", "valkey-bloom"];

impl Word for Format {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Everbloom, FORMAT_WORDS[0]),
        (Self::RedisBloom, FORMAT_WORDS[1]),
        (Self::ValkeyBloom, FORMAT_WORDS[2]),
    ];
}

impl Word for Scheme {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Murmur3Salted, "murmur3-salted"),
        (Self::GoZero, "go-zero"),
        (Self::Fnv32aSalted, "fnv32a-salted"),
        (Self::GuavaMitz32, "guava-mitz32"),
        (Self::GuavaMitz64, "guava-mitz64"),
        (Self::Murmur3X86Mitz64, "murmur3-x86-128-mitz64"),
        (Self::CsharpNetfxMitz64, "csharp-netfx-mitz64"),
        (Self::PhpBkdrJsSdbm, "php-bkdr-js-sdbm"),
        (Self::Redisson, "redisson"),
    ];
}

impl Word for ItemEncoding {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Raw, "raw"),
        (Self::Utf16Le, "utf16le"),
        (Self::Int32Le, "int32le"),
        (Self::Int64Le, "int64le"),
        (Self::Int32Be, "int32be"),
        (Self::Kryo5String, "kryo5-string"),
        (Self::JsonString, "json-string"),
    ];
}

/// These words are for plain strings only. Guava's strings contain their order, which BF.DEBUG shows as
/// [`GUAVA_ORDER`].
impl Word for BitOrder {
    const WORDS: &'static [(Self, &'static str)] = &[(Self::Msb, "msb"), (Self::Lsb, "lsb")];
}

/// The word of BF.DEBUG for the order of bits in Guava's own bytes.
pub const GUAVA_ORDER: &str = "guava";

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that the values with the ids from 1 on have exactly `words`, in this order.
    fn assert_words<W: Word + std::fmt::Debug>(of_id: fn(u8) -> Option<W>, words: &[&str]) {
        for (id, word) in (1..).zip(words) {
            let value = of_id(id).unwrap();
            assert_eq!((value.word(), W::named(word.to_uppercase().as_bytes())), (*word, Some(value)));
        }
        assert_eq!(W::WORDS.len(), words.len());
        assert_eq!((W::named(b"guava"), W::named(b"")), (None, None));
    }

    #[test]
    fn words_never_change() {
        let encodings = ["raw", "utf16le", "int32le", "int64le", "int32be", "kryo5-string", "json-string"];
        assert_words(ItemEncoding::from_id, &encodings);
        let schemes = [
            "murmur3-salted",
            "go-zero",
            "fnv32a-salted",
            "guava-mitz32",
            "guava-mitz64",
            "murmur3-x86-128-mitz64",
            "csharp-netfx-mitz64",
            "php-bkdr-js-sdbm",
            "redisson",
        ];
        assert_words(Scheme::from_id, &schemes);
        assert_words(BitOrder::from_id, &["msb", "lsb"]);
        assert_eq!(Format::ALL.map(Word::word), ["everbloom", "redisbloom", "valkey-bloom"]);
        assert_eq!(Format::named(b"Valkey-Bloom"), Some(Format::ValkeyBloom));
    }
}
