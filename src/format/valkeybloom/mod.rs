//! The encodings of valkey-bloom: the values of its data type in a snapshot and the blob of its BF.LOAD.
//!
//! docs/formats.md has every byte. What only its older releases wrote is read; the newest encoding is written.

mod blob;
pub mod dump;
mod layers;
mod rdb;
mod slice;

pub use blob::{decode as decode_blob, encode as encode_blob};
pub use rdb::{ENCODING_VERSION, TYPE_NAME, load, save};

use crate::bloom::Chain;
use crate::bloom::valkeybloom::ValkeyBloom;

/// A filter of valkey-bloom.
pub type ValkeyChain = Chain<ValkeyBloom>;
