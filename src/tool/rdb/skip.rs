//! Values of the types that servers have of themselves, which are skipped.

use std::io::Read;

use super::reader::{Reader, Torn};
use super::value::{MODULE_VALUE, skip_module};

/// Whose snapshot it is: the two give one number to different types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Redis,
    Valkey,
}

/// Skips a value of a type; answers the name of the type.
pub(crate) fn skip_value<R: Read>(
    reader: &mut Reader<R>,
    value_type: u8,
    dialect: Dialect,
) -> Result<&'static str, Torn> {
    Ok(match (value_type, dialect) {
        (0, _) => {
            reader.skip_string()?;
            "string"
        }
        (1 | 14, _) => {
            each(reader, Reader::skip_string)?;
            "list"
        }
        (10, _) => {
            reader.skip_string()?;
            "list"
        }
        (18, _) => {
            each(reader, |reader| {
                reader.number()?;
                reader.skip_string()
            })?;
            "list"
        }
        (2, _) => {
            each(reader, Reader::skip_string)?;
            "set"
        }
        (11 | 20, _) => {
            reader.skip_string()?;
            "set"
        }
        (3, _) => {
            each(reader, |reader| {
                reader.skip_string()?;
                match reader.byte()? {
                    // Not a number, and the two infinities.
                    253..=255 => Ok(()),
                    digits => reader.skip(digits.into()),
                }
            })?;
            "zset"
        }
        (5, _) => {
            each(reader, |reader| {
                reader.skip_string()?;
                reader.skip(8)
            })?;
            "zset"
        }
        (12 | 17, _) => {
            reader.skip_string()?;
            "zset"
        }
        (4, _) => {
            each(reader, |reader| {
                reader.skip_string()?;
                reader.skip_string()
            })?;
            "hash"
        }
        (9 | 13 | 16 | 23, _) => {
            reader.skip_string()?;
            "hash"
        }
        (22, Dialect::Valkey) => {
            each(reader, |reader| {
                reader.skip_string()?;
                reader.skip_string()?;
                reader.skip(8)
            })?;
            "hash"
        }
        (22 | 24, _) => {
            if value_type == 24 {
                reader.skip(8)?;
            }
            each(reader, |reader| {
                reader.number()?;
                reader.skip_string()?;
                reader.skip_string()
            })?;
            "hash"
        }
        (25, _) => {
            reader.skip(8)?;
            reader.skip_string()?;
            "hash"
        }
        (15 | 19 | 21, _) => {
            skip_stream(reader, value_type)?;
            "stream"
        }
        (MODULE_VALUE, _) => {
            reader.number()?;
            skip_module(reader)?;
            "module"
        }
        _ => {
            return Err(Torn::Nonsense(format!(
                "a value of type {value_type}, which this release does not know"
            )));
        }
    })
}

/// As many elements as the number says that comes first, each of which takes at least a byte.
fn each<R: Read>(
    reader: &mut Reader<R>,
    mut skip: impl FnMut(&mut Reader<R>) -> Result<(), Torn>,
) -> Result<(), Torn> {
    for _ in 0..reader.number()? {
        skip(reader)?;
    }
    Ok(())
}

fn numbers<R: Read>(reader: &mut Reader<R>, count: u32) -> Result<(), Torn> {
    for _ in 0..count {
        reader.number()?;
    }
    Ok(())
}

fn skip_stream<R: Read>(reader: &mut Reader<R>, value_type: u8) -> Result<(), Torn> {
    let (is_second, is_third) = (value_type >= 19, value_type >= 21);
    each(reader, |reader| {
        reader.skip_string()?;
        reader.skip_string()
    })?;
    // Its length and last identifier; the first one, the last deleted one, and how many there ever were.
    numbers(reader, if is_second { 8 } else { 3 })?;
    each(reader, |reader| {
        reader.skip_string()?;
        numbers(reader, if is_second { 3 } else { 2 })?;
        // What was delivered and not acknowledged.
        each(reader, |reader| {
            reader.skip(16 + 8)?;
            numbers(reader, 1)
        })?;
        // Consumers, with when they were seen and active.
        each(reader, |reader| {
            reader.skip_string()?;
            reader.skip(if is_third { 16 } else { 8 })?;
            each(reader, |reader| reader.skip(16))
        })
    })
}
