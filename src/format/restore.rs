//! The payload of RESTORE: the fields of a value as servers encode them in snapshots, with an opcode before each field.

use super::stream::{DecodeError, Sink, Source};
use crate::bloom::OutOfMemory;

/// Opcodes before a field, and at the end of a value.
const OPCODE_UNSIGNED: u8 = 2;
const OPCODE_DOUBLE: u8 = 4;
const OPCODE_STRING: u8 = 5;
const OPCODE_END: u8 = 0;
/// The byte before a value of a module.
const TYPE_OF_MODULES: u8 = 7;
/// The version of snapshots that the payload names: that of Redis 7.0. Servers read older versions.
const SNAPSHOT_VERSION: u16 = 10;
/// The checksum at the end of the payload.
const CRC64: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_REDIS);
/// Bytes around the fields: the type, the id of the module's type, the end, the version and the checksum.
const MORE_BYTES: usize = 1 + 9 + 1 + 2 + 8;
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
        let mut rest = &self.bytes[..];
        while let Some((opcode, after)) = rest.split_first() {
            rest = after;
            match *opcode {
                OPCODE_UNSIGNED => sink.unsigned(take_length(&mut rest)),
                OPCODE_DOUBLE => sink.double(f64::from_le_bytes(take(&mut rest))),
                _ => {
                    let length = usize::try_from(take_length(&mut rest)).unwrap_or(usize::MAX);
                    let (bytes, after) = rest.split_at(length.min(rest.len()));
                    rest = after;
                    sink.bytes(bytes);
                }
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

/// Returns the id of a type in snapshots, for encoding version 0: six bits for each character of its name, and ten for the
/// version.
fn type_id(name: &str) -> u64 {
    const CHARACTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digits = name.bytes().filter_map(|byte| CHARACTERS.iter().position(|character| *character == byte));
    digits.fold(0, |id: u64, digit| id << 6 | digit as u64) << 10
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

/// Removes an unsigned integer that [`push_length`] has written from the start of `rest`.
#[expect(clippy::big_endian_bytes, reason = "servers write the high byte first")]
fn take_length(rest: &mut &[u8]) -> u64 {
    let [first] = take(rest);
    match first {
        0x80 => u32::from_be_bytes(take(rest)).into(),
        0x81 => u64::from_be_bytes(take(rest)),
        0x40.. => {
            let [second] = take(rest);
            u64::from(first & 0x3f) << 8 | u64::from(second)
        }
        _ => first.into(),
    }
}

/// Removes bytes from the start of `rest`, which has them: only this file writes fields.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (taken, after) = rest.split_first_chunk().map_or(([0; N], &[][..]), |(taken, after)| (*taken, after));
    *rest = after;
    taken
}
