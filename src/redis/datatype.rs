//! The data types: what the server does with a filter beside commands.
//!
//! A value of the type is always a [`Stored`] in a box of its own that the server holds as a bare pointer: made by
//! [`Key::publish`](super::key::Key::publish), [`load`] or [`copy`], ended by [`free`].

use std::ffi::{CStr, c_int, c_longlong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use redis_module::raw::{self, RedisModuleIO, RedisModuleString, RedisModuleType};

use super::allocator::block_bytes;
use super::api::Context;
use super::config::settings;
use super::defrag;
use super::load_limit::LoadLimit;
use super::log::{self, Topic};
use super::memory;
use super::pagemap::ProcessMemory;
use super::rdb_io::SnapshotIo;
use super::stored::Stored;
use crate::bloom::{Filter, Format};
use crate::format::rewrite::Rewritten;
use crate::format::{self, DecodeError, everbloom, redisbloom, valkeybloom};

/// What tells one data type from another; the callbacks that are not here are the same for all.
struct DataType {
    format: Format,
    /// Exactly nine characters.
    name: &'static CStr,
    encoding_version: c_int,
    load: unsafe extern "C" fn(*mut RedisModuleIO, c_int) -> *mut c_void,
    /// The type as the server made it; null until then.
    handle: AtomicPtr<RedisModuleType>,
}

/// Every data type. A key keeps the one it was loaded with, so that a server can go back to the other module.
static TYPES: [DataType; 3] = [
    DataType {
        format: Format::Everbloom,
        name: c"everbloom",
        encoding_version: everbloom::ENCODING_VERSION,
        load: load_everbloom,
        handle: AtomicPtr::new(ptr::null_mut()),
    },
    DataType {
        format: Format::RedisBloom,
        name: c"MBbloom--",
        encoding_version: redisbloom::rdb::ENCODING_VERSION,
        load: load_redisbloom,
        handle: AtomicPtr::new(ptr::null_mut()),
    },
    DataType {
        format: Format::ValkeyBloom,
        name: c"bloomfltr",
        encoding_version: valkeybloom::ENCODING_VERSION,
        load: load_valkeybloom,
        handle: AtomicPtr::new(ptr::null_mut()),
    },
];

/// The type of filters of a format, once the module is loaded.
pub(super) fn handle(format: Format) -> Option<NonNull<RedisModuleType>> {
    let data_type = TYPES.iter().find(|data_type| data_type.format == format)?;
    NonNull::new(data_type.handle.load(Relaxed))
}

/// Whether values of a type are filters.
pub(super) fn is_ours(data_type: *mut RedisModuleType) -> bool {
    !data_type.is_null() && TYPES.iter().any(|ours| ours.handle.load(Relaxed) == data_type)
}

/// Tells the server of the types. Answers false, with a line in the log, when it refuses one.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn register(context: Context) -> bool {
    let Some(create) = api!(RedisModule_CreateDataType) else { return false };
    TYPES.iter().all(|data_type| {
        let mut methods = raw::RedisModuleTypeMethods {
            version: raw::REDISMODULE_TYPE_METHOD_VERSION.into(),
            rdb_load: Some(data_type.load),
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
        let name = data_type.name.as_ptr();
        // SAFETY: the context is OnLoad's by the caller's word; name and methods are copied, and the functions live as
        // long as the module.
        let handle = unsafe { create(context, name, data_type.encoding_version, &raw mut methods) };
        data_type.handle.store(handle, Relaxed);
        if handle.is_null() {
            let name = data_type.name.to_string_lossy();
            log::warning(context, &format!("the server refused the data type {name}"));
        }
        !handle.is_null()
    })
}

/// The filter behind a value of the type.
///
/// # Safety
/// `value` must be a value of the type that is alive and not being changed for `'a`.
unsafe fn filter_at<'a>(value: *const c_void) -> &'a Filter {
    // SAFETY: every value of the type is a boxed `Stored`; the rest is the caller's contract.
    let stored = unsafe { &*value.cast::<Stored>() };
    &stored.filter
}

/// Runs the body; a panic ends the server, because what it leaves behind (a torn snapshot, a filter half freed) is
/// worse than that.
pub(super) fn or_abort<T>(what: &str, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| log::abort(what))
}

