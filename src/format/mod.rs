//! BYTES: how a filter is written down and read back. Imports [`bloom`](crate::bloom), knows no server.
#![forbid(unsafe_code)]

pub mod client;
pub mod everbloom;
mod fields;
pub mod filter;
pub mod pieces;
pub mod record;
pub mod redisbloom;
pub mod rewrite;
mod seal;
pub mod valkeybloom;

pub use record::{DecodeError, Sink, Source, UnsignedOrBytes};
