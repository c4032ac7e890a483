//! The encodings of valkey-bloom: the values of its data type in a snapshot and the blob of its BF.LOAD.
//!
//! docs/formats.md has every byte. What only its older releases wrote is read; the newest encoding is
//! written. In dumps its filters have [our record](super::record): valkey-bloom has no such commands.

mod blob;
mod builder;
mod layer;
mod rdb;

use super::filter::DataType;

pub use blob::{decode as decode_blob, encode as encode_blob};
pub use rdb::{load, save};

/// valkey-bloom's data type, in the encoding of its release 1.0. Version 0, of 0.1.0, is read too.
pub(super) const DATA_TYPE: DataType = DataType { name: "bloomfltr", encoding_version: 1 };
