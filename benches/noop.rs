//! A module whose commands do nothing: what is left of a command when the filter is taken away.
//!
//! `NO.ADD`, `NO.MADD`, `NO.EXISTS` and `NO.MEXISTS` have names as long as those of the everbloom commands that they are
//! compared with, the same arguments and the same flags, so that the server does for them what it does for those; those
//! with an M reply once for every item.

use std::ffi::{CStr, c_int};

use redis_module::raw;

/// Name of the module.
const NAME: &CStr = c"noop";
/// Names, flags and handlers of the commands.
const COMMANDS: [(&CStr, &CStr, raw::RedisModuleCmdFunc); 4] = [
    (c"NO.ADD", c"write deny-oom", Some(reply_zero)),
    (c"NO.MADD", c"write deny-oom", Some(reply_zeros)),
    (c"NO.EXISTS", c"readonly fast", Some(reply_zero)),
    (c"NO.MEXISTS", c"readonly fast", Some(reply_zeros)),
];

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
    for (name, flags, handler) in COMMANDS {
        // SAFETY: the server's context, C strings, and a handler that lives as long as the module.
        status |= unsafe { create(context, name.as_ptr(), handler, flags.as_ptr(), 1, 1, 1) };
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

/// Replies 0 for every argument after the key, and looks at none.
///
/// # Safety
/// Called by the server only, with the context of a command.
unsafe extern "C" fn reply_zeros(
    context: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: written once, when the module was loaded.
    let Some(reply_array) = (unsafe { raw::RedisModule_ReplyWithArray }) else { return 1 };
    // SAFETY: written once, when the module was loaded.
    let Some(reply) = (unsafe { raw::RedisModule_ReplyWithBool }) else { return 1 };
    let items = argc.saturating_sub(2);
    // SAFETY: the context of the running command.
    unsafe { reply_array(context, items.into()) };
    for _ in 0..items {
        // SAFETY: the context of the running command.
        unsafe { reply(context, 0) };
    }
    0
}
