//! Bitmaps as clients keep them: plain strings of the server, Guava's own serial form, Redisson's settings.

mod guava;
pub mod header;
mod redisson;
mod string;

pub use crate::bloom::client::{BitOrder, StringForm};
pub use guava::{GUAVA_HEADER_BYTES, GuavaError, GuavaHeader};
pub use redisson::{RedissonConfig, config_key};
pub use string::{ExportError, STRING_MAX_BYTES, StringError};