/// # Safety
/// Called by the server only, with a value to be read from `io`.
unsafe extern "C" fn load_everbloom(io: *mut RedisModuleIO, encoding_version: c_int) -> *mut c_void {
    let read = |source: &mut SnapshotIo, limit: &LoadLimit| match encoding_version {
        everbloom::ENCODING_VERSION => everbloom::load(source, limit),
        other => Err(DecodeError::Unsupported { what: "encoding version", got: other.unsigned_abs().into() }),
    };
    // SAFETY: the server's `io`, within this callback.
    unsafe { load(io, read) }
}

/// # Safety
/// As [`load_everbloom`].
unsafe extern "C" fn load_redisbloom(io: *mut RedisModuleIO, encoding_version: c_int) -> *mut c_void {
    let read = |source: &mut SnapshotIo, limit: &LoadLimit| {
        let mut filter = redisbloom::rdb::load(source, encoding_version, limit).map(Filter::RedisBloom)?;
        if settings().assume_redisbloom_1_1 {
            filter.assume_redisbloom_1_1();
        }
        Ok(filter)
    };
    // SAFETY: the server's `io`, within this callback.
    unsafe { load(io, read) }
}

/// # Safety
/// As [`load_everbloom`].
unsafe extern "C" fn load_valkeybloom(io: *mut RedisModuleIO, encoding_version: c_int) -> *mut c_void {
    let read = |source: &mut SnapshotIo, limit: &LoadLimit| {
        valkeybloom::load(source, encoding_version, limit).map(|chain| Filter::ValkeyBloom(Box::new(chain)))
    };
    // SAFETY: the server's `io`, within this callback.
    unsafe { load(io, read) }
}

/// Reads a value; null, with a line in the log, when it cannot be read.
///
/// # Safety
/// `io` must be the server's, within the running callback.
unsafe fn load(
    io: *mut RedisModuleIO,
    read: impl FnOnce(&mut SnapshotIo, &LoadLimit) -> Result<Filter, DecodeError>,
) -> *mut c_void {
    // SAFETY: the server's `io`, used within this callback.
    let mut source = unsafe { SnapshotIo::new(io) };
    // SAFETY: the server's `io`, used within this callback.
    let limit = unsafe { LoadLimit::new(io) };
    let read = || read(&mut source, &limit).map_err(|error| error.to_string());
    let outcome = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("internal error".to_owned()));
    match outcome {
        Ok(filter) => hand_over(filter),
        Err(error) => {
            // SAFETY: the server's `io`, within this callback.
            unsafe { log::unloadable(io, &error) };
            ptr::null_mut()
        }
    }
}

/// A filter that came with its bits as a value of the type, for the server to own.
fn hand_over(filter: Filter) -> *mut c_void {
    Box::into_raw(Stored::boxed(filter)).cast()
}

/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn save(io: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: a value of the type, which nobody else reads or changes during the callback.
    let Stored { filter, .. } = unsafe { &mut *value.cast::<Stored>() };
    // SAFETY: the server's `io`, used within this callback.
    let mut sink = unsafe { SnapshotIo::new(io) };
    or_abort("saving a filter", || match filter {
        Filter::Everbloom(chain) => everbloom::save(chain, &mut sink, ProcessMemory),
        Filter::Client(chain) => everbloom::save_imported(chain, &mut sink, ProcessMemory),
        Filter::RedisBloom(chain) => redisbloom::rdb::save(chain, &mut sink),
        Filter::ValkeyBloom(chain) => valkeybloom::save(chain, &mut sink),
    });
}

/// # Safety
/// Called by the server only, with a value of the type and its key.
unsafe extern "C" fn rewrite(aof: *mut RedisModuleIO, key: *mut RedisModuleString, value: *mut c_void) {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let filter = unsafe { filter_at(value) };
    let outcome = or_abort("rewriting a filter", || {
        format::rewrite::rewrite(filter, ProcessMemory, &mut |command| match command {
            // SAFETY: the server's `aof` and key, within this callback.
            Rewritten::Piece { iterator, data } => unsafe { emit_piece(aof, key, iterator, data) },
            // SAFETY: as above.
            Rewritten::Blob(blob) => unsafe { emit_blob(aof, key, blob) },
        })
    });
    if outcome.is_err() {
        // This runs in a child of the server, with which the rewrite ends and nothing else.
        log::warning(ptr::null_mut(), "a filter cannot be rewritten: out of memory; this rewrite ends");
        std::process::exit(1);
    }
}

