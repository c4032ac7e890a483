//! The data types of RedisBloom besides its Bloom filters: cuckoo filters, and the types that are only carried. Their
//! registration and their callbacks.
//!
//! A value of such a type is a boxed [`Stored`], which the server holds as a bare pointer.

use std::ffi::{c_int, c_longlong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use redis_module::raw::{
    RedisModuleDefragCtx, RedisModuleDigest, RedisModuleIO, RedisModuleString, RedisModuleType,
    RedisModuleTypeMethods,
};

use super::defrag::DefragStep;
use super::snapshot::SnapshotIo;
use super::{AllocatedBytes, BLOCKS_AT_ONCE_MAX, add_to_digest, create_type, or_abort};
use crate::bloom::cuckoo::array::CuckooRelease;
use crate::bloom::cuckoo::filter::CuckooFilter;
use crate::bloom::{BlockMover, BlockVisitor, OutOfMemory};
use crate::format::carried::{Carried, CarriedType};
use crate::format::redisbloom::cuckoo as format;
use crate::format::{DecodeError, Sink};
use crate::redis::allocator::block_bytes;
use crate::redis::api::Context;
use crate::redis::memory::LoadLimit;
use crate::redis::server::exit_at_once;
use crate::redis::stats::{OTHER_NAMES, count_other};
use crate::redis::stored_filter::units_of;
use crate::redis::{config, log, stats};

/// What the server does with the values of a type.
trait OtherValue: Sized {
    /// Returns the number of the type among [`OTHER_NAMES`], for the statistics.
    fn number(&self) -> usize;
    /// Writes the fields of the value.
    fn save(&self, sink: &mut impl Sink);
    /// Calls `emit` with the commands that recreate the value, each with its name, its iterator and its bytes.
    fn rewrite(&self, emit: &mut dyn FnMut(&std::ffi::CStr, u64, &[u8])) -> Result<(), OutOfMemory>;
    /// Calls `add` with strings of bytes that differ if values differ.
    fn digest(&self, add: &mut dyn FnMut(&[u8]));
    /// Returns the bytes of the value's content.
    fn content_bytes(&self) -> u64;
    fn try_clone(&self) -> Result<Self, OutOfMemory>;
    fn visit_blocks(&self, visitor: &mut impl BlockVisitor);
    fn move_blocks(&mut self, mover: &impl BlockMover);
}

impl OtherValue for Carried {
    fn number(&self) -> usize {
        1 + self.carried_type() as usize
    }

    fn save(&self, sink: &mut impl Sink) {
        Self::save(self, sink);
    }

    fn rewrite(&self, emit: &mut dyn FnMut(&std::ffi::CStr, u64, &[u8])) -> Result<(), OutOfMemory> {
        emit(c"RESTORE", 0, &self.payload()?);
        Ok(())
    }

    fn digest(&self, add: &mut dyn FnMut(&[u8])) {
        add(self.block());
    }

    fn content_bytes(&self) -> u64 {
        self.block().len() as u64
    }

    fn try_clone(&self) -> Result<Self, OutOfMemory> {
        Self::try_clone(self)
    }

    fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        visitor.visit(self.block());
    }

    fn move_blocks(&mut self, mover: &impl BlockMover) {
        mover.move_vec(self.block_mut());
    }
}

impl OtherValue for CuckooFilter {
    fn number(&self) -> usize {
        0
    }

    fn save(&self, sink: &mut impl Sink) {
        format::save(self, sink);
    }

    fn rewrite(&self, emit: &mut dyn FnMut(&std::ffi::CStr, u64, &[u8])) -> Result<(), OutOfMemory> {
        format::rewrite(self, emit)
    }

    fn digest(&self, add: &mut dyn FnMut(&[u8])) {
        format::digest(self, add);
    }

    fn content_bytes(&self) -> u64 {
        self.slots_bytes()
    }

    fn try_clone(&self) -> Result<Self, OutOfMemory> {
        Self::try_clone(self)
    }

    fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        Self::visit_blocks(self, visitor);
    }

    fn move_blocks(&mut self, mover: &impl BlockMover) {
        Self::move_blocks(self, BLOCKS_AT_ONCE_MAX, mover);
    }
}

