//! The one way that records of fixed size are written and read: their fields one after another, fixed size,
//! little-endian. docs/formats.md has the bytes of each.

use bincode::Options;
use serde::{Deserialize, Serialize};

use super::stream::DecodeError;

/// More bytes than any record has.
const RECORD_MAX_BYTES: u64 = 256;

fn options() -> impl Options {
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .with_little_endian()
        .with_limit(RECORD_MAX_BYTES)
        .reject_trailing_bytes()
}

/// Writes a record behind `bytes`.
pub(super) fn append(bytes: &mut Vec<u8>, record: &impl Serialize) {
    // A record of fixed size within the limit, written to memory: there is nothing that could fail.
    let written = options().serialize_into(bytes, record);
    debug_assert!(written.is_ok());
}

/// Reads a record that takes up all of `bytes`.
pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    options().deserialize(bytes).map_err(|_| DecodeError::Truncated)
}
