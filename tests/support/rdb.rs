//! Keeps the fields of a filter's snapshot in memory, and reads and writes the payload that DUMP returns for a module's
//! key. This code is independent of the module: it reads and writes the opcodes and lengths of RDB files itself, and
//! decompresses strings. It does not check the checksum at the end.

use std::collections::VecDeque;

use everbloom_format::{DecodeError, Sink, Source, UnsignedOrBytes};

/// One field of a value.
#[derive(Clone, Debug)]
pub enum Field {
    Unsigned(u64),
    Float(f32),
    Double(f64),
    Bytes(Vec<u8>),
}

impl PartialEq for Field {
    /// Compares bit for bit, so that NaN equals itself.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unsigned(a), Self::Unsigned(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Double(a), Self::Double(b)) => a.to_bits() == b.to_bits(),
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            _ => false,
        }
    }
}

/// The fields of a value, in the order in which an encoder writes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record(pub Vec<Field>);

impl Record {
    /// Returns the bytes of the fields.
    pub fn size_bytes(&self) -> u64 {
        let size = |field: &Field| match field {
            Field::Bytes(bytes) => bytes.len() as u64,
            _ => 8,
        };
        self.0.iter().map(size).sum()
    }

    /// Returns a source of the fields.
    pub fn reader(&self) -> Reader {
        Reader { fields: self.0.clone().into(), peeks: true }
    }

    /// Returns a source that does not know the type of a field before it reads it, like the source of a server.
    pub fn blind_reader(&self) -> Reader {
        Reader { peeks: false, ..self.reader() }
    }
}

impl Sink for Record {
    fn unsigned(&mut self, value: u64) {
        self.0.push(Field::Unsigned(value));
    }

    fn double(&mut self, value: f64) {
        self.0.push(Field::Double(value));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.push(Field::Bytes(bytes.to_vec()));
    }
}

/// Reads the fields of a record. Refuses a field that does not have the requested type, as servers do.
pub struct Reader {
    fields: VecDeque<Field>,
    peeks: bool,
}

impl Reader {
    /// Returns whether every field has been read.
    pub fn is_at_end(&self) -> bool {
        self.fields.is_empty()
    }

    fn next<T>(&mut self, value: impl FnOnce(Field) -> Option<T>) -> Result<T, DecodeError> {
        self.fields.pop_front().and_then(value).ok_or(DecodeError::Truncated)
    }
}

impl Source for Reader {
    type Bytes = Vec<u8>;

    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        self.next(|field| if let Field::Unsigned(value) = field { Some(value) } else { None })
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        self.next(|field| if let Field::Double(value) = field { Some(value) } else { None })
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        self.next(|field| if let Field::Bytes(bytes) = field { Some(bytes) } else { None })
    }

    fn float(&mut self) -> Result<f32, DecodeError> {
        self.next(|field| if let Field::Float(value) = field { Some(value) } else { None })
    }

    fn unsigned_or_bytes(&mut self) -> Result<UnsignedOrBytes<Vec<u8>>, DecodeError> {
        match self.fields.front() {
            Some(Field::Bytes(_)) if self.peeks => self.bytes().map(UnsignedOrBytes::Bytes),
            _ => self.unsigned().map(UnsignedOrBytes::Unsigned),
        }
    }
}

const TYPE_MODULE_2: u8 = 7;
const OPCODE_END: u64 = 0;
const OPCODE_UNSIGNED: u64 = 2;
const OPCODE_FLOAT: u64 = 3;
const OPCODE_DOUBLE: u64 = 4;
const OPCODE_STRING: u64 = 5;
/// Bytes of the RDB version and the checksum.
const FOOTER_BYTES: usize = 10;

/// The data type, the encoding version and the fields of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    pub type_name: String,
    pub encoding_version: i32,
    pub record: Record,
    /// Whether no string was compressed, so that writing the record gives the same bytes.
    pub is_plain: bool,
}

impl Payload {
    /// Reads a payload of DUMP. Fails the test if the payload is invalid.
    pub fn read(payload: &[u8]) -> Self {
        Self::try_read(payload).unwrap()
    }

    /// Reads a payload of DUMP; `None` if it is invalid.
    pub fn try_read(payload: &[u8]) -> Option<Self> {
        let mut bytes = payload.get(..payload.len().checked_sub(FOOTER_BYTES)?)?;
        if *take(&mut bytes, 1)? != [TYPE_MODULE_2] {
            return None;
        }
        let id = take_length(&mut bytes)?;
        let (mut record, mut is_plain) = (Record::default(), true);
        loop {
            record.0.push(match take_length(&mut bytes)? {
                OPCODE_END if bytes.is_empty() => break,
                OPCODE_UNSIGNED => Field::Unsigned(take_length(&mut bytes)?),
                OPCODE_FLOAT => Field::Float(f32::from_le_bytes(take(&mut bytes, 4)?.try_into().ok()?)),
                OPCODE_DOUBLE => Field::Double(f64::from_le_bytes(take(&mut bytes, 8)?.try_into().ok()?)),
                OPCODE_STRING => Field::Bytes(take_string(&mut bytes, &mut is_plain)?),
                _ => return None,
            });
        }
        let encoding_version = i32::try_from(id & 1023).ok()?;
        Some(Self { type_name: type_name(id), encoding_version, record, is_plain })
    }

