//! Values of RedisBloom's other types: Count-Min sketches, Top-K lists and t-digests. No command works on them. A snapshot
//! with them loads, they are kept as they were read, and they are written back, until their owner moves or deletes them.
//!
//! A value is kept as the payload of DUMP has it: for each field an opcode and the field, as in the server's snapshots. The
//! fields were read from files of RedisBloom; docs/formats.md lists them.

use super::stream::{DecodeError, Sink, Source};
use crate::bloom::OutOfMemory;

/// A type of RedisBloom that is only carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarriedType {
    /// Count-Min sketches.
    CountMin,
    /// Top-K lists.
    TopK,
    /// t-digests.
    TDigest,
}

impl CarriedType {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::CountMin, Self::TopK, Self::TDigest];

    /// The only encoding version of all types.
    pub const ENCODING_VERSION: i32 = 0;

    /// Returns the name of the type in a server: nine characters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CountMin => "CMSk-TYPE",
            Self::TopK => "TopK-TYPE",
            Self::TDigest => "TDIS-TYPE",
        }
    }
}

/// Opcodes of the server before a field, and at the end of a value.
const OPCODE_UNSIGNED: u8 = 2;
const OPCODE_DOUBLE: u8 = 4;
const OPCODE_STRING: u8 = 5;
const OPCODE_END: u8 = 0;
/// The byte before a value of a module in the payload of DUMP.
const TYPE_OF_MODULES: u8 = 7;
/// The version of snapshots in the payload of DUMP: that of Redis 7.0. Servers read older versions.
const SNAPSHOT_VERSION: u16 = 10;
/// The checksum of the payload of DUMP.
const CRC64: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_REDIS);
/// Bytes around the fields in the payload of DUMP: the type, the id of the module's type, the end, the version and the
/// checksum.
const PAYLOAD_MORE_BYTES: usize = 1 + 9 + 1 + 2 + 8;

/// A value of one of the types.
#[derive(Debug)]
pub struct Carried {
    carried_type: CarriedType,
    /// The fields, each after its opcode.
    fields: Vec<u8>,
}

impl Carried {
    /// Reads a value. O(bytes).
    ///
    /// # Errors
    /// The first wrong field, or [`DecodeError::OutOfMemory`].
    pub fn load(
        carried_type: CarriedType,
        encoding_version: i32,
        source: &mut impl Source,
    ) -> Result<Self, DecodeError> {
        if encoding_version != CarriedType::ENCODING_VERSION {
            return Err(DecodeError::unsupported("encoding version", encoding_version.unsigned_abs()));
        }
        let mut fields = Fields { source, encoded: Vec::new() };
        match carried_type {
            CarriedType::CountMin => fields.count_min()?,
            CarriedType::TopK => fields.top_k()?,
            CarriedType::TDigest => fields.t_digest()?,
        }
        Ok(Self { carried_type, fields: exact(&fields.encoded)? })
    }

    /// Returns the type.
    #[must_use]
    pub const fn carried_type(&self) -> CarriedType {
        self.carried_type
    }

    /// Writes the value, with the fields that were read. O(bytes).
    pub fn save(&self, sink: &mut impl Sink) {
        let mut rest = &self.fields[..];
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

    /// Returns the payload with which RESTORE creates the value. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn payload(&self) -> Result<Vec<u8>, OutOfMemory> {
        let mut payload = Vec::new();
        let bytes = self.fields.len().saturating_add(PAYLOAD_MORE_BYTES);
        payload.try_reserve_exact(bytes).map_err(|_| OutOfMemory)?;
        payload.push(TYPE_OF_MODULES);
        push_length(&mut payload, self.type_id());
        payload.extend_from_slice(&self.fields);
        payload.push(OPCODE_END);
        payload.extend_from_slice(&SNAPSHOT_VERSION.to_le_bytes());
        payload.extend_from_slice(&CRC64.checksum(&payload).to_le_bytes());
        Ok(payload)
    }

    /// Returns the id of the type in snapshots: six bits for each character of its name, then ten for the encoding
    /// version.
    fn type_id(&self) -> u64 {
        const CHARACTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let name = self.carried_type.name().bytes();
        let digits = name.filter_map(|byte| CHARACTERS.iter().position(|character| *character == byte));
        digits.fold(0, |id: u64, digit| id << 6 | digit as u64) << 10
    }

