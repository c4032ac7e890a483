//! RedisBloom's encodings of a filter: the snapshot of every release, and the pieces of BF.SCANDUMP.
//!
//! Read is what any release wrote, but every field is checked before it is used or allocated for; written is
//! what the newest release writes. docs/formats.md has the field tables.

mod checks;
pub mod header;
pub mod pieces;
pub mod rdb;

use super::filter::DataType;

/// RedisBloom's data type, in the encoding that its newest release writes.
pub(super) const DATA_TYPE: DataType =
    DataType { name: "MBbloom--", encoding_version: rdb::ENCODING_VERSION };
