//! The data types: their registration, and the callbacks of the server other than commands.
//!
//! A value of a type is a boxed [`Stored`], which the server holds as a bare pointer. [`Key`](super::key::Key),
//! [`snapshot::load`] and [`copy`] create values; [`free`] drops them. All callbacks are written once, over the trait
//! [`StoredValue`]. There is one type for each format of filters, one for cuckoo filters, and one for each carried type. A key
//! keeps the type with which it was loaded, so that RedisBloom or valkey-bloom can load a value of its format again.

mod defrag;
mod snapshot;
pub(super) mod value;

use std::ffi::{c_int, c_void};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use redis_module::raw::{
    self, RedisModuleDigest, RedisModuleString, RedisModuleType, RedisModuleTypeMethods,
};

use super::api::{Context, succeeded};
use super::memory::is_short;
use super::stored::{Stored, effort};
use super::{config, log};
use everbloom_filter::Format;
use value::{CarriedAt, CuckooType, FilterType, ServerType, StoredValue};

/// A data type of the module.
struct Registered {
    name: &'static str,
    encoding_version: c_int,
    methods: RedisModuleTypeMethods,
    /// The type of the server; null before registration.
    handle: AtomicPtr<RedisModuleType>,
}

impl Registered {
    const fn of<T: ServerType>() -> Self {
        let methods = RedisModuleTypeMethods {
            version: raw::REDISMODULE_TYPE_METHOD_VERSION as u64,
            rdb_load: Some(snapshot::load::<T>),
            rdb_save: Some(snapshot::save::<T::Value>),
            aof_rewrite: Some(snapshot::rewrite::<T::Value>),
            mem_usage: Some(memory_usage::<T::Value>),
            digest: Some(digest::<T::Value>),
            free: Some(free::<T::Value>),
            free_effort: Some(free_effort::<T::Value>),
            copy: Some(copy::<T::Value>),
            defrag: Some(defrag::defrag::<T::Value>),
            // SAFETY: this is a C struct of numbers and optional functions, for all of which 0 is a valid value.
            ..unsafe { mem::zeroed() }
        };
        let (name, encoding_version) = (T::NAME, T::ENCODING_VERSION);
        Self { name, encoding_version, methods, handle: AtomicPtr::new(ptr::null_mut()) }
    }
}

/// The types of filters, in the order of [`Format::ALL`].
static FILTERS: [Registered; Format::ALL.len()] =
    [Registered::of::<FilterType<0>>(), Registered::of::<FilterType<1>>(), Registered::of::<FilterType<2>>()];
/// The type of cuckoo filters.
static CUCKOO: [Registered; 1] = [Registered::of::<CuckooType>()];
/// The carried types.
static CARRIED: [Registered; 3] =
    [Registered::of::<CarriedAt<0>>(), Registered::of::<CarriedAt<1>>(), Registered::of::<CarriedAt<2>>()];

/// The types that commands work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueFamily {
    /// A filter: a [`StoredFilter`](super::stored::StoredFilter).
    Filter,
    /// A cuckoo filter: a [`Stored`] one.
    Cuckoo,
}

/// Returns which values a type has; `None` for a type of another module, or a carried type.
#[inline(always)]
pub(super) fn family_of(data_type: *mut RedisModuleType) -> Option<ValueFamily> {
    let is_one_of =
        |types: &[Registered]| types.iter().any(|registered| registered.handle.load(Relaxed) == data_type);
    match data_type.is_null() {
        true => None,
        false if is_one_of(&FILTERS) => Some(ValueFamily::Filter),
        false if is_one_of(&CUCKOO) => Some(ValueFamily::Cuckoo),
        false => None,
    }
}

/// Returns the type of filters of a format, once the module is loaded.
pub(super) fn filter_type(format: Format) -> Option<NonNull<RedisModuleType>> {
    let place = Format::ALL.iter().position(|one| *one == format)?;
    NonNull::new(FILTERS.get(place)?.handle.load(Relaxed))
}

/// Returns the type of cuckoo filters, once the module is loaded.
pub(super) fn cuckoo_type() -> Option<NonNull<RedisModuleType>> {
    let [cuckoo] = &CUCKOO;
    NonNull::new(cuckoo.handle.load(Relaxed))
}

/// Registers the types. Returns false, with a line in the log, if the server refuses one. A carried type that the server
/// refuses, because another module has it, is not carried.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn register(context: Context) -> bool {
    let is_registered = |data_type: &Registered, refusal: &str| {
        // SAFETY: the context is OnLoad's by the caller's contract.
        let handle = unsafe { create_type(context, data_type) };
        data_type.handle.store(handle, Relaxed);
        if handle.is_null() {
            log::warning(context, &refusal.replace("{}", data_type.name));
        }
        !handle.is_null()
    };
    let mut own = FILTERS.iter().chain(&CUCKOO);
    if !own.all(|data_type| is_registered(data_type, "the server refused the data type {}")) {
        return false;
    }
    let carried = CARRIED.iter().filter(|_| config::carries_other_types());
    carried.for_each(|data_type| {
        is_registered(data_type, "values of the type {} are not carried: another module has it");
    });
    true
}