/// # Safety
/// `aof` and `key` must be those of the running callback.
unsafe fn emit_blob(aof: *mut RedisModuleIO, key: *mut RedisModuleString, blob: &[u8]) {
    let Some(emit) = api!(RedisModule_EmitAOF) else { return };
    let (command, format) = (c"BF.LOAD", c"sb");
    // SAFETY: the format stands for a string of the server and bytes with their `size_t` length, and that is what
    // follows. The server writes them out before it returns and keeps a failure in `aof`.
    unsafe { emit(aof, command.as_ptr(), format.as_ptr(), key, blob.as_ptr(), blob.len()) };
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
        drop(unsafe { Box::from_raw(value.cast::<Stored>()) });
    });
}

/// What MEMORY USAGE shows: the blocks of the allocator, structs and bit arrays alike.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn memory_usage(value: *const c_void) -> usize {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let filter = unsafe { filter_at(value) };
    or_abort("measuring a filter", || {
        let structs = block_bytes(value.cast::<Stored>(), size_of::<Stored>()).saturating_add(match filter {
            Filter::Everbloom(chain) => slice_bytes(chain.layers()),
            Filter::RedisBloom(chain) => slice_bytes(chain.layers()),
            Filter::ValkeyBloom(chain) => block_bytes(&raw const **chain, size_of_val(&**chain))
                .saturating_add(slice_bytes(chain.layers())),
            Filter::Client(chain) => block_bytes(&raw const **chain, size_of_val(&**chain))
                .saturating_add(slice_bytes(chain.layers())),
        });
        filter.storages().fold(structs, |sum, bits| sum.saturating_add(slice_bytes(bits.allocation())))
    })
}

/// Bytes of the block that holds a slice.
fn slice_bytes<T>(slice: &[T]) -> usize {
    block_bytes(slice.as_ptr(), size_of_val(slice))
}

/// Bytes that count as much work to free as an element of a list does. The server frees in the background from 65 units
/// on: filters of 128 MiB and more.
///
/// It should do so late: what is freed in the background is not yet free when eviction looks, which then evicts more. And
/// 128 MiB with every page written to take 0.01 to 0.5 ms on the main thread, and 4 to 6 ms where the system has no
/// large pages and the allocator gives back at once (Redis 7.0 and 8.0, Valkey 8.0 and 9.1, with their allocators). The
/// number of blocks hardly matters: 4096, the most there are, take 0.07 ms.
const FREE_UNIT_BYTES: usize = 2 << 20;

/// The same while the server is at `maxmemory` or above and perhaps evicts. Memory counts now, so only filters of 512 MiB
/// and more are freed in the background: 1 ms, or 20 to 26 ms without large pages.
const URGENT_FREE_UNIT_BYTES: usize = 8 << 20;

/// The work of freeing a filter: giving its pages back.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn free_effort(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let filter = unsafe { filter_at(value) };
    or_abort("weighing a filter", || {
        let unit_bytes = if memory::is_short() { URGENT_FREE_UNIT_BYTES } else { FREE_UNIT_BYTES };
        let bits_bytes = filter.storages().map(|bits| size_of_val(bits.words())).sum::<usize>();
        1 + bits_bytes / unit_bytes
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
    let filter = unsafe { filter_at(value) };
    match catch_unwind(AssertUnwindSafe(|| filter.try_clone(ProcessMemory))) {
        Ok(Ok(copy)) => hand_over(copy),
        Ok(Err(_)) | Err(_) => {
            log::throttled(Topic::Copying, ptr::null_mut(), "out of memory");
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
    let filter = unsafe { filter_at(value) };
    or_abort("digesting a filter", || {
        let header = format::filter::header(filter);
        // SAFETY: the server's digest; the bytes are read before it returns.
        unsafe { add(digest, header.as_ptr().cast(), header.len()) };
        if filter.is_redisbloom_1_1() {
            // The same bytes with other answers: a replica that is configured otherwise shall show.
            let mark = b"1.1";
            // SAFETY: as above.
            unsafe { add(digest, mark.as_ptr().cast(), mark.len()) };
        }
        for bits in filter.storages() {
            let bytes = bits.bytes();
            // SAFETY: as above.
            unsafe { add(digest, bytes.as_ptr().cast(), bytes.len()) };
        }
        // SAFETY: the server's digest.
        unsafe { end(digest) };
    });
}
