//! The payload of DUMP and RESTORE: the fields of a value as servers encode them in snapshots, with an opcode before each
//! field.

use std::borrow::Cow;

use super::DataType;
use super::stream::{DecodeError, Sink, Source, UnsignedOrBytes};
use everbloom_filter::{Format, OutOfMemory};

/// Opcodes before a field, and at the end of a value. They are encoded as lengths are.
const OPCODE_UNSIGNED: u8 = 2;
const OPCODE_FLOAT: u8 = 3;
const OPCODE_DOUBLE: u8 = 4;
const OPCODE_STRING: u8 = 5;
const OPCODE_END: u8 = 0;
/// The byte before a value of a module.
const TYPE_OF_MODULES: u8 = 7;
/// The version of snapshots that the payload names: that of Redis 7.0. Servers read older versions.
const SNAPSHOT_VERSION: u16 = 10;
/// The checksum at the end of the payload.
const CRC64: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_REDIS);
/// The bytes of the version and the checksum at the end of a payload.
const FOOTER_BYTES: usize = 2 + 8;
/// Bytes around the fields: the type, the id of the module's type, the end and the footer.
const MORE_BYTES: usize = 1 + 9 + 1 + FOOTER_BYTES;
/// The characters of the name of a type. Each takes six bits in the id of the type, which has ten bits more for the encoding
/// version.
const NAME_CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VERSION_BITS: u32 = 10;
/// Most bytes of a field besides the bytes of a string.
const FIELD_BYTES: usize = 10;

/// Fields as servers encode them. Fields can be appended and read again in their order.
#[derive(Debug, Default)]
pub struct EncodedFields {
    bytes: Vec<u8>,
    /// Whether an allocation has failed. The fields are incomplete then.
    lacks_memory: bool,
}

impl EncodedFields {
    /// Returns the encoded bytes, the only block of the allocator.
    #[must_use]
    pub fn block(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the mutable block, for relocation.
    pub const fn block_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Returns a copy that takes no more memory than necessary. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`], also if the fields are incomplete.
    pub fn exact(&self) -> Result<Self, OutOfMemory> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(self.bytes.len()).map_err(|_| OutOfMemory)?;
        bytes.extend_from_slice(&self.bytes);
        if self.lacks_memory { Err(OutOfMemory) } else { Ok(Self { bytes, lacks_memory: false }) }
    }

    /// Writes every field again, in its order. O(bytes).
    pub fn save(&self, sink: &mut impl Sink) {
        let mut fields = DumpFields { rest: &self.bytes, decompress: |_: &[u8], _| None };
        while let Some(field) = fields.next_field() {
            match field {
                DumpField::Unsigned(value) => sink.unsigned(value),
                DumpField::Double(value) => sink.double(value),
                DumpField::String(bytes) => sink.bytes(&bytes),
                // No value writes such a field.
                DumpField::Float(_) | DumpField::End => {}
            }
        }
    }

    /// Returns the payload with which RESTORE creates a value of the type `name`. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`], also if the fields are incomplete.
    pub fn payload(&self, name: &str, encoding_version: i32) -> Result<Vec<u8>, OutOfMemory> {
        let mut payload = Vec::new();
        let bytes = self.bytes.len().saturating_add(MORE_BYTES);
        payload.try_reserve_exact(bytes).map_err(|_| OutOfMemory)?;
        payload.push(TYPE_OF_MODULES);
        push_length(&mut payload, type_id(name) | u64::from(encoding_version.unsigned_abs()));
        payload.extend_from_slice(&self.bytes);
        payload.push(OPCODE_END);
        payload.extend_from_slice(&SNAPSHOT_VERSION.to_le_bytes());
        payload.extend_from_slice(&CRC64.checksum(&payload).to_le_bytes());
        if self.lacks_memory { Err(OutOfMemory) } else { Ok(payload) }
    }

    /// Allocates memory for a field with `bytes` bytes in a string. Returns false if there is none, now or before.
    fn reserve(&mut self, bytes: usize) -> bool {
        let reserved = self.bytes.try_reserve(bytes.saturating_add(FIELD_BYTES));
        self.lacks_memory |= reserved.is_err();
        !self.lacks_memory
    }
}

impl Sink for EncodedFields {
    fn unsigned(&mut self, value: u64) {
        if self.reserve(0) {
            self.bytes.push(OPCODE_UNSIGNED);
            push_length(&mut self.bytes, value);
        }
    }

