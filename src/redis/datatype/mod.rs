//! The data types: their registration, and the callbacks of the server other than commands.
//!
//! A value of a type is always a boxed [`StoredFilter`], which the server holds as a bare pointer.
//! [`Key`](super::key::Key), [`snapshot::load`] and [`copy`] create values; [`free`] drops them. There is one type
//! for each format. Only the callback that loads a value differs between types. A key keeps the type with which it was
//! loaded, so that RedisBloom or valkey-bloom can load a value of its format again.

mod defrag;
pub(super) mod other;
mod snapshot;

use std::ffi::{c_int, c_void};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use redis_module::raw::{self, RedisModuleDigest, RedisModuleIO, RedisModuleString, RedisModuleType};

use super::api::Context;
use super::log;
use super::memory::is_short;
use super::pagemap::ProcessMemory;
use super::stored_filter::{AllocatedBytes, StoredFilter, effort};
use crate::bloom::{Filter, Format};
use crate::format::{self, DataType};

/// A data type of the module. All callbacks except `load` are the same for all types.
struct Registered {
    format: Format,
    load: unsafe extern "C" fn(*mut RedisModuleIO, c_int) -> *mut c_void,
    /// The type of the server; null before registration.
    handle: AtomicPtr<RedisModuleType>,
}

impl Registered {
    /// Returns the type of the format at a position among all formats.
    const fn new<const PLACE: usize>() -> Self {
        Self {
            format: snapshot::nth_format::<PLACE>(),
            load: snapshot::load::<PLACE>,
            handle: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// Every data type.
static TYPES: [Registered; Format::ALL.len()] =
    [Registered::new::<0>(), Registered::new::<1>(), Registered::new::<2>()];

/// Returns the type of filters of a format, once the module is loaded.
pub(super) fn handle(format: Format) -> Option<NonNull<RedisModuleType>> {
    let data_type = TYPES.iter().find(|data_type| data_type.format == format)?;
    NonNull::new(data_type.handle.load(Relaxed))
}

/// Returns whether values of a type are filters.
pub(super) fn is_ours(data_type: *mut RedisModuleType) -> bool {
    !data_type.is_null() && TYPES.iter().any(|ours| ours.handle.load(Relaxed) == data_type)
}

/// Registers the types. Returns false, with a line in the log, if the server refuses one.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn register(context: Context) -> bool {
    // SAFETY: this is a C struct of numbers and optional functions, for all of which 0 is a valid value.
    let no_methods: raw::RedisModuleTypeMethods = unsafe { mem::zeroed() };
    let no_methods =
        raw::RedisModuleTypeMethods { version: raw::REDISMODULE_TYPE_METHOD_VERSION.into(), ..no_methods };
    let registered = TYPES.iter().all(|data_type| {
        let mut methods = raw::RedisModuleTypeMethods {
            rdb_load: Some(data_type.load),
            rdb_save: Some(snapshot::save),
            aof_rewrite: Some(snapshot::rewrite),
            mem_usage: Some(memory_usage),
            digest: Some(digest),
            free: Some(free),
            free_effort: Some(free_effort),
            copy: Some(copy),
            defrag: Some(defrag::defrag),
            ..no_methods
        };
        let DataType { name, encoding_version } = DataType::of(data_type.format);
        // SAFETY: the context is OnLoad's by the caller's contract.
        let handle = unsafe { create_type(context, name, encoding_version, &mut methods) };
        data_type.handle.store(handle, Relaxed);
        if handle.is_null() {
            log::warning(context, &format!("the server refused the data type {name}"));
        }
        !handle.is_null()
    });
    // SAFETY: the context is OnLoad's by the caller's contract.
    registered && unsafe { other::register(context, no_methods) }
}

/// Registers a type. Returns null if the server refuses it.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`, and the methods functions for values of the type.
unsafe fn create_type(
    context: Context,
    name: &str,
    encoding_version: c_int,
    methods: &mut raw::RedisModuleTypeMethods,
) -> *mut RedisModuleType {
    let Some(create) = api!(RedisModule_CreateDataType) else { return ptr::null_mut() };
    let name = log::c_text(name);
    // SAFETY: the context is OnLoad's by the caller's contract. The server copies name and methods, and the functions
    // live as long as the module.
    unsafe { create(context, name.as_ptr(), encoding_version, ptr::from_mut(methods)) }
}

/// Frees a value.
///
/// # Safety
/// Called by the server only, perhaps on a background thread, with a value of the type that it does not use again.
unsafe extern "C" fn free(value: *mut c_void) {
    or_abort("freeing a filter", || {
        // SAFETY: every value of the type comes from `Box::into_raw`, and the server does not use this one again.
        drop(unsafe { Box::from_raw(value.cast::<StoredFilter>()) });
    });
}

/// Returns what MEMORY USAGE shows: the bytes that the allocator set aside, for structs, bits and table.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn memory_usage(value: *const c_void) -> usize {
    // SAFETY: every value of the type is a boxed `StoredFilter`, and nothing changes this one during the callback.
    let stored = unsafe { &*value.cast::<StoredFilter>() };
    or_abort("measuring a filter", || stored.allocated_bytes())
}

/// The most layers and segments that active defragmentation may move in one call, at one or two microseconds each. It
/// is the server's own limit for elements of a list.
const BLOCKS_AT_ONCE_MAX: usize = 1_000;

/// No server defragments a value of this effort or more in one call. The number is one more than the default of
/// `active-defrag-max-scan-fields`.
const LABORIOUS_UNITS: usize = 1_001;

/// Returns the effort of freeing or defragmenting a filter. Freeing depends on the bytes, defragmentation on the number
/// of layers and segments. While the server may evict, only the bytes count: see [`effort`].
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn free_effort(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let filter = unsafe { filter_at(value) };
    or_abort("computing the effort of a filter", || {
        let units = effort(filter);
        let is_laborious = filter.block_count() > BLOCKS_AT_ONCE_MAX && !is_short();
        if is_laborious { units.max(LABORIOUS_UNITS) } else { units }
    })
}

/// Returns a copy of a value; null if there is no memory for it.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn copy(
    _from: *mut RedisModuleString,
    _to: *mut RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let filter = unsafe { filter_at(value) };
    match catch_unwind(AssertUnwindSafe(|| filter.try_clone(ProcessMemory))) {
        Ok(Ok(copy)) => StoredFilter::into_value(copy),
        Ok(Err(_)) | Err(_) => {
            log::throttled(&log::COPYING, ptr::null_mut(), "out of memory");
            ptr::null_mut()
        }
    }
}

