//! Serialization: how a filter is written and read. Imports [`bloom`](crate::bloom), and nothing of a server.
//!
//! [`filter`] chooses by the format of a filter. Filters of our own format have a [`record`]; [`snapshot`] and
//! [`chunks`] write it and the cells. RedisBloom's and valkey-bloom's formats have a folder each, and the strings of
//! clients another.
#![forbid(unsafe_code)]

pub mod chunks;
pub mod client;
pub mod filter;
pub mod record;
pub mod redisbloom;
mod seal;
mod segments;
pub mod snapshot;
mod stream;
pub mod valkeybloom;

pub use segments::CHUNK_BYTES;
pub use stream::{DecodeError, Sink, Source, UnsignedOrBytes};
