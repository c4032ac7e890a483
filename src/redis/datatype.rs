//! The data types: what the server does with a filter beside commands.
//!
//! A value of the type is always a `Filter` in a box of its own that the server holds as a bare pointer: made by
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
use super::log;
use super::rdb_io::SnapshotIo;
use super::stats::{self, Footprint};
use crate::bloom::{Filter, Format};
use crate::format::dump::{CHECK_BYTES, HEADER_ITERATOR};
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

/// Tells the server of the types.
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
        !handle.is_null()
    })
}

/// The filter behind a value of the type.
///
/// # Safety
/// `value` must be a value of the type that is alive and not being changed for `'a`.
unsafe fn filter_at<'a>(value: *const c_void) -> &'a Filter {
    // SAFETY: every value of the type is a boxed `Filter`; the rest is the caller's word.
    unsafe { &*value.cast::<Filter>() }
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
            unsafe { log::io_warning(io, &format!("a filter cannot be loaded: {error}")) };
            ptr::null_mut()
        }
    }
}

/// The filter as a value of the type, for the server to own.
fn hand_over(filter: Filter) -> *mut c_void {
    stats::filter_made(Footprint::of(&filter));
    Box::into_raw(Box::new(filter)).cast()
}

/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn save(io: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let filter = unsafe { filter_at(value) };
    // SAFETY: the server's `io`, used within this callback.
    let mut sink = unsafe { SnapshotIo::new(io) };
    or_abort("saving a filter", || match filter {
        Filter::Everbloom(chain) => everbloom::save(chain, &mut sink),
        Filter::Imported(chain) => everbloom::save_imported(chain, &mut sink),
        Filter::RedisBloom(chain) => redisbloom::rdb::save(chain, &mut sink),
        Filter::ValkeyBloom(chain) => {
            if valkeybloom::save(chain, &mut sink).is_err() {
                log::abort("saving a filter: out of memory");
            }
        }
    });
}

/// # Safety
/// Called by the server only, with a value of the type and its key.
unsafe extern "C" fn rewrite(aof: *mut RedisModuleIO, key: *mut RedisModuleString, value: *mut c_void) {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let filter = unsafe { filter_at(value) };
    or_abort("rewriting a filter", || {
        if let Filter::ValkeyBloom(chain) = filter {
            // What valkey-bloom itself would write, so that it can read the file.
            let Ok(blob) = valkeybloom::encode_blob(chain) else {
                log::abort("rewriting a filter: out of memory")
            };
            // SAFETY: the server's `aof` and key, within this callback.
            unsafe { emit_blob(aof, key, &blob) };
            return;
        }
        let mut iterator = 0;
        while let Some(piece) = format::filter::piece(filter, iterator) {
            iterator = piece.next_iterator;
            // The header makes a filter with all bits clear.
            if iterator == HEADER_ITERATOR || !is_clear(filter, &piece.data) {
                // SAFETY: the server's `aof` and key, within this callback.
                unsafe { emit_piece(aof, key, iterator, &piece.data) };
            }
        }
    });
}

/// Whether a chunk of a filter has no set bit; our own chunks end with a check.
fn is_clear(filter: &Filter, chunk: &[u8]) -> bool {
    let check_bytes = if filter.format() == Format::Everbloom { CHECK_BYTES } else { 0 };
    let bits = chunk.len().checked_sub(check_bytes).and_then(|end| chunk.get(..end));
    bits.is_some_and(|bits| bits.iter().all(|byte| *byte == 0))
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
        let filter = unsafe { Box::from_raw(value.cast::<Filter>()) };
        stats::filter_freed(Footprint::of(&filter));
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
        let structs = block_bytes(ptr::from_ref(filter), size_of::<Filter>()).saturating_add(match filter {
            Filter::Everbloom(chain) => slice_bytes(chain.layers()),
            Filter::RedisBloom(chain) => slice_bytes(chain.layers()),
            Filter::ValkeyBloom(chain) => block_bytes(&raw const **chain, size_of_val(&**chain))
                .saturating_add(slice_bytes(chain.layers())),
            Filter::Imported(chain) => block_bytes(&raw const **chain, size_of_val(&**chain))
                .saturating_add(slice_bytes(chain.layers())),
        });
        filter.bit_arrays().fold(structs, |sum, bits| sum.saturating_add(slice_bytes(bits.words())))
    })
}

/// Bytes of the block that holds a slice.
fn slice_bytes<T>(slice: &[T]) -> usize {
    block_bytes(slice.as_ptr(), size_of_val(slice))
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
    let filter = unsafe { filter_at(value) };
    or_abort("weighing a filter", || {
        filter
            .bit_arrays()
            .fold(0, |sum: usize, bits| sum.saturating_add(1 + size_of_val(bits.words()) / FREE_UNIT_BYTES))
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
    match catch_unwind(AssertUnwindSafe(|| filter.try_clone())) {
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
        for bits in filter.bit_arrays() {
            let bytes = bits.bytes();
            // SAFETY: as above.
            unsafe { add(digest, bytes.as_ptr().cast(), bytes.len()) };
        }
        // SAFETY: the server's digest.
        unsafe { end(digest) };
    });
}
