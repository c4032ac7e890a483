//! Clients' filters. Bitmaps as clients keep them: plain strings of the server, Guava's own serial form,
//! Redisson's settings. And the header they are written with once they are taken over, under everbloom's data
//! type.

mod guava;
pub mod header;
mod order;
mod redisson;
mod string;

pub use crate::bloom::client::{BitOrder, StringForm};
pub use guava::{GUAVA_HEADER_BYTES, GuavaError, GuavaHeader};
pub use redisson::{RedissonConfig, config_key};
pub use string::{ExportError, STRING_MAX_BYTES, StringError};