    fn double(&mut self, value: f64) {
        if self.reserve(0) {
            self.bytes.push(OPCODE_DOUBLE);
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.reserve(bytes.len()) {
            self.bytes.push(OPCODE_STRING);
            push_length(&mut self.bytes, bytes.len() as u64);
            self.bytes.extend_from_slice(bytes);
        }
    }
}

/// Reads fields from a source and keeps each of them. So the memory never exceeds what was read.
pub(super) struct Keeping<'s, S> {
    source: &'s mut S,
    pub(super) fields: EncodedFields,
}

impl<'s, S: Source> Keeping<'s, S> {
    pub(super) fn new(source: &'s mut S) -> Self {
        Self { source, fields: EncodedFields::default() }
    }

    fn check(&self) -> Result<(), DecodeError> {
        if self.fields.lacks_memory { Err(DecodeError::OutOfMemory) } else { Ok(()) }
    }

    pub(super) fn unsigned(&mut self) -> Result<u64, DecodeError> {
        let value = self.source.unsigned()?;
        self.fields.unsigned(value);
        self.check().map(|()| value)
    }

    pub(super) fn double(&mut self) -> Result<(), DecodeError> {
        let value = self.source.double()?;
        self.fields.double(value);
        self.check()
    }

    /// Reads a string of `length` bytes; of any length if that is `None`.
    pub(super) fn string(&mut self, length: Option<u64>) -> Result<(), DecodeError> {
        let bytes = self.source.bytes()?;
        if length.is_some_and(|length| length != bytes.len() as u64) {
            return Err(DecodeError::Invalid("string length"));
        }
        self.fields.bytes(&bytes);
        self.check()
    }

    /// Reads an unsigned integer above 0.
    pub(super) fn positive(&mut self, name: &'static str) -> Result<u64, DecodeError> {
        self.unsigned().and_then(|value| if value == 0 { Err(DecodeError::Invalid(name)) } else { Ok(value) })
    }
}

/// Returns the id of a type in snapshots, for encoding version 0.
fn type_id(name: &str) -> u64 {
    let digits = name.bytes().filter_map(|byte| NAME_CHARACTERS.iter().position(|one| *one == byte));
    digits.fold(0, |id: u64, digit| id << 6 | digit as u64) << VERSION_BITS
}

/// Appends a length, or another unsigned integer, as servers encode it in a snapshot.
#[expect(clippy::cast_possible_truncation, reason = "the arms have the ranges of the types")]
#[expect(clippy::big_endian_bytes, reason = "servers write the high byte first")]
fn push_length(bytes: &mut Vec<u8>, length: u64) {
    match length {
        0..0x40 => bytes.push(length as u8),
        0x40..0x4000 => bytes.extend_from_slice(&(0x4000 | length as u16).to_be_bytes()),
        0x4000..=0xffff_ffff => {
            bytes.push(0x80);
            bytes.extend_from_slice(&(length as u32).to_be_bytes());
        }
        _ => {
            bytes.push(0x81);
            bytes.extend_from_slice(&length.to_be_bytes());
        }
    }
}

/// A field of a value in a payload, or its end.
#[derive(Clone, Debug, PartialEq)]
pub enum DumpField<'p> {
    /// An unsigned integer.
    Unsigned(u64),
    /// A float of single precision.
    Float(f32),
    /// A double.
    Double(f64),
    /// A string of bytes, without the compression that it was sent with.
    String(Cow<'p, [u8]>),
    /// The end of the value.
    End,
}

/// The fields of a value in a payload that were not read yet. `decompress` returns what bytes compressed with LZF expand to,
/// with the number of bytes that this should be; `None` if they are not valid.
#[derive(Clone, Copy, Debug)]
pub struct DumpFields<'p, D> {
    rest: &'p [u8],
    decompress: D,
}

/// A length, or the encoding of a string.
enum Length {
    Plain(u64),
    Encoded(u8),
}

impl<'p, D: Fn(&[u8], u64) -> Option<Vec<u8>> + Copy> DumpFields<'p, D> {
    /// Returns the id of the data type of a payload of a module's value, and its fields; `None` if it is another value or
    /// truncated. The checksum is not checked. O(1).
    pub fn of_payload(payload: &'p [u8], decompress: D) -> Option<(u64, Self)> {
        let value = payload.get(..payload.len().checked_sub(FOOTER_BYTES)?)?;
        let mut fields = Self { rest: value.strip_prefix(&[TYPE_OF_MODULES])?, decompress };
        Some((fields.number()?, fields))
    }

