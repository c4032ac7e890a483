//! Which server this is: Redis and Valkey share an API but count their versions apart.

use super::api::Context;

/// What is known of the server.
#[derive(Clone, Copy)]
pub(super) struct Server {
    /// Version of Redis or of Valkey: major, minor and patch in a byte each.
    version: i32,
    is_valkey: bool,
}

impl Server {
    /// Asks the server.
    ///
    /// # Safety
    /// `context` must be alive.
    pub(super) unsafe fn ask(context: Context) -> Self {
        // SAFETY: no precondition.
        let version = api!(RedisModule_GetServerVersion).map_or(0, |version| unsafe { version() });
        // SAFETY: the context is alive by the caller's word.
        let is_valkey = unsafe { has_valkey_version(context) };
        Self { version, is_valkey }
    }

    /// Whether settings can have names without the module's prefix: Redis from 8.0 on.
    pub(super) fn knows_plain_names(self) -> bool {
        !self.is_valkey && self.version >= 0x08_00_00
    }

    /// Whether modules must say that they can take part in atomic slot migrations: Valkey from 9.0 on. In
    /// Redis the same bit of the options means something else.
    pub(super) fn knows_atomic_slot_migration(self) -> bool {
        self.is_valkey && self.version >= 0x09_00_00
    }
}

/// # Safety
/// `context` must be alive.
unsafe fn has_valkey_version(context: Context) -> bool {
    let (Some(server_info), Some(get_field), Some(free)) = (
        api!(RedisModule_GetServerInfo),
        api!(RedisModule_ServerInfoGetFieldC),
        api!(RedisModule_FreeServerInfo),
    ) else {
        return false;
    };
    // SAFETY: the context is alive by the caller's word, the section is a C string.
    let info = unsafe { server_info(context, c"server".as_ptr()) };
    // SAFETY: `info` was just made; the field's name is a C string.
    let version = unsafe { get_field(info, c"valkey_version".as_ptr()) };
    let is_there = !version.is_null();
    // SAFETY: `info` was made with this context and is not used again.
    unsafe { free(context, info) };
    is_there
}
