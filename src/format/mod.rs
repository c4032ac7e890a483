//! BYTES: how a filter is written down and read back. Imports [`bloom`](crate::bloom), knows no server.
#![forbid(unsafe_code)]

pub mod client;
pub mod dump;
pub mod everbloom;
pub mod header;
pub mod record;
pub mod redisbloom;

pub use record::{DecodeError, Sink, Source};
