//! Clients' filters: plain strings of the server, Guava's serial form, Redisson's settings.

pub mod guava;
mod redisson;
mod string;

pub use guava::{GuavaError, GuavaHeader};
pub use redisson::{RedissonConfig, config_key};
pub use string::{ExportError, StringError};