    /// Makes a copy with its own memory. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        Ok(Self { carried_type: self.carried_type, fields: exact(&self.fields)? })
    }

    /// Returns the fields as they are stored, the only block of the allocator.
    #[must_use]
    pub fn block(&self) -> &[u8] {
        &self.fields
    }

    /// Returns the mutable block, for relocation.
    pub const fn block_mut(&mut self) -> &mut Vec<u8> {
        &mut self.fields
    }
}

/// Returns a copy of bytes that takes no more memory than necessary.
fn exact(bytes: &[u8]) -> Result<Vec<u8>, OutOfMemory> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| OutOfMemory)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Reads fields from a source, and appends each with its opcode. So the memory never exceeds what was read.
struct Fields<'s, S> {
    source: &'s mut S,
    encoded: Vec<u8>,
}

impl<S: Source> Fields<'_, S> {
    fn reserve(&mut self, bytes: usize) -> Result<(), DecodeError> {
        self.encoded.try_reserve(bytes).map_err(|_| DecodeError::OutOfMemory)
    }

    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        let value = self.source.unsigned()?;
        self.reserve(10)?;
        self.encoded.push(OPCODE_UNSIGNED);
        push_length(&mut self.encoded, value);
        Ok(value)
    }

    fn double(&mut self) -> Result<(), DecodeError> {
        let value = self.source.double()?;
        self.reserve(9)?;
        self.encoded.push(OPCODE_DOUBLE);
        self.encoded.extend_from_slice(&value.to_le_bytes());
        Ok(())
    }

    /// Reads a string of `length` bytes; of any length if that is `None`.
    fn string(&mut self, length: Option<u64>) -> Result<(), DecodeError> {
        let bytes = self.source.bytes()?;
        if length.is_some_and(|length| length != bytes.len() as u64) {
            return Err(DecodeError::Invalid("string length"));
        }
        self.reserve(bytes.len().saturating_add(10))?;
        self.encoded.push(OPCODE_STRING);
        push_length(&mut self.encoded, bytes.len() as u64);
        self.encoded.extend_from_slice(&bytes);
        Ok(())
    }

    /// Reads an unsigned integer above 0.
    fn positive(&mut self, name: &'static str) -> Result<u64, DecodeError> {
        self.unsigned().and_then(|value| if value == 0 { Err(DecodeError::Invalid(name)) } else { Ok(value) })
    }

    /// Reads width, depth, the sum of all counts, and the counters, of four bytes each.
    fn count_min(&mut self) -> Result<(), DecodeError> {
        let (width, depth) = (self.positive("width")?, self.positive("depth")?);
        self.unsigned()?;
        self.string(Some(product(&[width, depth, 4])?))
    }

    /// Reads k, width, depth, decay, the counters, of eight bytes each, and the heap, whose entries of 24 bytes have
    /// addresses of the server that wrote them. Then reads the item of each entry.
    fn top_k(&mut self) -> Result<(), DecodeError> {
        let items = self.positive("k")?;
        let (width, depth) = (self.positive("width")?, self.positive("depth")?);
        self.double()?;
        self.string(Some(product(&[width, depth, 8])?))?;
        self.string(Some(product(&[items, 24])?))?;
        (0..items).try_for_each(|_| self.string(None))
    }

    /// Reads the compression, the smallest and the largest value, the capacity, the merged and unmerged nodes, the number
    /// of compressions and two sums of weights. Then reads the means of the merged nodes, and their weights.
    fn t_digest(&mut self) -> Result<(), DecodeError> {
        (0..3).try_for_each(|_| self.double())?;
        let (capacity, merged) = (self.unsigned()?, self.unsigned()?);
        if merged > capacity {
            return Err(DecodeError::Invalid("merged nodes"));
        }
        self.unsigned()?;
        self.unsigned()?;
        self.double()?;
        self.double()?;
        (0..merged).try_for_each(|_| self.double())?;
        (0..merged).try_for_each(|_| self.double())
    }
}

/// Returns the product of numbers that bytes of a file give.
fn product(numbers: &[u64]) -> Result<u64, DecodeError> {
    let product = numbers.iter().try_fold(1u64, |product, number| product.checked_mul(*number));
    product.ok_or(DecodeError::Invalid("size"))
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