/// A value of one of the types, with its part of the statistics.
struct Stored<V: OtherValue> {
    value: V,
    /// The bytes with which the value was counted.
    counted_bytes: u64,
}

impl<V: OtherValue> Stored<V> {
    /// Returns a new value in a box as a bare pointer, for the server to own, and counts it.
    fn into_pointer(value: V) -> *mut c_void {
        let counted_bytes = value.content_bytes();
        count_other(value.number(), 1, counted_bytes);
        Box::into_raw(Box::new(Self { value, counted_bytes })).cast()
    }

    /// Updates the statistics after a change of the value.
    fn recount(&mut self) {
        let bytes = self.value.content_bytes();
        count_other(self.value.number(), 0, bytes.wrapping_sub(self.counted_bytes));
        self.counted_bytes = bytes;
    }
}

impl<V: OtherValue> Drop for Stored<V> {
    fn drop(&mut self) {
        count_other(self.value.number(), 1u64.wrapping_neg(), self.counted_bytes.wrapping_neg());
    }
}

/// The type of cuckoo filters in the server; null before registration.
static CUCKOO: AtomicPtr<RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// Returns the type of cuckoo filters, once the module is loaded.
pub(in crate::redis) fn cuckoo_type() -> Option<NonNull<RedisModuleType>> {
    NonNull::new(CUCKOO.load(Relaxed))
}

/// Returns a cuckoo filter as a value for the server to own.
pub(in crate::redis) fn cuckoo_value(filter: CuckooFilter) -> *mut c_void {
    Stored::into_pointer(filter)
}

/// Returns the cuckoo filter of a value.
///
/// # Safety
/// `value` must be a value of [`cuckoo_type`] that is alive and not used elsewhere for `'a`.
pub(in crate::redis) unsafe fn cuckoo_at<'a>(value: *mut c_void) -> &'a mut CuckooFilter {
    // SAFETY: a value of the type is a boxed `Stored`, alive and used only here by the caller's contract.
    let stored = unsafe { &mut *value.cast::<Stored<CuckooFilter>>() };
    &mut stored.value
}

/// Updates the statistics after a change of a cuckoo filter.
///
/// # Safety
/// As [`cuckoo_at`].
pub(in crate::redis) unsafe fn recount_cuckoo(value: *mut c_void) {
    // SAFETY: a value of the type is a boxed `Stored`, alive and used only here by the caller's contract.
    let stored = unsafe { &mut *value.cast::<Stored<CuckooFilter>>() };
    stored.recount();
}

/// Frees a cuckoo filter that the server did not take.
///
/// # Safety
/// `value` must be from [`cuckoo_value`], and is not used again.
pub(in crate::redis) unsafe fn free_cuckoo(value: *mut c_void) {
    // SAFETY: the value is a box of `Stored`, which nothing uses again by the caller's contract.
    drop(unsafe { Box::from_raw(value.cast::<Stored<CuckooFilter>>()) });
}

/// Registers the types. Returns false, with a line in the log, if the server refuses that of cuckoo filters. A carried
/// type that the server refuses, because another module has it, is not carried.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn register(context: Context, methods: RedisModuleTypeMethods) -> bool {
    let mut of_cuckoo =
        RedisModuleTypeMethods { rdb_load: Some(load_cuckoo), ..callbacks::<CuckooFilter>(methods) };
    // SAFETY: the context is OnLoad's by the caller's contract.
    let handle = unsafe { create_type(context, format::TYPE_NAME, format::ENCODING_VERSION, &mut of_cuckoo) };
    CUCKOO.store(handle, Relaxed);
    if handle.is_null() {
        log::warning(context, &format!("the server refused the data type {}", format::TYPE_NAME));
        return false;
    }
    if !config::carries_other_types() {
        return true;
    }
    let loads = [load_carried::<0>, load_carried::<1>, load_carried::<2>];
    for (carried_type, load) in CarriedType::ALL.into_iter().zip(loads) {
        let mut methods = RedisModuleTypeMethods { rdb_load: Some(load), ..callbacks::<Carried>(methods) };
        let (name, version) = (carried_type.name(), CarriedType::ENCODING_VERSION);
        // SAFETY: the context is OnLoad's by the caller's contract.
        if unsafe { create_type(context, name, version, &mut methods) }.is_null() {
            log::warning(
                context,
                &format!("values of the type {name} are not carried: another module has it"),
            );
        }
    }
    true
}

