//! The data type `everbloom`: what the server does with a filter beside commands.
//!
//! A value of the type is always a `Chain` in a box of its own that the server holds as a bare pointer: made by
//! [`Key::publish`](super::key::Key::publish), [`load`] or [`copy`], ended by [`free`].

use std::ffi::{CStr, c_int, c_longlong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use redis_module::raw::{self, RedisModuleIO, RedisModuleString, RedisModuleType};

use super::allocator::block_bytes;
use super::api::Context;
use super::defrag;
use super::rdb_io::SnapshotIo;
use super::stats::{self, Footprint};
use super::{log, memory};
use crate::bloom::Chain;
use crate::format::dump::{self, CHECK_BYTES, HEADER_ITERATOR};
use crate::format::everbloom::{self, ENCODING_VERSION};
use crate::format::header;

/// Name of the type: exactly nine characters.
const NAME: &CStr = c"everbloom";

/// The type as the server made it; null until then.
static HANDLE: AtomicPtr<RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// The type, once the module is loaded.
pub(super) fn handle() -> Option<NonNull<RedisModuleType>> {
    NonNull::new(HANDLE.load(Relaxed))
}

/// Tells the server of the type.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn register(context: Context) -> bool {
    let Some(create) = api!(RedisModule_CreateDataType) else { return false };
    let mut methods = raw::RedisModuleTypeMethods {
        version: raw::REDISMODULE_TYPE_METHOD_VERSION.into(),
        rdb_load: Some(load),
        rdb_save: Some(save),
        aof_rewrite: Some(rewrite),
        mem_usage: Some(memory_usage),
        digest: Some(digest),
        free: Some(free),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: Some(free_effort),
        unlink: None,
        copy: Some(copy),
        defrag: Some(defrag::defrag),
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    };
    // SAFETY: the context is OnLoad's by the caller's word; name and methods are copied, and the functions live as
    // long as the module.
    let handle = unsafe { create(context, NAME.as_ptr(), ENCODING_VERSION, &raw mut methods) };
    HANDLE.store(handle, Relaxed);
    !handle.is_null()
}

/// The filter behind a value of the type.
///
/// # Safety
/// `value` must be a value of the type that is alive and not being changed for `'a`.
unsafe fn chain_at<'a>(value: *const c_void) -> &'a Chain {
    // SAFETY: every value of the type is a boxed `Chain`; the rest is the caller's word.
    unsafe { &*value.cast::<Chain>() }
}

/// Runs the body; a panic ends the server, because what it leaves behind (a torn snapshot, a filter half freed) is
/// worse than that.
pub(super) fn or_abort<T>(what: &str, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| log::abort(what))
}

/// # Safety
/// Called by the server only, with a value to be read from `io`.
unsafe extern "C" fn load(io: *mut RedisModuleIO, encoding_version: c_int) -> *mut c_void {
    let load = || {
        if encoding_version != ENCODING_VERSION {
            return Err(format!("encoding version {encoding_version} is of a newer release"));
        }
        // SAFETY: the server's `io`, used within this callback.
        let mut source = unsafe { SnapshotIo::new(io) };
        everbloom::load(&mut source, &memory::load_limit_bytes()).map_err(|error| error.to_string())
    };
    let outcome = catch_unwind(AssertUnwindSafe(load)).unwrap_or_else(|_| Err("internal error".to_owned()));
    match outcome {
        Ok(chain) => hand_over(chain),
        Err(error) => {
            // SAFETY: the server's `io`, within this callback.
            unsafe { log::io_warning(io, &format!("a filter cannot be loaded: {error}")) };
            ptr::null_mut()
        }
    }
}

/// The filter as a value of the type, for the server to own.
fn hand_over(chain: Chain) -> *mut c_void {
    stats::filter_made(Footprint::of(&chain));
    Box::into_raw(Box::new(chain)).cast()
}

/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn save(io: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let chain = unsafe { chain_at(value) };
    // SAFETY: the server's `io`, used within this callback.
    let mut sink = unsafe { SnapshotIo::new(io) };
    or_abort("saving a filter", || everbloom::save(chain, &mut sink));
}

