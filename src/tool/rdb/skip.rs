//! Skips values of the servers' own types. A table describes their encodings.

use std::io::Read;

use super::reader::{ReadError, Reader};
use super::value::{MODULE_VALUE, skip_module};

/// The server that wrote an RDB file: Redis and Valkey have different types with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Redis,
    Valkey,
}

/// A part of the encoding of a value.
enum Part {
    Text,
    Numbers(u64),
    Bytes(u64),
    /// A double as text after its length, which also encodes NaN and the infinities.
    Score,
    /// A count, and then these parts as many times.
    Each(&'static [Part]),
}
use Part::{Bytes, Each, Numbers, Score, Text};

const FIELDS_WITH_EXPIRY: Part = Each(&[Numbers(1), Text, Text]);
/// The entries of a stream.
const ENTRIES: Part = Each(&[Text, Text]);
/// The identifier of a stream entry.
const ID: Part = Bytes(16);
/// Entries that were delivered and not acknowledged, with times and counts.
const PENDING: Part = Each(&[ID, Bytes(8), Numbers(1)]);
/// Consumers with their pending entries and the time when each was last seen. Later versions also have the time when it
/// was last active.
const CONSUMERS: Part = Each(&[Text, Bytes(8), Each(&[ID])]);
const ACTIVE_CONSUMERS: Part = Each(&[Text, Bytes(16), Each(&[ID])]);

/// Returns the name of a type and the parts of its encoding. A stream has as numbers its length and its last
/// identifier; later versions add the first identifier, the last deleted one, and the number of entries that were ever
/// added. A group has its last identifier; later versions add the number of entries read.
fn encoding_of(value_type: u8, dialect: Dialect) -> Option<(&'static str, &'static [Part])> {
    Some(match (value_type, dialect) {
        (0, _) => ("string", &[Text]),
        (1 | 14, _) => ("list", &[Each(&[Text])]),
        (10, _) => ("list", &[Text]),
        (18, _) => ("list", &[Each(&[Numbers(1), Text])]),
        (2, _) => ("set", &[Each(&[Text])]),
        (11 | 20, _) => ("set", &[Text]),
        (3, _) => ("zset", &[Each(&[Text, Score])]),
        (5, _) => ("zset", &[Each(&[Text, Bytes(8)])]),
        (12 | 17, _) => ("zset", &[Text]),
        (4, _) => ("hash", &[Each(&[Text, Text])]),
        (9 | 13 | 16 | 23, _) => ("hash", &[Text]),
        (22, Dialect::Valkey) => ("hash", &[Each(&[Text, Text, Bytes(8)])]),
        (22, Dialect::Redis) => ("hash", &[FIELDS_WITH_EXPIRY]),
        (24, _) => ("hash", &[Bytes(8), FIELDS_WITH_EXPIRY]),
        (25, _) => ("hash", &[Bytes(8), Text]),
        (15, _) => ("stream", &[ENTRIES, Numbers(3), Each(&[Text, Numbers(2), PENDING, CONSUMERS])]),
        (19, _) => ("stream", &[ENTRIES, Numbers(8), Each(&[Text, Numbers(3), PENDING, CONSUMERS])]),
        (21, _) => ("stream", &[ENTRIES, Numbers(8), Each(&[Text, Numbers(3), PENDING, ACTIVE_CONSUMERS])]),
        _ => return None,
    })
}

/// Skips a value of a type. Returns the name of the type.
pub(crate) fn skip_value<R: Read>(
    reader: &mut Reader<R>,
    value_type: u8,
    dialect: Dialect,
) -> Result<&'static str, ReadError> {
    if value_type == MODULE_VALUE {
        reader.number()?;
        skip_module(reader)?;
        return Ok("module");
    }
    let unknown = || {
        ReadError::Invalid(format!(
            "unknown value type {value_type}: the file is damaged or newer than this tool"
        ))
    };
    let (name, parts) = encoding_of(value_type, dialect).ok_or_else(unknown)?;
    skip(reader, parts)?;
    Ok(name)
}

fn skip<R: Read>(reader: &mut Reader<R>, parts: &[Part]) -> Result<(), ReadError> {
    for part in parts {
        match part {
            Text => reader.skip_string()?,
            Numbers(count) => {
                for _ in 0..*count {
                    reader.number()?;
                }
            }
            Bytes(length) => reader.skip(*length)?,
            Score => match reader.byte()? {
                // These lengths encode NaN and the two infinities.
                253..=255 => {}
                digits => reader.skip(digits.into())?,
            },
            // Each element takes at least one byte, so the size of the file limits their number.
            Each(parts) => {
                for _ in 0..reader.number()? {
                    skip(reader, parts)?;
                }
            }
        }
    }
    Ok(())
}