/// Returns the callbacks of a type, but not the one that loads a value.
fn callbacks<V: OtherValue>(methods: RedisModuleTypeMethods) -> RedisModuleTypeMethods {
    RedisModuleTypeMethods {
        rdb_save: Some(save::<V>),
        aof_rewrite: Some(rewrite::<V>),
        mem_usage: Some(memory_usage::<V>),
        digest: Some(digest::<V>),
        free: Some(free::<V>),
        free_effort: Some(free_effort::<V>),
        copy: Some(copy::<V>),
        defrag: Some(defrag::<V>),
        ..methods
    }
}

/// Returns the type at a place among all types.
#[expect(clippy::indexing_slicing, reason = "a place without a type does not compile")]
const fn nth_type<const PLACE: usize>() -> CarriedType {
    const { CarriedType::ALL[PLACE] }
}

/// Reads a value of the carried type at a place among all. Returns null, with a line in the log, if it cannot be read.
///
/// # Safety
/// Called by the server only, with a value to be read from `io`.
unsafe extern "C" fn load_carried<const PLACE: usize>(
    io: *mut RedisModuleIO,
    encoding_version: c_int,
) -> *mut c_void {
    let carried_type = nth_type::<PLACE>();
    // SAFETY: `io` is the server's, and is not used after this callback.
    unsafe { load(io, carried_type.name(), |source| Carried::load(carried_type, encoding_version, source)) }
}

/// Reads a cuckoo filter. Returns null, with a line in the log, if it cannot be read.
///
/// # Safety
/// Called by the server only, with a value to be read from `io`.
unsafe extern "C" fn load_cuckoo(io: *mut RedisModuleIO, encoding_version: c_int) -> *mut c_void {
    // SAFETY: `io` is the server's, and is not used after this callback.
    let limit = unsafe { LoadLimit::new(io) };
    let read = |source: &mut SnapshotIo| {
        let filter = format::load(encoding_version, source, &limit)?;
        if filter.release() == CuckooRelease::Old {
            let text = "its items are found, but it takes no more: add them again to a new filter";
            log::throttled(&log::OLD_CUCKOO, ptr::null_mut(), text);
        }
        Ok(filter)
    };
    // SAFETY: `io` is the server's, and is not used after this callback.
    unsafe { load(io, format::TYPE_NAME, read) }
}

/// Reads a value of the type `name`. Returns null, with a line in the log, if it cannot be read.
///
/// # Safety
/// `io` must be the server's, within the running callback.
unsafe fn load<V: OtherValue>(
    io: *mut RedisModuleIO,
    name: &str,
    read: impl FnOnce(&mut SnapshotIo) -> Result<V, DecodeError>,
) -> *mut c_void {
    // SAFETY: `io` is the server's, and is not used after this callback.
    let mut source = unsafe { SnapshotIo::new(io) };
    let read = || read(&mut source).map_err(|error| error.to_string());
    match catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("internal error".to_owned())) {
        Ok(value) => Stored::into_pointer(value),
        Err(error) => {
            stats::LOAD_ERRORS.add(1);
            // SAFETY: `io` is the server's, within this callback.
            unsafe { log::unloadable(io, &format!("a value of the type {name}: {error}")) };
            ptr::null_mut()
        }
    }
}

/// Writes a value to a snapshot.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn save<V: OtherValue>(io: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let value = unsafe { value_at::<V>(value) };
    // SAFETY: `io` is the server's, and is not used after this callback.
    let mut sink = unsafe { SnapshotIo::new(io) };
    or_abort("saving a value", || value.save(&mut sink));
}

