//! A module whose commands do nothing: what is left of a command when the filter is taken away.
//!
//! `NO.ADD key item` and `NO.EXISTS key item` have names as long as those of the everbloom commands that they are
//! compared with, and the same flags, so that the server does for them what it does for those.

use std::ffi::{CStr, c_int};

use redis_module::raw;

/// Name of the module.
const NAME: &CStr = c"noop";
/// Names and flags of the commands.
const COMMANDS: [(&CStr, &CStr); 2] = [(c"NO.ADD", c"write deny-oom fast"), (c"NO.EXISTS", c"readonly fast")];

/// Registers the commands.
///
/// # Safety
/// Called by the server only, with a context for loading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    context: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    let version = raw::REDISMODULE_APIVER_1.cast_signed();
    // SAFETY: the server's context; the name is a C string that lives forever.
    let mut status = unsafe { raw::Export_RedisModule_Init(context, NAME.as_ptr(), 1, version) };
    // SAFETY: written once, by the line before.
    let Some(create) = (unsafe { raw::RedisModule_CreateCommand }) else { return 1 };
    for (name, flags) in COMMANDS {
        // SAFETY: the server's context, C strings, and a handler that lives as long as the module.
        status |= unsafe { create(context, name.as_ptr(), Some(reply_zero), flags.as_ptr(), 1, 1, 1) };
    }
    status
}

/// Replies 0 and looks at nothing.
///
/// # Safety
/// Called by the server only, with the context of a command.
unsafe extern "C" fn reply_zero(
    context: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: written once, when the module was loaded.
    let Some(reply) = (unsafe { raw::RedisModule_ReplyWithLongLong }) else { return 1 };
    // SAFETY: the context of the running command.
    unsafe { reply(context, 0) }
}
