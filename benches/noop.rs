//! A module with empty commands, which measure the cost of a command without a filter.
//!
//! `NO.ADD`, `NO.MADD`, `NO.EXISTS` and `NO.MEXISTS` have names of the same length, the same arguments and the same
//! flags as the everbloom commands to which they are compared, so that the server does the same work for both. Those
//! with an M reply once per item. `HA.ADD` and so on also read and hash every item, as each filter of everbloom must.

// Includes the file instead of linking the library, which is a module too: a module can have only one entry point.
#[path = "../src/bloom/hash/murmur3.rs"]
#[expect(dead_code, unreachable_pub, reason = "of the library only the hash of an item is needed here")]
mod hash;

/// The two words of a hash, as src/bloom/hash/mod.rs has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemHash {
    /// The first word.
    pub h1: u64,
    /// The second word.
    pub h2: u64,
}

use std::ffi::{CStr, c_int};
use std::slice;

use redis_module::raw;

/// Name of the module.
const NAME: &CStr = c"noop";
/// Names, flags and handlers of the commands.
const COMMANDS: [(&CStr, &CStr, raw::RedisModuleCmdFunc); 8] = [
    (c"NO.ADD", c"write deny-oom", Some(reply_zero)),
    (c"NO.MADD", c"write deny-oom", Some(reply_zeros)),
    (c"NO.EXISTS", c"readonly fast", Some(reply_zero)),
    (c"NO.MEXISTS", c"readonly fast", Some(reply_zeros)),
    (c"HA.ADD", c"write deny-oom", Some(hash_each)),
    (c"HA.MADD", c"write deny-oom", Some(hash_many)),
    (c"HA.EXISTS", c"readonly fast", Some(hash_each)),
    (c"HA.MEXISTS", c"readonly fast", Some(hash_many)),
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
    // SAFETY: the server's context; the name is a static C string.
    let mut status = unsafe { raw::Export_RedisModule_Init(context, NAME.as_ptr(), 1, version) };
    // SAFETY: written once, by the line above.
    let Some(create) = (unsafe { raw::RedisModule_CreateCommand }) else { return 1 };
    for (name, flags, handler) in COMMANDS {
        // SAFETY: the server's context, C strings, and a handler that lives as long as the module.
        status |= unsafe { create(context, name.as_ptr(), handler, flags.as_ptr(), 1, 1, 1) };
    }
    status
}

/// Replies 0 and reads no argument.
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

/// Replies 0 for every argument after the key, and reads none.
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

/// Starts the reply, an array with one element per item. Then hashes the items and replies.
///
/// # Safety
/// As [`hash_each`].
unsafe extern "C" fn hash_many(
    context: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: written once, when the module was loaded.
    let Some(reply_array) = (unsafe { raw::RedisModule_ReplyWithArray }) else { return 1 };
    // SAFETY: the context of the running command.
    unsafe { reply_array(context, argc.saturating_sub(2).into()) };
    // SAFETY: the context and the arguments of the running command.
    unsafe { hash_each(context, argv, argc) }
}

/// Hashes every item and replies once for each.
///
/// # Safety
/// Called by the server only, with the context and the arguments of a command: its name, a key and items.
unsafe extern "C" fn hash_each(
    context: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: written once, when the module was loaded.
    let Some(reply) = (unsafe { raw::RedisModule_ReplyWithBool }) else { return 1 };
    // SAFETY: written once, when the module was loaded.
    let Some(string_bytes) = (unsafe { raw::RedisModule_StringPtrLen }) else { return 1 };
    let arguments = usize::try_from(argc).unwrap_or(0);
    // SAFETY: the server passes `argc` strings, which live as long as the command.
    let arguments = unsafe { slice::from_raw_parts(argv, arguments) };
    for item in arguments.iter().skip(2) {
        let mut length = 0;
        // SAFETY: a string of the running command; the server writes its length.
        let start = unsafe { string_bytes(*item, &raw mut length) };
        // SAFETY: the bytes of that string, which stays as it is while the command runs.
        let bytes = unsafe { slice::from_raw_parts(start.cast::<u8>(), length) };
        let is_zero = hash::hash128(bytes).h1 == 0;
        // SAFETY: the context of the running command.
        unsafe { reply(context, is_zero.into()) };
    }
    0
}