/// Writes the commands that restore a value to an append-only file.
///
/// # Safety
/// Called by the server only, with a value of the type and its key.
unsafe extern "C" fn rewrite<V: OtherValue>(
    aof: *mut RedisModuleIO,
    key: *mut RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let value = unsafe { value_at::<V>(value) };
    let Some(emit) = api!(RedisModule_EmitAOF) else { return };
    let outcome = or_abort("rewriting a value", || {
        value.rewrite(&mut |name, iterator, data| {
            let iterator: c_longlong = iterator.cast_signed();
            // SAFETY: `aof` and the key are the server's, within this callback. The format stands for what follows it: a
            // string of the server, a `long long`, and bytes with their length as a `size_t`. The server writes them
            // before it returns, and keeps a failure in `aof`.
            unsafe { emit(aof, name.as_ptr(), c"slb".as_ptr(), key, iterator, data.as_ptr(), data.len()) };
        })
    });
    if outcome.is_err() {
        // This is a child of the server, so only the rewrite ends.
        log::warning(ptr::null_mut(), "a value cannot be rewritten: out of memory; this rewrite ends");
        exit_at_once();
    }
}

/// Returns what MEMORY USAGE shows: the bytes that the allocator set aside.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn memory_usage<V: OtherValue>(value: *const c_void) -> usize {
    // SAFETY: the value is in a box, which this module has allocated.
    let own_bytes = unsafe { block_bytes(value.cast::<Stored<V>>(), size_of::<Stored<V>>()) };
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let value = unsafe { value_at::<V>(value) };
    or_abort("measuring a value", || {
        let mut sum = AllocatedBytes::from_bytes(own_bytes);
        value.visit_blocks(&mut sum);
        sum.bytes()
    })
}

/// Adds a value to a digest, for DEBUG DIGEST.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn digest<V: OtherValue>(digest: *mut RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let value = unsafe { value_at::<V>(value) };
    // SAFETY: the digest is the server's, within this callback.
    unsafe { add_to_digest(digest, |add| value.digest(add)) };
}

/// Frees a value.
///
/// # Safety
/// Called by the server only, perhaps on a background thread, with a value of the type that it does not use again.
unsafe extern "C" fn free<V: OtherValue>(value: *mut c_void) {
    or_abort("freeing a value", || {
        // SAFETY: every value of the type comes from `Box::into_raw`, and the server does not use this one again.
        drop(unsafe { Box::from_raw(value.cast::<Stored<V>>()) });
    });
}

/// Returns the effort of freeing a value.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn free_effort<V: OtherValue>(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    units_of(unsafe { value_at::<V>(value) }.content_bytes())
}

/// Returns a copy of a value; null if there is no memory for it.
///
/// # Safety
/// Called by the server only, with a value of the type.
unsafe extern "C" fn copy<V: OtherValue>(
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

/// Moves a value and its blocks to better addresses, at most [`BLOCKS_AT_ONCE_MAX`] of them.
///
/// # Safety
/// Called by the server only, with a place that holds a value of the type.
unsafe extern "C" fn defrag<V: OtherValue>(
    context: *mut RedisModuleDefragCtx,
    _key: *mut RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    or_abort("moving a value", || {
        // SAFETY: the context is the server's, and the place holds a value of the type. Both are used within this
        // callback.
        let step = unsafe { DefragStep::new(context, value) };
        step.move_value::<Stored<V>>();
        // SAFETY: the place holds a value of the type, moved or not.
        let moved = unsafe { *value };
        // SAFETY: a value of the type is a boxed `Stored`, and nothing else uses it during the callback.
        let stored = unsafe { &mut *moved.cast::<Stored<V>>() };
        stored.value.move_blocks(&step);
    });
    0
}

/// Returns the value at an address.
///
/// # Safety
/// `value` must be a value of the type that is alive and not being changed for `'a`.
unsafe fn value_at<'a, V: OtherValue + 'a>(value: *const c_void) -> &'a V {
    // SAFETY: every value of the type is a boxed `Stored`, alive and unchanged by the caller's contract.
    let stored = unsafe { &*value.cast::<Stored<V>>() };
    &stored.value
}

const _: () = assert!(OTHER_NAMES.len() == 1 + CarriedType::ALL.len());
