//! Clients' bitmaps: plain strings of the server in [`bitmap`], Guava's serial form in [`guava`], and the settings that
//! Redisson keeps beside a bitmap.

pub mod bitmap;
pub mod guava;
mod redisson;

pub use bitmap::{ExportError, StringError};
pub use guava::{GuavaError, GuavaHeader};
pub use redisson::{RedissonConfig, config_key};
