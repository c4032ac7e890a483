//! The data types that are only carried: their registration and their callbacks. No command works on their values.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use redis_module::raw::{
    RedisModuleDefragCtx, RedisModuleDigest, RedisModuleIO, RedisModuleString, RedisModuleTypeMethods,
};

use super::defrag::DefragStep;
use super::snapshot::SnapshotIo;
use super::{add_to_digest, create_type, or_abort};
use crate::bloom::BlockMover;
use crate::format::carried::{Carried, CarriedType};
use crate::redis::allocator::block_bytes;
use crate::redis::api::Context;
use crate::redis::server::exit_at_once;
use crate::redis::stored_filter::units_of;
use crate::redis::{config, log, stats};

/// A value of one of the types. The server holds it as the bare pointer of a box.
struct CarriedValue(Carried);

impl CarriedValue {
    /// Returns a new value in a box as a bare pointer, for the server to own, and counts it.
    fn into_pointer(carried: Carried) -> *mut c_void {
        stats::count_carried(carried.carried_type(), carried.block().len() as u64, true);
        Box::into_raw(Box::new(Self(carried))).cast()
    }
}

impl Drop for CarriedValue {
    fn drop(&mut self) {
        stats::count_carried(self.0.carried_type(), self.0.block().len() as u64, false);
    }
}

/// Registers the types, unless the operator has turned them off. A type that the server refuses, because another module
/// has registered it, is not carried.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn register(context: Context, methods: RedisModuleTypeMethods) {
    if !config::carries_other_types() {
        return;
    }
    let loads = [load::<0>, load::<1>, load::<2>];
    for (carried_type, load) in CarriedType::ALL.into_iter().zip(loads) {
        let mut methods = RedisModuleTypeMethods {
            rdb_load: Some(load),
            rdb_save: Some(save),
            aof_rewrite: Some(rewrite),
            mem_usage: Some(memory_usage),
            digest: Some(digest),
            free: Some(free),
            free_effort: Some(free_effort),
            copy: Some(copy),
            defrag: Some(defrag),
            ..methods
        };
        let (name, version) = (carried_type.name(), CarriedType::ENCODING_VERSION);
        // SAFETY: the context is OnLoad's by the caller's contract.
        if unsafe { create_type(context, name, version, &mut methods) }.is_null() {
            log::warning(
                context,
                &format!("values of the type {name} are not carried: another module has it"),
            );
        }
    }
}

/// Returns the type at a place among all types.
#[expect(clippy::indexing_slicing, reason = "a place without a type does not compile")]
const fn nth_type<const PLACE: usize>() -> CarriedType {
    const { CarriedType::ALL[PLACE] }
}

/// Reads a value of the type at a place among all types. Returns null, with a line in the log, if it cannot be read.
///
/// # Safety
/// Called by the server only, with a value to be read from `io`.
unsafe extern "C" fn load<const PLACE: usize>(
    io: *mut RedisModuleIO,
    encoding_version: c_int,
) -> *mut c_void {
    let carried_type = nth_type::<PLACE>();
    // SAFETY: `io` is the server's, and is not used after this callback.
    let mut source = unsafe { SnapshotIo::new(io) };
    let read =
        || Carried::load(carried_type, encoding_version, &mut source).map_err(|error| error.to_string());
    match catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("internal error".to_owned())) {
        Ok(carried) => CarriedValue::into_pointer(carried),
        Err(error) => {
            stats::LOAD_ERRORS.add(1);
            let line = format!("a value of the type {}: {error}", carried_type.name());
            // SAFETY: `io` is the server's, within this callback.
            unsafe { log::unloadable(io, &line) };
            ptr::null_mut()
        }
    }
}

/// Writes a value to a snapshot.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn save(io: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let carried = unsafe { carried_at(value) };
    // SAFETY: `io` is the server's, and is not used after this callback.
    let mut sink = unsafe { SnapshotIo::new(io) };
    or_abort("saving a carried value", || carried.save(&mut sink));
}

