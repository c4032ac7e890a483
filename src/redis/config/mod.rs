//! The settings: their values, and how the server reads and writes them.
//!
//! Every setting is `bf.name`. Servers that can register names without the module's prefix (Redis 8) know it
//! as `bf-name` too, RedisBloom's spelling; both names are one setting.

mod callbacks;
mod registration;
mod setting;
mod settings;

pub(super) use registration::register;
pub(super) use setting::{BadValue, Setting};
pub(super) use settings::{SETTINGS, huge_pages_wanted, reset, settings};
