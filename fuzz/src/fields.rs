//! Converts between the fields of a snapshot and the input bytes of a fuzz target.

use everbloom::format::{DecodeError, Sink, Source, UnsignedOrBytes};

use super::input::{Input, Output};

/// One field.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    Unsigned(u64),
    Double(u64),
    Float(u32),
    Bytes(Vec<u8>),
}

/// The fields in order. They are read from the first to the last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(pub Vec<Field>);

/// Longest string of one field.
const STRING_MAX_BYTES: usize = 40 << 20;
/// Largest sum of the lengths of all strings.
const ALL_MAX_BYTES: usize = 64 << 20;
/// Largest number of fields. No filter within the limits has as many.
const FIELDS_MAX: usize = 40_000;

impl Fields {
    /// Reads fields to the end of the input. The input has a string in full, or its length and the bytes that it
    /// repeats. In the second case, the length may be that of an array whose set bits an earlier field counts.
    pub(crate) fn read(input: &mut Input<'_>) -> Self {
        let mut fields = Vec::new();
        let mut total_bytes = 0;
        while !input.is_empty() && fields.len() < FIELDS_MAX {
            let field = match input.byte() % 6 {
                0 => Field::Unsigned(input.u64()),
                1 => Field::Double(input.u64()),
                2 => Field::Float(input.u32()),
                3 => {
                    let length = input.u32() as usize;
                    Field::Bytes(input.bytes(length).to_vec())
                }
                4 => {
                    let length = input.u32() as usize;
                    repeated(input, length)
                }
                _ => {
                    let back = input.below(8);
                    let bits = match fields.iter().rev().nth(back) {
                        Some(Field::Unsigned(bits)) => *bits,
                        _ => 0,
                    };
                    repeated(input, usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX))
                }
            };
            if let Field::Bytes(bytes) = &field {
                total_bytes += bytes.len();
                if total_bytes > ALL_MAX_BYTES {
                    break;
                }
            }
            fields.push(field);
        }
        Self(fields)
    }

    /// Writes the input from which [`Self::read`] makes these fields.
    #[must_use]
    pub fn write(&self, mut output: Output) -> Output {
        for field in &self.0 {
            output = match field {
                Field::Unsigned(number) => output.byte(0).u64(*number),
                Field::Double(bits) => output.byte(1).u64(*bits),
                Field::Float(bits) => output.byte(2).u32(*bits),
                Field::Bytes(bytes) if bytes.iter().all(|byte| *byte == 0) => {
                    output.byte(4).u32(bytes.len() as u32).byte(0).byte(0)
                }
                Field::Bytes(bytes) => output.byte(3).u32(bytes.len() as u32).bytes(bytes),
            };
        }
        output
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader(self.0.iter())
    }
}

/// Returns a string of zero bytes, except for a few bytes at one place.
fn repeated(input: &mut Input<'_>, length: usize) -> Field {
    let mut bytes = vec![0; length.min(STRING_MAX_BYTES)];
    let place = usize::from(input.byte()) * bytes.len() / 256;
    let count = usize::from(input.byte() & 63);
    for (byte, value) in bytes[place..].iter_mut().zip(input.bytes(count)) {
        *byte = *value;
    }
    Field::Bytes(bytes)
}

impl Sink for Fields {
    fn unsigned(&mut self, value: u64) {
        self.0.push(Field::Unsigned(value));
    }
    fn double(&mut self, value: f64) {
        self.0.push(Field::Double(value.to_bits()));
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.push(Field::Bytes(bytes.to_vec()));
    }
}

/// Reads fields one by one and refuses a field of another kind, as servers do.
pub(crate) struct Reader<'f>(std::slice::Iter<'f, Field>);

impl Reader<'_> {
    pub(crate) fn is_at_end(&self) -> bool {
        self.0.len() == 0
    }
}

impl<'f> Source for Reader<'f> {
    type Bytes = &'f [u8];

    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        match self.0.next() {
            Some(Field::Unsigned(value)) => Ok(*value),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        match self.0.next() {
            Some(Field::Double(bits)) => Ok(f64::from_bits(*bits)),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn float(&mut self) -> Result<f32, DecodeError> {
        match self.0.next() {
            Some(Field::Float(bits)) => Ok(f32::from_bits(*bits)),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn bytes(&mut self) -> Result<&'f [u8], DecodeError> {
        match self.0.next() {
            Some(Field::Bytes(bytes)) => Ok(bytes),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn unsigned_or_bytes(&mut self) -> Result<UnsignedOrBytes<&'f [u8]>, DecodeError> {
        match self.0.next() {
            Some(Field::Unsigned(value)) => Ok(UnsignedOrBytes::Unsigned(*value)),
            Some(Field::Bytes(bytes)) => Ok(UnsignedOrBytes::Bytes(bytes)),
            _ => Err(DecodeError::Truncated),
        }
    }
}
