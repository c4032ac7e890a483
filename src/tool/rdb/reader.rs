//! Reads the lengths and strings of RDB files.

use std::io::{self, Read};

use thiserror::Error;

/// Largest number of bytes that are allocated before they are read.
const STEP_BYTES: u64 = 1 << 20;

/// Why a file cannot be read.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    /// The file is truncated, or cannot be read.
    #[error("{}", text_of(.0))]
    File(#[from] io::Error),
    /// The bytes are not valid.
    #[error("{0}")]
    Invalid(String),
}

fn text_of(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        "the file is truncated".to_owned()
    } else {
        error.to_string()
    }
}

/// Reads from a file and counts the bytes.
pub(crate) struct Reader<R> {
    source: R,
    offset: u64,
}

/// A length, or the encoding of a string.
enum Length {
    Plain(u64),
    Encoded(u8),
}

impl<R: Read> Reader<R> {
    pub(crate) const fn new(source: R) -> Self {
        Self { source, offset: 0 }
    }

    /// Returns the number of bytes read so far.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn byte(&mut self) -> Result<u8, ReadError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes)?;
        self.offset += N as u64;
        Ok(bytes)
    }

    #[expect(clippy::big_endian_bytes, reason = "long lengths have their most significant byte first")]
    fn encoded_length(&mut self) -> Result<Length, ReadError> {
        let first = self.byte()?;
        Ok(match first {
            0..0x40 => Length::Plain(first.into()),
            0x40..0x80 => Length::Plain(u64::from(first & 0x3F) << 8 | u64::from(self.byte()?)),
            0x80 => Length::Plain(u32::from_be_bytes(self.array()?).into()),
            0x81 => Length::Plain(u64::from_be_bytes(self.array()?)),
            0xC0..=0xC3 => Length::Encoded(first & 3),
            _ => {
                return Err(ReadError::Invalid(format!(
                    "the file is damaged: no length begins with {first:#x}"
                )));
            }
        })
    }

    /// Returns a length, or another number in the encoding of lengths.
    pub(crate) fn number(&mut self) -> Result<u64, ReadError> {
        match self.encoded_length()? {
            Length::Plain(number) => Ok(number),
            Length::Encoded(_) => {
                Err(ReadError::Invalid("the file is damaged: a string instead of a number".to_owned()))
            }
        }
    }

    /// Returns a string of any encoding.
    pub(crate) fn string(&mut self) -> Result<Vec<u8>, ReadError> {
        let integer = |number: i64| Ok(number.to_string().into_bytes());
        match self.encoded_length()? {
            Length::Plain(length) => self.bytes(length),
            Length::Encoded(0) => integer(i8::from_le_bytes(self.array()?).into()),
            Length::Encoded(1) => integer(i16::from_le_bytes(self.array()?).into()),
            Length::Encoded(2) => integer(i32::from_le_bytes(self.array()?).into()),
            Length::Encoded(_) => {
                let (compressed, length) = (self.number()?, self.number()?);
                let compressed = self.bytes(compressed)?;
                decompress(&compressed, length).ok_or_else(|| {
                    ReadError::Invalid("the file is damaged: a compressed string is not valid".to_owned())
                })
            }
        }
    }

    /// Skips a string.
    pub(crate) fn skip_string(&mut self) -> Result<(), ReadError> {
        match self.encoded_length()? {
            Length::Plain(length) => self.skip(length),
            Length::Encoded(width @ 0..=2) => self.skip(1 << width),
            Length::Encoded(_) => {
                let (compressed, _) = (self.number()?, self.number()?);
                self.skip(compressed)
            }
        }
    }

    pub(crate) fn skip(&mut self, length: u64) -> Result<(), ReadError> {
        let skipped = io::copy(&mut self.source.by_ref().take(length), &mut io::sink())?;
        self.offset += skipped;
        if skipped < length { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) } else { Ok(()) }
    }

    /// Returns the next `length` bytes, in memory that grows as they are read.
    pub(crate) fn bytes(&mut self, length: u64) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            let step = (length - bytes.len() as u64).min(STEP_BYTES.max(bytes.len() as u64));
            let no_memory = |_| ReadError::Invalid("not enough memory for a string of the file".to_owned());
            bytes.try_reserve_exact(usize::try_from(step).unwrap_or(usize::MAX)).map_err(no_memory)?;
            if self.source.by_ref().take(step).read_to_end(&mut bytes)? as u64 != step {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
        self.offset += length;
        Ok(bytes)
    }
}

/// Largest number of bytes that one byte of LZF expands to: a reference of three bytes expands to 264.
const LZF_EXPANSION_MAX: u64 = 88;

/// Returns the decompressed bytes; `None` if the bytes are not valid or the length is wrong.
fn decompress(compressed: &[u8], length: u64) -> Option<Vec<u8>> {
    if length > (compressed.len() as u64).saturating_mul(LZF_EXPANSION_MAX) {
        return None;
    }
    let length = usize::try_from(length).ok()?;
    let mut output = Vec::new();
    output.try_reserve_exact(length).ok()?;
    output.resize(length, 0);
    (lzf_rust::decompress(compressed, &mut output).ok()? == length).then_some(output)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    #[test]
    fn compressed_strings_are_read_and_invalid_ones_refused() {
        assert_eq!(decompress(&[0, b'a', 0xE0, 0, 0], 10).unwrap(), b"aaaaaaaaaa");
        assert_eq!(decompress(&[2, b'a', b'b', b'c', 0x20, 2], 6).unwrap(), b"abcabc");
        for (input, length) in
            [(&[0xE0, 0, 0][..], 9), (&[5, 1], 6), (&[0, 1], 2), (&[0, 1], u64::MAX), (&[0x20], 3)]
        {
            assert_eq!(decompress(input, length), None, "{input:?}");
        }
    }
}
