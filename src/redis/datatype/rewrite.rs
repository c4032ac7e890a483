//! Values in an append-only file that is rewritten without a snapshot in front.

use std::ffi::{c_longlong, c_void};
use std::ptr;

use redis_module::raw::{RedisModuleIO, RedisModuleString};

use super::value::{filter_at, or_abort};
use crate::format;
use crate::format::chunks::Rewritten;
use crate::redis::log;
use crate::redis::loss::exit_at_once;
use crate::redis::pagemap::ProcessMemory;
use crate::redis::random::random_number;

/// # Safety
/// Called by the server only, with a value of the type and its key.
pub(super) unsafe extern "C" fn rewrite(
    aof: *mut RedisModuleIO,
    key: *mut RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let filter = unsafe { filter_at(value) };
    let outcome = or_abort("rewriting a filter", || {
        format::filter::rewrite(filter, ProcessMemory, random_number(), &mut |command| match command {
            // SAFETY: the server's `aof` and key, within this callback.
            Rewritten::Chunk { iterator, data } => unsafe { emit_piece(aof, key, iterator, data) },
            // SAFETY: as above.
            Rewritten::Blob(blob) => unsafe { emit_blob(aof, key, blob) },
        })
    });
    if outcome.is_err() {
        // This runs in a child of the server, with which the rewrite ends and nothing else.
        log::warning(ptr::null_mut(), "a filter cannot be rewritten: out of memory; this rewrite ends");
        exit_at_once();
    }
}

/// # Safety
/// `aof` and `key` must be those of the running callback.
unsafe fn emit_blob(aof: *mut RedisModuleIO, key: *mut RedisModuleString, blob: &[u8]) {
    let Some(emit) = api!(RedisModule_EmitAOF) else { return };
    let (command, format) = (c"BF.LOAD", c"sb");
    // SAFETY: the format stands for a string of the server and bytes with their `size_t` length, and that is
    // what follows. The server writes them out before it returns and keeps a failure in `aof`.
    unsafe { emit(aof, command.as_ptr(), format.as_ptr(), key, blob.as_ptr(), blob.len()) };
}

/// # Safety
/// `aof` and `key` must be those of the running callback.
unsafe fn emit_piece(aof: *mut RedisModuleIO, key: *mut RedisModuleString, iterator: u64, data: &[u8]) {
    let Some(emit) = api!(RedisModule_EmitAOF) else { return };
    let iterator: c_longlong = iterator.cast_signed();
    let (command, format) = (c"BF.LOADCHUNK", c"slb");
    // SAFETY: the format stands for a string of the server, a `long long`, and bytes with their `size_t`
    // length, and that is what follows. The server writes them out before it returns and keeps a failure in
    // `aof`.
    unsafe { emit(aof, command.as_ptr(), format.as_ptr(), key, iterator, data.as_ptr(), data.len()) };
}
