//! BYTES: how a filter is written down and read back. Imports [`bloom`](crate::bloom), knows no server.
//!
//! Everything of one kind's bytes lies in its folder. [`filter`] calls the folders, and is the only file that
//! knows which kinds there are; the other files here are what several kinds share.
#![forbid(unsafe_code)]

pub mod arrays;
pub mod client;
pub mod counting;
pub mod envelope;
pub mod everbloom;
mod fields;
pub mod filter;
pub mod keyed;
pub mod pieces;
pub mod plan;
pub mod record;
pub mod redisbloom;
pub mod rewrite;
mod seal;
pub mod snapshot;
pub mod union;
pub mod valkeybloom;
pub mod window;

pub use record::{DecodeError, Sink, Source, UnsignedOrBytes};