    /// Returns the next field; `None` if there is none, or none that a server writes.
    pub fn next_field(&mut self) -> Option<DumpField<'p>> {
        Some(match u8::try_from(self.number()?).ok()? {
            OPCODE_UNSIGNED => DumpField::Unsigned(self.number()?),
            OPCODE_FLOAT => DumpField::Float(f32::from_le_bytes(self.array()?)),
            OPCODE_DOUBLE => DumpField::Double(f64::from_le_bytes(self.array()?)),
            OPCODE_STRING => DumpField::String(self.string()?),
            OPCODE_END => DumpField::End,
            _ => return None,
        })
    }

    /// Returns the next field, if it has the type that `read` takes. Otherwise the field stays unread.
    fn field<T>(&mut self, read: impl FnOnce(DumpField<'p>) -> Option<T>) -> Result<T, DecodeError> {
        let mut after = *self;
        let value = after.next_field().and_then(read).ok_or(DecodeError::Truncated)?;
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

    #[expect(clippy::big_endian_bytes, reason = "servers write the high byte first")]
    fn length(&mut self) -> Option<Length> {
        let [first] = self.array()?;
        Some(Length::Plain(match first {
            0..0x40 => first.into(),
            0x40..0x80 => u64::from(first & 0x3F) << 8 | u64::from(u8::from_be_bytes(self.array()?)),
            0x80 => u32::from_be_bytes(self.array()?).into(),
            0x81 => u64::from_be_bytes(self.array()?),
            0xC0..=0xC3 => return Some(Length::Encoded(first & 3)),
            _ => return None,
        }))
    }

    /// Returns a number, which is encoded as lengths are.
    fn number(&mut self) -> Option<u64> {
        if let Length::Plain(number) = self.length()? { Some(number) } else { None }
    }

    /// Returns a string: plain, an integer, or compressed.
    fn string(&mut self) -> Option<Cow<'p, [u8]>> {
        let integer = |number: i32| number.to_string().into_bytes();
        Some(Cow::Owned(match self.length()? {
            Length::Plain(length) => return self.bytes_of(length).map(Cow::Borrowed),
            Length::Encoded(0) => integer(i8::from_le_bytes(self.array()?).into()),
            Length::Encoded(1) => integer(i16::from_le_bytes(self.array()?).into()),
            Length::Encoded(2) => integer(i32::from_le_bytes(self.array()?)),
            Length::Encoded(_) => {
                let (compressed, length) = (self.number()?, self.number()?);
                let (compressed, decompress) = (self.bytes_of(compressed)?, self.decompress);
                decompress(compressed, length)?
            }
        }))
    }
}

impl<'p, D: Fn(&[u8], u64) -> Option<Vec<u8>> + Copy> Source for DumpFields<'p, D> {
    type Bytes = Cow<'p, [u8]>;

    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        self.field(|field| if let DumpField::Unsigned(value) = field { Some(value) } else { None })
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        self.field(|field| if let DumpField::Double(value) = field { Some(value) } else { None })
    }

    fn bytes(&mut self) -> Result<Self::Bytes, DecodeError> {
        self.field(|field| if let DumpField::String(bytes) = field { Some(bytes) } else { None })
    }

    fn float(&mut self) -> Result<f32, DecodeError> {
        self.field(|field| if let DumpField::Float(value) = field { Some(value) } else { None })
    }

    fn unsigned_or_bytes(&mut self) -> Result<UnsignedOrBytes<Self::Bytes>, DecodeError> {
        self.unsigned().map(UnsignedOrBytes::Unsigned).or_else(|_| self.bytes().map(UnsignedOrBytes::Bytes))
    }
}

/// Returns the format and the encoding version that the id of a data type stands for; `None` if it is not a type of filters.
#[must_use]
pub fn format_of(id: u64) -> Option<(Format, i32)> {
    let version = id & ((1 << VERSION_BITS) - 1);
    let is_of = |format: &Format| type_id(DataType::of(*format).name) == id - version;
    Some((Format::ALL.into_iter().find(is_of)?, i32::try_from(version).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_every_encoding_are_read_and_truncated_ones_refused() {
        let decompress = |compressed: &[u8], length| (length == 10).then(|| compressed.repeat(2));
        for (bytes, string) in [
            (&b"\x02ab"[..], &b"ab"[..]),
            (b"\x40\x02ab", b"ab"),
            (b"\x80\0\0\0\x02ab", b"ab"),
            (b"\x81\0\0\0\0\0\0\0\x02ab", b"ab"),
            (b"\xC0\xFF", b"-1"),
            (b"\xC1\0\x01", b"256"),
            (b"\xC2\0\0\x01\0", b"65536"),
            (b"\xC3\x05\x0Aabcde", b"abcdeabcde"),
        ] {
            let read = |bytes| DumpFields { rest: bytes, decompress }.string();
            assert_eq!(read(bytes).as_deref(), Some(string), "{bytes:?}");
            assert_eq!(read(&bytes[..bytes.len() - 1]), None, "{bytes:?}");
        }
        assert_eq!(DumpFields { rest: b"\xFF", decompress }.string(), None);
    }
}
