//! Serialization: how a filter is written and read. Imports [`bloom`](crate::bloom), and nothing of a server.
//!
//! [`filter`] selects by the format of a filter. Filters of everbloom's own format have a [`record`]; [`snapshot`] and
//! [`chunks`] write it, the bits and the entries. RedisBloom's format, valkey-bloom's format and the strings of clients
//! have a folder each.
#![forbid(unsafe_code)]

pub mod chunks;
pub mod client;
pub mod filter;
mod parts;
pub mod record;
pub mod redisbloom;
mod segments;
pub mod snapshot;
mod stream;
mod trailer;
pub mod valkeybloom;

pub use segments::CHUNK_BYTES;
pub use stream::{DecodeError, Sink, Source, UnsignedOrBytes};
