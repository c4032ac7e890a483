//! When a command runs, and on whose word.

use std::ffi::c_int;

use redis_module::raw;

use super::api::{self, Context};

/// Whether the command comes from a primary, an append-only file or the node that gives a slot away.
///
/// # Safety
/// `context` must be that of the running command.
pub(super) unsafe fn must_obey(context: Context) -> bool {
    type MustObeyClient = unsafe extern "C" fn(Context) -> c_int;
    // SAFETY: by the caller's contract.
    if unsafe { must_succeed(context) } {
        return true;
    }
    // Valkey also has commands that import slots, which only this function knows.
    // SAFETY: this is the type of the function in Valkey's module API, the only one that has it.
    let must_obey = unsafe { api::by_name::<MustObeyClient>(c"RedisModule_MustObeyClient") };
    // SAFETY: the context is that of the running command.
    must_obey.is_some_and(|must_obey| unsafe { must_obey(context) } != 0)
}

/// Whether the command comes from a primary or an append-only file.
///
/// # Safety
/// `context` must be that of the running command.
pub(super) unsafe fn must_succeed(context: Context) -> bool {
    const OBEYED: u32 = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
    let Some(context_flags) = api!(RedisModule_GetContextFlags) else { return false };
    // SAFETY: the context is that of the running command.
    let flags = unsafe { context_flags(context) };
    flags & OBEYED.cast_signed() != 0
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