/// Adds a value to a digest, for DEBUG DIGEST.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn digest(digest: *mut RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let filter = unsafe { filter_at(value) };
    // SAFETY: the digest is the server's, within this callback.
    unsafe { add_to_digest(digest, |add| format::filter::digest(filter, ProcessMemory, add)) };
}

/// Adds the strings of bytes of a value to a digest. `strings` passes each to its argument.
///
/// # Safety
/// `digest` must be the server's, within the running callback.
unsafe fn add_to_digest(digest: *mut RedisModuleDigest, strings: impl FnOnce(&mut dyn FnMut(&[u8]))) {
    let (Some(add), Some(end)) =
        (api!(RedisModule_DigestAddStringBuffer), api!(RedisModule_DigestEndSequence))
    else {
        return;
    };
    or_abort("digesting a value", || {
        strings(&mut |bytes| {
            // SAFETY: the digest is the server's. The server reads the bytes before it returns.
            unsafe { add(digest, bytes.as_ptr().cast(), bytes.len()) };
        });
        // SAFETY: the digest is the server's, within this callback.
        unsafe { end(digest) };
    });
}

/// Returns the filter of a value of the type.
///
/// # Safety
/// `value` must be a value of the type that is alive and not being changed for `'a`.
unsafe fn filter_at<'a>(value: *const c_void) -> &'a Filter {
    // SAFETY: every value of the type is a boxed `StoredFilter`, which is alive and does not change by the caller's contract.
    let stored = unsafe { &*value.cast::<StoredFilter>() };
    &stored.filter
}

/// Runs the body. A panic aborts the server, because it leaves a damaged snapshot or a half-freed filter.
fn or_abort<T>(what: &str, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| log::abort(what))
}