/// Registers a type. Returns null if the server refuses it.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
unsafe fn create_type(context: Context, data_type: &Registered) -> *mut RedisModuleType {
    let Some(create) = api!(RedisModule_CreateDataType) else { return ptr::null_mut() };
    let (name, mut methods) = (log::c_text(data_type.name), data_type.methods);
    // SAFETY: the context is OnLoad's by the caller's contract. The server copies name and methods, and the functions
    // live as long as the module.
    unsafe { create(context, name.as_ptr(), data_type.encoding_version, &raw mut methods) }
}

/// Puts a value under an open key. Returns false if the server refuses it.
///
/// # Safety
/// `key` must be open for writing, and the type one of `value`'s.
pub(super) unsafe fn set_value<V: StoredValue>(
    key: NonNull<raw::RedisModuleKey>,
    data_type: Option<NonNull<RedisModuleType>>,
    value: V,
) -> bool {
    let (Some(set_value), Some(data_type)) = (api!(RedisModule_ModuleTypeSetValue), data_type) else {
        return false;
    };
    let value = Stored::into_pointer(value);
    // SAFETY: the key is open, and the value is a box of the type that its callbacks expect. If the server takes the
    // value, it owns it until it calls `free`.
    let is_set = succeeded(unsafe { set_value(key.as_ptr(), data_type.as_ptr(), value) });
    if !is_set {
        // SAFETY: the pointer is the box of a `Stored`, which the server did not take.
        drop(unsafe { Box::from_raw(value.cast::<Stored<V>>()) });
    }
    is_set
}

/// Frees a value.
///
/// # Safety
/// Called by the server only, perhaps on a background thread, with a value of the type that it does not use again.
unsafe extern "C" fn free<V: StoredValue>(value: *mut c_void) {
    or_abort("freeing a value", || {
        // SAFETY: every value of the type comes from `Box::into_raw`, and the server does not use this one again.
        drop(unsafe { Box::from_raw(value.cast::<Stored<V>>()) });
    });
}

/// Returns what MEMORY USAGE shows: the bytes that the allocator set aside, for structs, bits and table.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn memory_usage<V: StoredValue>(value: *const c_void) -> usize {
    // SAFETY: every value of the type is a boxed `Stored`, and nothing changes this one during the callback.
    let stored = unsafe { &*value.cast::<Stored<V>>() };
    or_abort("measuring a value", || stored.allocated_bytes())
}

/// The most blocks that active defragmentation may move in one call, at one or two microseconds each. It is the server's
/// own limit for elements of a list.
const BLOCKS_AT_ONCE_MAX: usize = 1_000;

/// No server defragments a value of this effort or more in one call. The number is one more than the default of
/// `active-defrag-max-scan-fields`.
const LABORIOUS_UNITS: usize = 1_001;

/// Returns the effort of freeing or defragmenting a value. Freeing depends on the bytes, defragmentation on the number
/// of blocks. While the server may evict, only the bytes count: see [`effort`].
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn free_effort<V: StoredValue>(
    _key: *mut RedisModuleString,
    value: *const c_void,
) -> usize {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let value = unsafe { value_at::<V>(value) };
    or_abort("computing the effort of a value", || {
        let is_laborious = value.block_count() > BLOCKS_AT_ONCE_MAX && !is_short();
        if is_laborious { effort(value).max(LABORIOUS_UNITS) } else { effort(value) }
    })
}

/// Returns a copy of a value; null if there is no memory for it.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn copy<V: StoredValue>(
    _from: *mut RedisModuleString,
    _to: *mut RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let value = unsafe { value_at::<V>(value) };
    match catch_unwind(AssertUnwindSafe(|| value.try_clone())) {
        Ok(Ok(copy)) => Stored::into_pointer(copy),
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
unsafe extern "C" fn digest<V: StoredValue>(digest: *mut RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let value = unsafe { value_at::<V>(value) };
    let (Some(add), Some(end)) =
        (api!(RedisModule_DigestAddStringBuffer), api!(RedisModule_DigestEndSequence))
    else {
        return;
    };
    or_abort("digesting a value", || {
        value.digest(&mut |bytes| {
            // SAFETY: the digest is the server's. The server reads the bytes before it returns.
            unsafe { add(digest, bytes.as_ptr().cast(), bytes.len()) };
        });
        // SAFETY: the digest is the server's, within this callback.
        unsafe { end(digest) };
    });
}

/// Returns the value at an address, without its state, which may be changed meanwhile.
///
/// # Safety
/// `value` must be a value of the type that is alive and not being changed for `'a`.
unsafe fn value_at<'a, V: StoredValue + 'a>(value: *const c_void) -> &'a V {
    // SAFETY: every value of the type is a boxed `Stored`, alive and unchanged by the caller's contract.
    unsafe { &(*value.cast::<Stored<V>>()).value }
}

/// Runs the body. A panic aborts the server, because it leaves a damaged snapshot or a half-freed value.
fn or_abort<T>(what: &str, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| log::abort(what))
}
