//! Reads a filter from a server: in the chunks of BF.SCANDUMP, or from the reply of DUMP.

use std::iter;

use everbloom::{BloomFilter, DecodeError, Format, Loader, Source, UnsignedOrBytes};
use redis::{Value, from_redis_value};

use super::failure::Failure;
use super::server::{CallError, Connection, format_of};

/// A chunk with its iterator for BF.LOADCHUNK, or why it could not be read.
pub(crate) type ChunkResult = Result<(u64, Vec<u8>), Failure>;

/// Returns the chunks of a filter, which it reads from the server with BF.SCANDUMP.
pub(crate) fn dump(connection: &mut Connection, key: &[u8]) -> impl Iterator<Item = ChunkResult> {
    let mut iterator = 0u64;
    let mut next = move || {
        let reply = connection.call(&[b"BF.SCANDUMP", key, iterator.to_string().as_bytes()])?;
        let parsed: Result<(u64, Option<Vec<u8>>), _> = from_redis_value(reply);
        let (next, data) = parsed.map_err(|_| CallError::unexpected_reply("BF.SCANDUMP"))?;
        iterator = next;
        Ok(data.filter(|_| next != 0).map(|data| (next, data)))
    };
    iter::from_fn(move || next().transpose())
}

/// Returns the chunks of a filter in this process.
pub(crate) fn chunks(filter: &mut BloomFilter) -> impl Iterator<Item = ChunkResult> {
    filter.chunks().map(|chunk| chunk.map_err(Failure::new))
}

/// Returns the filter of a key. Reads its chunks or, if this fails, the reply of DUMP: some servers do not have
/// BF.SCANDUMP.
pub(crate) fn fetch(connection: &mut Connection, key: &[u8]) -> Result<BloomFilter, Failure> {
    let loaded = load(dump(connection, key));
    loaded.or_else(|failure| match connection.call(&[b"DUMP", key])? {
        Value::BulkString(payload) => of_dump(&payload).ok_or(failure),
        _ => Err(Failure::new("the filter no longer exists")),
    })
}

/// Returns the filter that the chunks describe. The first chunk is the header.
fn load(mut chunks: impl Iterator<Item = ChunkResult>) -> Result<BloomFilter, Failure> {
    let header = chunks.next().ok_or_else(|| Failure::new("the filter has no chunks"))?;
    let mut loader = Loader::new(&header?.1).map_err(Failure::new)?;
    for chunk in chunks {
        let (iterator, data) = chunk?;
        loader.load(iterator, &data).map_err(Failure::new)?;
    }
    Ok(loader.finish())
}

/// Bytes at the end of a reply of DUMP: the version of the snapshot format and a checksum.
const FOOTER_BYTES: usize = 10;
/// The type number of values of modules in snapshots.
const MODULE_VALUE: u8 = 7;
/// The kind numbers of the end and of the fields of a module's value.
const END: u64 = 0;
const UNSIGNED: u64 = 2;
const FLOAT: u64 = 3;
const DOUBLE: u64 = 4;
const STRING: u64 = 5;
/// The characters that the name of a data type can have. Each takes six bits in the number of the type.
const NAME_LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The most bytes that one byte of LZF can expand to. A reference of three bytes expands to at most 264.
const LZF_EXPANSION_MAX: u64 = 88;

/// Returns the filter in a reply of DUMP; `None` if it has no filter, or one that this release cannot read.
pub(crate) fn of_dump(payload: &[u8]) -> Option<BloomFilter> {
    let value = payload.get(..payload.len().checked_sub(FOOTER_BYTES)?)?;
    let mut fields = DumpFields { rest: value.strip_prefix(&[MODULE_VALUE])? };
    let (format, encoding_version) = data_type_of(fields.number()?)?;
    let filter = BloomFilter::load(format, encoding_version, &mut fields).ok()?;
    // A value with more fields may be from a newer release. It is not read.
    (fields.number()? == END).then_some(filter)
}

/// Returns the fields of the value of a key, from the reply of DUMP, whatever its strings are compressed with.
pub(crate) fn fields(connection: &mut Connection, key: &[u8]) -> Result<Vec<u8>, Failure> {
    let Value::BulkString(payload) = connection.call(&[b"DUMP", key])? else {
        return Err(Failure::new("the filter no longer exists"));
    };
    fields_of_dump(&payload).ok_or_else(|| CallError::unexpected_reply("DUMP").into())
}

fn fields_of_dump(payload: &[u8]) -> Option<Vec<u8>> {
    let value = payload.get(..payload.len().checked_sub(FOOTER_BYTES)?)?;
    let mut fields = DumpFields { rest: value.strip_prefix(&[MODULE_VALUE])? };
    let mut bytes = fields.number()?.to_le_bytes().to_vec();
    loop {
        let kind = fields.number()?;
        bytes.extend(kind.to_le_bytes());
        match kind {
            END => return Some(bytes),
            UNSIGNED => bytes.extend(fields.number()?.to_le_bytes()),
            STRING => {
                let string = fields.string()?;
                bytes.extend((string.len() as u64).to_le_bytes());
                bytes.extend(string);
            }
            _ => return None,
        }
    }
}