/// Writes the command that restores a value to an append-only file.
///
/// # Safety
/// Called by the server only, with a value of the type and its key.
unsafe extern "C" fn rewrite(aof: *mut RedisModuleIO, key: *mut RedisModuleString, value: *mut c_void) {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let carried = unsafe { carried_at(value) };
    let Some(emit) = api!(RedisModule_EmitAOF) else { return };
    let Ok(payload) = or_abort("rewriting a carried value", || carried.payload()) else {
        // This is a child of the server, so only the rewrite ends.
        log::warning(ptr::null_mut(), "a value cannot be rewritten: out of memory; this rewrite ends");
        exit_at_once();
    };
    let (name, format) = (c"RESTORE", c"slb");
    // SAFETY: `aof` and the key are the server's, within this callback. The format stands for what follows it: a string
    // of the server, a `long long`, and bytes with their length as a `size_t`. The server writes them before it returns.
    unsafe {
        emit(aof, name.as_ptr(), format.as_ptr(), key, 0_i64, payload.as_ptr(), payload.len());
    }
}

/// Returns what MEMORY USAGE shows: the bytes that the allocator set aside.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn memory_usage(value: *const c_void) -> usize {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let block = unsafe { carried_at(value) }.block();
    // SAFETY: the value is in a box, which this module has allocated.
    let own_bytes = unsafe { block_bytes(value.cast::<CarriedValue>(), size_of::<CarriedValue>()) };
    // SAFETY: this module has allocated the block.
    own_bytes.saturating_add(unsafe { block_bytes(block.as_ptr(), block.len()) })
}

/// Adds a value to a digest, for DEBUG DIGEST.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn digest(digest: *mut RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let carried = unsafe { carried_at(value) };
    // SAFETY: the digest is the server's, within this callback.
    unsafe { add_to_digest(digest, |add| add(carried.block())) };
}

/// Frees a value.
///
/// # Safety
/// Called by the server only, perhaps on a background thread, with a value of the type that it does not use again.
unsafe extern "C" fn free(value: *mut c_void) {
    or_abort("freeing a carried value", || {
        // SAFETY: every value of the type comes from `Box::into_raw`, and the server does not use this one again.
        drop(unsafe { Box::from_raw(value.cast::<CarriedValue>()) });
    });
}

/// Returns the effort of freeing a value.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn free_effort(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    units_of(unsafe { carried_at(value) }.block().len() as u64)
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
    let carried = unsafe { carried_at(value) };
    carried.try_clone().map_or_else(
        |_| {
            log::throttled(&log::COPYING, ptr::null_mut(), "out of memory");
            ptr::null_mut()
        },
        CarriedValue::into_pointer,
    )
}

/// Moves a value and its block to better addresses.
///
/// # Safety
/// Called by the server only, with a place that holds a value of the type.
unsafe extern "C" fn defrag(
    context: *mut RedisModuleDefragCtx,
    _key: *mut RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    or_abort("moving a carried value", || {
        // SAFETY: the context is the server's, and the place holds a value of the type. Both are used within this
        // callback.
        let step = unsafe { DefragStep::new(context, value) };
        step.move_value::<CarriedValue>();
        // SAFETY: the place holds a value of the type, moved or not.
        let moved = unsafe { *value };
        // SAFETY: a value of the type is a boxed `CarriedValue`, and nothing else uses it during the callback.
        let CarriedValue(carried) = unsafe { &mut *moved.cast::<CarriedValue>() };
        step.move_vec(carried.block_mut());
    });
    0
}

/// Returns the value at an address.
///
/// # Safety
/// `value` must be a value of the type that is alive and not being changed for `'a`.
unsafe fn carried_at<'a>(value: *const c_void) -> &'a Carried {
    // SAFETY: every value of the type is a boxed `CarriedValue`, alive and unchanged by the caller's contract.
    let CarriedValue(carried) = unsafe { &*value.cast::<CarriedValue>() };
    carried
}