    /// Writes the payload without its footer and without compressing strings.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![TYPE_MODULE_2];
        put_length(&mut out, type_id(&self.type_name) | u64::try_from(self.encoding_version).unwrap());
        for field in &self.record.0 {
            match field {
                Field::Unsigned(value) => {
                    put_length(&mut out, OPCODE_UNSIGNED);
                    put_length(&mut out, *value);
                }
                Field::Float(value) => {
                    put_length(&mut out, OPCODE_FLOAT);
                    out.extend(value.to_le_bytes());
                }
                Field::Double(value) => {
                    put_length(&mut out, OPCODE_DOUBLE);
                    out.extend(value.to_le_bytes());
                }
                Field::Bytes(bytes) => {
                    put_length(&mut out, OPCODE_STRING);
                    put_length(&mut out, bytes.len() as u64);
                    out.extend(bytes);
                }
            }
        }
        put_length(&mut out, OPCODE_END);
        out
    }

    /// Returns the part of a payload that [`Self::write`] writes.
    pub fn without_footer(payload: &[u8]) -> &[u8] {
        &payload[..payload.len() - FOOTER_BYTES]
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn take_big_endian(bytes: &mut &[u8], count: usize) -> Option<u64> {
    Some(take(bytes, count)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// Returns a length; `None` for invalid bytes and for the marks of specially encoded strings.
fn take_length(bytes: &mut &[u8]) -> Option<u64> {
    let first = take(bytes, 1)?[0];
    match first >> 6 {
        0 => Some(u64::from(first)),
        1 => Some(u64::from(first & 63) << 8 | take_big_endian(bytes, 1)?),
        2 if first == 0x80 => take_big_endian(bytes, 4),
        2 if first == 0x81 => take_big_endian(bytes, 8),
        _ => None,
    }
}

fn take_string(bytes: &mut &[u8], is_plain: &mut bool) -> Option<Vec<u8>> {
    const COMPRESSED: u8 = 0xC3;
    /// Marks of strings that are integers of 1, 2 and 4 bytes.
    const INTEGERS: std::ops::RangeInclusive<u8> = 0xC0..=0xC2;
    let first = *bytes.first()?;
    if INTEGERS.contains(&first) {
        *is_plain = false;
        take(bytes, 1)?;
        let digits = take(bytes, 1 << (first & 3))?;
        let mut number = [if digits.last()? & 0x80 == 0 { 0 } else { 0xFF }; 4];
        number[..digits.len()].copy_from_slice(digits);
        return Some(i32::from_le_bytes(number).to_string().into_bytes());
    }
    if first != COMPRESSED {
        let length = usize::try_from(take_length(bytes)?).ok()?;
        return take(bytes, length).map(<[u8]>::to_vec);
    }
    *is_plain = false;
    take(bytes, 1)?;
    let compressed = usize::try_from(take_length(bytes)?).ok()?;
    let length = usize::try_from(take_length(bytes)?).ok()?;
    let compressed = take(bytes, compressed)?;
    // A compressed byte gives at most 88 bytes.
    if length > compressed.len() * 88 {
        return None;
    }
    lzf_rust::decompress_into_vec(compressed, length).ok()
}

const TYPE_NAME_CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn type_name(id: u64) -> String {
    (1..=9)
        .rev()
        .map(|place| char::from(TYPE_NAME_CHARACTERS[(id >> (4 + 6 * place)) as usize & 63]))
        .collect()
}

fn type_id(name: &str) -> u64 {
    let digit = |byte| TYPE_NAME_CHARACTERS.iter().position(|known| *known == byte).unwrap() as u64;
    name.bytes().fold(0, |id, byte| id << 6 | digit(byte)) << 10
}

#[allow(clippy::big_endian_bytes, reason = "long lengths have their most significant byte first")]
fn put_length(out: &mut Vec<u8>, value: u64) {
    match value {
        0..64 => out.push(value as u8),
        64..16384 => out.extend([0x40 | (value >> 8) as u8, value as u8]),
        16384..=0xFFFF_FFFF => {
            out.push(0x80);
            out.extend((value as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend(value.to_be_bytes());
        }
    }
}
