//! Reads values of modules. Every field begins with its kind, so values of unknown types can be skipped.

use std::io::Read as IoRead;

use everbloom::{BloomFilter, DecodeError, Format, Source, UnsignedOrBytes};

use super::reader::{ReadError, Reader};

/// The type of a value of a module.
pub(crate) const MODULE_VALUE: u8 = 7;

const END: u64 = 0;
const SIGNED: u64 = 1;
const UNSIGNED: u64 = 2;
const FLOAT: u64 = 3;
const DOUBLE: u64 = 4;
const STRING: u64 = 5;

/// The characters of the name of a data type, six bits each.
const NAME_LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the name and the encoding version of a data type from the number that encodes both.
fn data_type_of(id: u64) -> (String, i32) {
    let letters = (0..9).map(|place| {
        let index = usize::try_from(id >> (58 - 6 * place) & 63).unwrap_or_default();
        char::from(NAME_LETTERS.get(index).copied().unwrap_or(b'?'))
    });
    (letters.collect(), i32::try_from(id & 1023).unwrap_or_default())
}

/// Returns the format of filters of a data type.
fn format_of(data_type: &str) -> Option<Format> {
    match data_type {
        "everbloom" => Some(Format::Everbloom),
        "MBbloom--" => Some(Format::RedisBloom),
        "bloomfltr" => Some(Format::ValkeyBloom),
        _ => None,
    }
}

/// A value of a module.
pub(crate) enum Read {
    /// A filter.
    Filter(Box<BloomFilter>),
    /// Why a filter cannot be read.
    Unreadable(DecodeError),
    /// A value of another type.
    Other,
}

/// Reads a value after its type. Also returns the name and the encoding version of the data type.
pub(crate) fn read_module<R: IoRead>(reader: &mut Reader<R>) -> Result<(String, i32, Read), ReadError> {
    let (name, version) = data_type_of(reader.number()?);
    let Some(format) = format_of(&name) else {
        skip_module(reader)?;
        return Ok((name, version, Read::Other));
    };
    let mut fields = Fields { reader, has_ended: false, error: None };
    let loaded = BloomFilter::load(format, version, &mut fields);
    let Fields { has_ended, error, .. } = fields;
    if let Some(error) = error {
        return Err(error);
    }
    // Skips fields that a newer release has added, or the rest of a refused filter.
    let has_more = !has_ended && skip_module(reader)? > 0;
    let read = match loaded {
        Ok(_) if has_more => Read::Unreadable(DecodeError::Invalid("the number of fields")),
        Ok(filter) => Read::Filter(Box::new(filter)),
        Err(error) => Read::Unreadable(error),
    };
    Ok((name, version, read))
}

/// Skips the fields of a value up to its end. Returns their number.
pub(crate) fn skip_module<R: IoRead>(reader: &mut Reader<R>) -> Result<u64, ReadError> {
    let mut fields = 0;
    loop {
        match reader.number()? {
            END => return Ok(fields),
            SIGNED | UNSIGNED => drop(reader.number()?),
            FLOAT => reader.skip(4)?,
            DOUBLE => reader.skip(8)?,
            STRING => reader.skip_string()?,
            kind => return Err(unknown(kind)),
        }
        fields += 1;
    }
}

fn unknown(kind: u64) -> ReadError {
    ReadError::Invalid(format!("the file is damaged: unknown field kind {kind}"))
}

enum Field {
    Signed,
    Unsigned(u64),
    Float(f32),
    Double(f64),
    Bytes(Vec<u8>),
}

/// The source of the fields of one value.
struct Fields<'r, R> {
    reader: &'r mut Reader<R>,
    /// Whether the end of the value was read.
    has_ended: bool,
    /// Why no more fields can be read.
    error: Option<ReadError>,
}

impl<R: IoRead> Fields<'_, R> {
    fn next(&mut self) -> Result<Field, DecodeError> {
        if self.has_ended || self.error.is_some() {
            return Err(DecodeError::Truncated);
        }
        match self.read() {
            Ok(Some(field)) => Ok(field),
            Ok(None) => {
                self.has_ended = true;
                Err(DecodeError::Truncated)
            }
            Err(error) => {
                self.error = Some(error);
                Err(DecodeError::Truncated)
            }
        }
    }

    fn read(&mut self) -> Result<Option<Field>, ReadError> {
        Ok(Some(match self.reader.number()? {
            END => return Ok(None),
            SIGNED => {
                self.reader.number()?;
                Field::Signed
            }
            UNSIGNED => Field::Unsigned(self.reader.number()?),
            FLOAT => Field::Float(f32::from_le_bytes(self.reader.array()?)),
            DOUBLE => Field::Double(f64::from_le_bytes(self.reader.array()?)),
            STRING => Field::Bytes(self.reader.string()?),
            kind => return Err(unknown(kind)),
        }))
    }
}

impl<R: IoRead> Source for Fields<'_, R> {
    type Bytes = Vec<u8>;

    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        if let Field::Unsigned(number) = self.next()? { Ok(number) } else { Err(DecodeError::Truncated) }
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        if let Field::Double(number) = self.next()? { Ok(number) } else { Err(DecodeError::Truncated) }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        if let Field::Bytes(bytes) = self.next()? { Ok(bytes) } else { Err(DecodeError::Truncated) }
    }

    fn float(&mut self) -> Result<f32, DecodeError> {
        if let Field::Float(number) = self.next()? { Ok(number) } else { Err(DecodeError::Truncated) }
    }

    fn unsigned_or_bytes(&mut self) -> Result<UnsignedOrBytes<Vec<u8>>, DecodeError> {
        match self.next()? {
            Field::Unsigned(number) => Ok(UnsignedOrBytes::Unsigned(number)),
            Field::Bytes(bytes) => Ok(UnsignedOrBytes::Bytes(bytes)),
            Field::Signed | Field::Float(_) | Field::Double(_) => Err(DecodeError::Truncated),
        }
    }
}
