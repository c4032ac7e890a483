//! Serialization: how a filter is written and read. Imports [`bloom`](everbloom_filter), and nothing of a server.
//!
//! [`filter`] selects the functions for the format of a filter. The [`record`] describes a filter in everbloom's own
//! format; [`snapshot`] and [`chunks`] write the record, then the bits and the entries. RedisBloom's format,
//! valkey-bloom's format and the strings of clients have a folder each.
#![forbid(unsafe_code)]

pub mod carried;
pub mod changes;
pub mod chunks;
pub mod client;
pub mod contents;
pub mod filter;
pub mod loading;
pub mod payload;
pub mod record;
pub mod redisbloom;
pub mod snapshot;
mod stream;
pub mod valkeybloom;
pub mod value;

pub use stream::{DecodeError, Sink, Source, UnsignedOrBytes};

use everbloom_filter::Format;

/// The data type of the filters of a format in a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType {
    /// Exactly nine characters.
    pub name: &'static str,
    /// The encoding version that is written: that of the newest release of the module. Older versions can be read.
    pub encoding_version: i32,
}

impl DataType {
    /// Returns the data type of a format.
    #[must_use]
    pub const fn of(format: Format) -> Self {
        match format {
            Format::Everbloom => Self { name: "everbloom", encoding_version: 1 },
            Format::RedisBloom => Self { name: "MBbloom--", encoding_version: 4 },
            Format::ValkeyBloom => Self { name: "bloomfltr", encoding_version: 1 },
        }
    }
}
