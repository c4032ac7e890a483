//! BYTES: how a filter is written and read back. Imports [`bloom`](crate::bloom), knows no server.
//!
//! Filters of our own format have [one record](record) for what is written about them beside their cells; [`snapshot`],
//! [`pieces`] and [`rewrite`] write the cells. RedisBloom's and valkey-bloom's formats have a folder each, and the strings of
//! clients another. [`filter`] chooses by the format of a filter.
#![forbid(unsafe_code)]

pub mod client;
mod fields;
pub mod filter;
pub mod pieces;
pub mod record;
pub mod redisbloom;
pub mod rewrite;
mod seal;
mod segments;
pub mod snapshot;
mod stream;
pub mod valkeybloom;

pub use segments::CHUNK_BYTES;
pub use stream::{DecodeError, Sink, Source, UnsignedOrBytes};
