//! When a command runs, and on whose word.

use std::ffi::c_int;

use redis_module::raw;

use super::api::{self, Context};
use super::server;

/// Whether the command comes from a primary, an append-only file or the node that gives a slot away.
///
/// # Safety
/// `context` must be that of the running command.
pub(super) unsafe fn must_obey(context: Context) -> bool {
    type MustObeyClient = unsafe extern "C" fn(Context) -> c_int;
    // SAFETY: by the caller's contract.
    if is_obeying(unsafe { api::context_flags(context) }) {
        return true;
    }
    // SAFETY: this is the type of the function in Valkey's module API, the only one that has it.
    let must_obey = unsafe { api::by_name::<MustObeyClient>(c"RedisModule_MustObeyClient") };
    // SAFETY: the context is that of the running command.
    must_obey.is_some_and(|must_obey| unsafe { must_obey(context) } != 0)
}

/// Whether the command comes from a primary or an append-only file, not from the node that gives a slot away: there an
/// error ends the migration, and the giver keeps slot and filter.
///
/// # Safety
/// `context` must be that of the running command.
pub(super) unsafe fn must_succeed(context: Context) -> bool {
    // SAFETY: by the caller's contract.
    let flags = unsafe { api::context_flags(context) };
    is_obeying(flags) && !is_importing_slot(flags)
}

/// Whether there is a primary or an append-only file behind a command; Valkey says so of a giver of slots, too.
fn is_obeying(flags: u32) -> bool {
    flags & (raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING) != 0
}

/// Whether the command comes from the node that gives a slot away. Only the primary that receives the slot sees this:
/// to its replicas and its append-only file the command comes from the primary.
fn is_importing_slot(flags: u32) -> bool {
    // Of Valkey from 9.0 on; the bindings do not know it. In Redis from 8.0 on the bit tells of a debugging build.
    const SLOT_IMPORT_CLIENT: u32 = 1 << 25;
    flags & SLOT_IMPORT_CLIENT != 0 && server::is_valkey()
}

/// Milliseconds of UNIX time at which the command began. Within a script or a transaction it is the same for all commands,
/// where the server says so: not Redis 7.0, which knows the time of the moment only.
pub(super) fn now_ms() -> u64 {
    if let Some(cached) = api!(RedisModule_CachedMicroseconds) {
        // SAFETY: no precondition.
        return u64::try_from(unsafe { cached() }).unwrap_or(0) / 1000;
    }
    // SAFETY: no precondition.
    let now_ms = api!(RedisModule_Milliseconds).map(|milliseconds| unsafe { milliseconds() });
    now_ms.and_then(|now_ms| u64::try_from(now_ms).ok()).unwrap_or(0)
}
