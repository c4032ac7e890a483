//! The encodings of valkey-bloom: the values of its data type in a snapshot and the blob of its BF.LOAD.
//!
//! The encodings of its older releases are read; the newest is written. valkey-bloom has no commands for dumps, so in
//! dumps its filters have [everbloom's record](super::record). docs/formats.md has every byte.
//!
//! A layer is the same string in snapshots and blobs, a slice: a header and then the bits. All numbers are
//! little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | version: 1 |
//! | 1..9 | length of the bits, in bytes |
//! | 9..13 | probes per item |
//! | 13..45 | the seed of the hashes, the same in all layers |
//! | 45.. | the bits; bit i is bit i % 8, least significant first, of byte i / 8 |
//!
//! Capacity and items are separate fields. Version 0 of the data type (valkey-bloom 0.1.0) had no such header.

mod blob;
mod layers;
mod rdb;

pub use blob::{decode as decode_blob, encode as encode_blob};
pub use rdb::{load, save};