/// Returns the format and the encoding version that the number of a data type stands for.
fn data_type_of(number: u64) -> Option<(Format, i32)> {
    let letter = |place: u64| NAME_LETTERS.get(usize::try_from(number >> (58 - 6 * place) & 63).ok()?);
    let name: String =
        (0..9).map(|place| letter(place).map(|letter| char::from(*letter))).collect::<Option<_>>()?;
    let format = format_of(&name)?;
    Some((format, i32::try_from(number & 1023).ok()?))
}

/// The fields of a module's value in a reply of DUMP that were not read yet.
#[derive(Clone, Copy)]
struct DumpFields<'p> {
    rest: &'p [u8],
}

/// A length, or the encoding of a string.
enum DumpLength {
    Plain(u64),
    Encoded(u8),
}

impl<'p> DumpFields<'p> {
    /// Returns the value of the next field, if the field is of this kind. Otherwise the field stays unread.
    fn field<T>(&mut self, kind: u64, read: impl Fn(&mut Self) -> Option<T>) -> Result<T, DecodeError> {
        let mut after = *self;
        if after.number() != Some(kind) {
            return Err(DecodeError::Truncated);
        }
        let value = read(&mut after).ok_or(DecodeError::Truncated)?;
        *self = after;
        Ok(value)
    }

    fn bytes_of(&mut self, length: u64) -> Option<&'p [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    #[expect(clippy::big_endian_bytes, reason = "long lengths have their most significant byte first")]
    fn length(&mut self) -> Option<DumpLength> {
        let [first] = self.array()?;
        Some(DumpLength::Plain(match first {
            0..0x40 => first.into(),
            0x40..0x80 => u64::from(first & 0x3F) << 8 | u64::from(u8::from_be_bytes(self.array()?)),
            0x80 => u32::from_be_bytes(self.array()?).into(),
            0x81 => u64::from_be_bytes(self.array()?),
            0xC0..=0xC3 => return Some(DumpLength::Encoded(first & 3)),
            _ => return None,
        }))
    }

    /// Returns a number, which is encoded as lengths are.
    fn number(&mut self) -> Option<u64> {
        if let DumpLength::Plain(number) = self.length()? { Some(number) } else { None }
    }

    /// Returns a string: plain, an integer, or compressed.
    fn string(&mut self) -> Option<Vec<u8>> {
        let integer = |number: i32| Some(number.to_string().into_bytes());
        match self.length()? {
            DumpLength::Plain(length) => self.bytes_of(length).map(<[u8]>::to_vec),
            DumpLength::Encoded(0) => integer(i8::from_le_bytes(self.array()?).into()),
            DumpLength::Encoded(1) => integer(i16::from_le_bytes(self.array()?).into()),
            DumpLength::Encoded(2) => integer(i32::from_le_bytes(self.array()?)),
            DumpLength::Encoded(_) => {
                let (compressed, length) = (self.number()?, self.number()?);
                decompress(self.bytes_of(compressed)?, length)
            }
        }
    }
}

impl Source for DumpFields<'_> {
    type Bytes = Vec<u8>;

    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        self.field(UNSIGNED, Self::number)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        self.field(DOUBLE, |fields| fields.array().map(f64::from_le_bytes))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        self.field(STRING, Self::string)
    }

    fn float(&mut self) -> Result<f32, DecodeError> {
        self.field(FLOAT, |fields| fields.array().map(f32::from_le_bytes))
    }

    fn unsigned_or_bytes(&mut self) -> Result<UnsignedOrBytes<Vec<u8>>, DecodeError> {
        self.unsigned().map(UnsignedOrBytes::Unsigned).or_else(|_| self.bytes().map(UnsignedOrBytes::Bytes))
    }
}

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
    use super::{DumpFields, decompress};

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

    #[test]
    fn strings_of_every_encoding_are_read_and_truncated_ones_refused() {
        for (bytes, string) in [
            (&b"\x02ab"[..], &b"ab"[..]),
            (b"\x40\x02ab", b"ab"),
            (b"\x80\0\0\0\x02ab", b"ab"),
            (b"\x81\0\0\0\0\0\0\0\x02ab", b"ab"),
            (b"\xC0\xFF", b"-1"),
            (b"\xC1\0\x01", b"256"),
            (b"\xC2\0\0\x01\0", b"65536"),
            (b"\xC3\x05\x0A\0a\xE0\0\0", b"aaaaaaaaaa"),
        ] {
            let read = |bytes| DumpFields { rest: bytes }.string();
            assert_eq!(read(bytes).as_deref(), Some(string), "{bytes:?}");
            assert_eq!(read(&bytes[..bytes.len() - 1]), None, "{bytes:?}");
        }
        assert_eq!(DumpFields { rest: b"\xFF" }.string(), None);
    }
}
