//! Bitmaps as clients keep them: plain strings of the server, Guava's own serial form, Redisson's settings.

mod guava;
mod redisson;
mod string;

pub use crate::bloom::scheme::{BitOrder, StringForm};
pub use guava::{GUAVA_HEADER_BYTES, GuavaError, GuavaHeader};
pub use redisson::{RedissonConfig, config_key};
pub use string::{ExportError, ImportError, STRING_MAX_BYTES};
