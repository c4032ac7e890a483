//! Reads RDB files and replies of DUMP without a server. Decodes filters and skips everything else.
//!
//! Memory is allocated as bytes are read and not by the lengths in the file. So a malformed file takes no more memory
//! than its size, except that LZF strings and sparse filters take a bounded multiple of it.

mod reader;
mod skip;
mod value;

use std::io::Read as IoRead;

use reader::ReadError;
use skip::{Dialect, skip_value};
use value::skip_module;

pub(crate) use reader::Reader;
pub(crate) use value::{MODULE_VALUE, Read, read_module};

/// First bytes of an RDB file. A version of three or four digits follows.
const REDIS: &[u8; 5] = b"REDIS";
const VALKEY: &[u8; 6] = b"VALKEY";

/// The first version that ends with a checksum.
const CHECKSUM_SINCE: u64 = 5;

const SLOT_IMPORT: u8 = 0xF3;
const SLOT_INFO: u8 = 0xF4;
const FUNCTION: u8 = 0xF5;
const MODULE_AUX: u8 = 0xF7;
const IDLE: u8 = 0xF8;
const FREQUENCY: u8 = 0xF9;
const AUX: u8 = 0xFA;
const RESIZE_DB: u8 = 0xFB;
const EXPIRE_MS: u8 = 0xFC;
const EXPIRE_S: u8 = 0xFD;
const SELECT_DB: u8 = 0xFE;
const END: u8 = 0xFF;

/// One key of an RDB file.
pub(crate) enum Entry {
    /// The key has a type of the server itself.
    Own(&'static str),
    /// The key has the type of a module.
    Module {
        key: Vec<u8>,
        db: u64,
        /// When it expires, in UNIX milliseconds.
        expires_ms: Option<u64>,
        data_type: String,
        encoding_version: i32,
        read: Read,
    },
}

/// Reads an RDB file and calls `visit` with its keys. Returns the version of its format.
pub(crate) fn read_snapshot<R: IoRead>(
    reader: &mut Reader<R>,
    mut visit: impl FnMut(Entry),
) -> Result<u64, ReadError> {
    let (dialect, version) = head(reader)?;
    let (mut db, mut expires_ms) = (0, None);
    loop {
        match reader.byte()? {
            END => {
                // Skips the checksum, which is 0 if the server is configured not to compute it.
                if version >= CHECKSUM_SINCE {
                    reader.skip(8)?;
                }
                return Ok(version);
            }
            SELECT_DB => db = reader.number()?,
            EXPIRE_MS => expires_ms = Some(u64::from_le_bytes(reader.array()?)),
            EXPIRE_S => {
                expires_ms = Some(u64::from(u32::from_le_bytes(reader.array()?)).saturating_mul(1000))
            }
            FREQUENCY => drop(reader.byte()?),
            IDLE => drop(reader.number()?),
            RESIZE_DB => {
                reader.number()?;
                reader.number()?;
            }
            AUX => {
                reader.skip_string()?;
                reader.skip_string()?;
            }
            FUNCTION => reader.skip_string()?,
            SLOT_INFO => {
                reader.number()?;
                reader.number()?;
                reader.number()?;
            }
            SLOT_IMPORT => {
                reader.skip_string()?;
                for _ in 0..reader.number()? {
                    reader.number()?;
                    reader.number()?;
                }
            }
            MODULE_AUX => {
                reader.number()?;
                skip_module(reader)?;
            }
            MODULE_VALUE => {
                let key = reader.string()?;
                let (data_type, encoding_version, read) = read_module(reader)?;
                visit(Entry::Module {
                    key,
                    db,
                    expires_ms: expires_ms.take(),
                    data_type,
                    encoding_version,
                    read,
                });
            }
            value_type => {
                reader.skip_string()?;
                visit(Entry::Own(skip_value(reader, value_type, dialect)?));
                expires_ms = None;
            }
        }
    }
}

fn head<R: IoRead>(reader: &mut Reader<R>) -> Result<(Dialect, u64), ReadError> {
    let head: [u8; 9] = reader.array()?;
    let (dialect, digits) = match (head.strip_prefix(REDIS), head.strip_prefix(VALKEY)) {
        (Some(digits), _) => (Dialect::Redis, digits),
        (_, Some(digits)) => (Dialect::Valkey, digits),
        _ => {
            return Err(ReadError::Invalid(
                "the file is not an RDB file, a reply of DUMP or a file of `everbloom build`".to_owned(),
            ));
        }
    };
    let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    Ok((
        dialect,
        version.ok_or_else(|| {
            ReadError::Invalid("the RDB file is damaged: its version is not a number".to_owned())
        })?,
    ))
}
