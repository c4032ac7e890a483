//! The memory of a value: how much there is, giving it back, and having it twice.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use redis_module::raw::RedisModuleString;

use super::value::{filter_at, hand_over, or_abort};
use crate::redis::freeing::effort;
use crate::redis::log::{self, Topic};
use crate::redis::pagemap::ProcessMemory;
use crate::redis::stored::Stored;

/// # Safety
/// Called by the server only, with a value of the type that it does not use again; perhaps on a background
/// thread.
pub(super) unsafe extern "C" fn free(value: *mut c_void) {
    or_abort("freeing a filter", || {
        // SAFETY: every value of the type comes from `Box::into_raw`, and the server gives this one up.
        drop(unsafe { Box::from_raw(value.cast::<Stored>()) });
    });
}

/// What MEMORY USAGE shows: the blocks of the allocator, structs and bit arrays alike.
///
/// # Safety
/// Called by the server only, with a value of the type.
pub(super) unsafe extern "C" fn memory_usage(value: *const c_void) -> usize {
    // SAFETY: every value of the type is a boxed `Stored`, and nothing changes this one during the callback.
    let stored = unsafe { &*value.cast::<Stored>() };
    or_abort("measuring a filter", || stored.allocated_bytes())
}

/// Layers of the largest filter that active defragmentation may move in one call, at a microsecond or two each: as many as
/// the server moves elements of a list at once.
const LAYERS_AT_ONCE_MAX: usize = 1_000;

/// Units of work from which on no server defragments a value in one call: above its default of
/// `active-defrag-max-scan-fields`.
const LABORIOUS_UNITS: usize = 1_001;

/// The work of freeing a filter, giving its pages back; and of defragmenting it, which is the work of its layers.
///
/// # Safety
/// Called by the server only, with a value of the type.
pub(super) unsafe extern "C" fn free_effort(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let filter = unsafe { filter_at(value) };
    or_abort("weighing a filter", || {
        let units = effort(filter);
        if filter.layer_count() > LAYERS_AT_ONCE_MAX { units.max(LABORIOUS_UNITS) } else { units }
    })
}

/// # Safety
/// Called by the server only, with a value of the type.
pub(super) unsafe extern "C" fn copy(
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
