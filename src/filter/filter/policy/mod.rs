//! The policy of a filter: the error rate that it promises, which parts it gets, and when it refuses items. A policy is
//! a value with rules. It knows layers and tables, but no filter.

mod counting;
pub mod imported;
mod parts;
mod promise;
pub mod redisbloom;
mod rules;
mod validate;
pub mod valkeybloom;
pub mod window;

pub use counting::Counting;
pub use imported::{BitOrder, Imported, StringForm};
pub use parts::PartSpec;
pub use promise::{BITS_SHARE, Growth, Promise};
pub use redisbloom::RedisBloom;
pub use rules::{Policy, Rules};
pub use valkeybloom::ValkeyBloom;
pub use window::Window;
