//! The encodings of valkey-bloom: the values of its data type in a snapshot and the blob of its BF.LOAD.
//!
//! docs/formats.md has every byte. What only its older releases wrote is read; the newest encoding is
//! written.

mod blob;
mod builder;
pub mod header;
mod layer;
mod rdb;
mod rewrite;

pub use blob::{decode as decode_blob, encode as encode_blob};
pub use builder::ValkeyChain;
pub use rdb::{ENCODING_VERSION, TYPE_NAME, load, save};
pub use rewrite::rewrite;