/// # Safety
/// Called by the server only, with a value of the type and its key.
unsafe extern "C" fn rewrite(aof: *mut RedisModuleIO, key: *mut RedisModuleString, value: *mut c_void) {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let chain = unsafe { chain_at(value) };
    or_abort("rewriting a filter", || {
        let mut iterator = 0;
        while let Some(piece) = dump::piece(chain, iterator) {
            iterator = piece.next_iterator;
            let bits = piece.data.len().checked_sub(CHECK_BYTES).and_then(|end| piece.data.get(..end));
            // The header makes a filter with all bits clear.
            let is_clear = bits.is_some_and(|bits| bits.iter().all(|byte| *byte == 0));
            if iterator == HEADER_ITERATOR || !is_clear {
                // SAFETY: the server's `aof` and key, within this callback.
                unsafe { emit_piece(aof, key, iterator, &piece.data) };
            }
        }
    });
}

/// # Safety
/// `aof` and `key` must be those of the running callback.
unsafe fn emit_piece(aof: *mut RedisModuleIO, key: *mut RedisModuleString, iterator: u64, data: &[u8]) {
    let Some(emit) = api!(RedisModule_EmitAOF) else { return };
    let iterator: c_longlong = iterator.cast_signed();
    let (command, format) = (c"BF.LOADCHUNK", c"slb");
    // SAFETY: the format stands for a string of the server, a `long long`, and bytes with their `size_t` length, and
    // that is what follows. The server writes them out before it returns and keeps a failure in `aof`.
    unsafe { emit(aof, command.as_ptr(), format.as_ptr(), key, iterator, data.as_ptr(), data.len()) };
}

/// # Safety
/// Called by the server only, with a value of the type that it does not use again; perhaps on a background thread.
unsafe extern "C" fn free(value: *mut c_void) {
    or_abort("freeing a filter", || {
        // SAFETY: every value of the type comes from `Box::into_raw`, and the server gives this one up.
        let chain = unsafe { Box::from_raw(value.cast::<Chain>()) };
        stats::filter_freed(Footprint::of(&chain));
    });
}

/// What MEMORY USAGE shows: the blocks of the allocator, structs and bit arrays alike.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn memory_usage(value: *const c_void) -> usize {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let chain = unsafe { chain_at(value) };
    or_abort("measuring a filter", || {
        let layers = chain.layers();
        let structs = block_bytes(ptr::from_ref(chain), size_of::<Chain>())
            .saturating_add(block_bytes(layers.as_ptr(), size_of_val(layers)));
        layers.iter().fold(structs, |sum, layer| {
            let words = layer.bits().words();
            sum.saturating_add(block_bytes(words.as_ptr(), size_of_val(words)))
        })
    })
}

/// Bytes that count as much work to free as an element of a list does.
///
/// Up to 4 MiB a bit array is freed in under 10 us, its pages being kept for the next one; 16 MiB take 0.7 ms and
/// 128 MiB 11 ms (jemalloc 5.3, every page written to). The server frees in the background from 65 units on, and should
/// not do so for less: what is freed in the background is not yet free when eviction looks, which then evicts more.
const FREE_UNIT_BYTES: usize = 64 << 10;

/// The work of freeing a filter: its blocks, and the bytes in them.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn free_effort(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let chain = unsafe { chain_at(value) };
    or_abort("weighing a filter", || {
        chain.layers().iter().fold(0, |sum: usize, layer| {
            sum.saturating_add(1 + size_of_val(layer.bits().words()) / FREE_UNIT_BYTES)
        })
    })
}

/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn copy(
    _from: *mut RedisModuleString,
    _to: *mut RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let chain = unsafe { chain_at(value) };
    match catch_unwind(AssertUnwindSafe(|| chain.try_clone())) {
        Ok(Ok(copy)) => hand_over(copy),
        Ok(Err(_)) | Err(_) => {
            log::warning(ptr::null_mut(), "a filter cannot be copied: out of memory");
            ptr::null_mut()
        }
    }
}

/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    let (Some(add), Some(end)) =
        (api!(RedisModule_DigestAddStringBuffer), api!(RedisModule_DigestEndSequence))
    else {
        return;
    };
    // SAFETY: a value of the type, which nothing changes during the callback.
    let chain = unsafe { chain_at(value) };
    or_abort("digesting a filter", || {
        let header = header::encode(chain);
        // SAFETY: the server's digest; the bytes are read before it returns.
        unsafe { add(digest, header.as_ptr().cast(), header.len()) };
        for layer in chain.layers() {
            let bytes = layer.bits().bytes();
            // SAFETY: as above.
            unsafe { add(digest, bytes.as_ptr().cast(), bytes.len()) };
        }
        // SAFETY: the server's digest.
        unsafe { end(digest) };
    });
}
