//! The settings, their values, and the load arguments that set their defaults.
//!
//! Every setting is `bf.name`. Servers that can register names without the module's prefix (Redis 8) also have it as
//! `bf-name`, or `cf-name` for `bf.cuckoo-name`: RedisBloom's spelling. Both names are one setting, and CONFIG REWRITE
//! writes it as `bf.name`.

mod registration;
mod settings;

pub(super) use self::registration::register;
pub(super) use settings::apply_arguments;
pub(super) use settings::carries_other_types;
pub(super) use settings::huge_pages_wanted;
pub(super) use settings::reset;
pub(super) use settings::settings;
