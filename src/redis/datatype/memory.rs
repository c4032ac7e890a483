//! The memory of a value: how much there is, giving it back, and having it twice.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use redis_module::raw::RedisModuleString;

use super::value::{filter_at, hand_over, or_abort};
use crate::redis::log::{self, Topic};
use crate::redis::memory::is_short;
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

/// Bytes that count as much work to free as an element of a list does. The server frees in the background
/// from 65 units on: filters of 128 MiB and more.
///
/// It should do so late: what is freed in the background is not yet free when eviction looks, which then
/// evicts more. And 128 MiB with every page written to take 0.01 to 0.5 ms on the main thread, and 4 to 6 ms
/// where the system has no large pages and the allocator gives back at once (Redis 7.0 and 8.0, Valkey 8.0
/// and 9.1, with their allocators). The number of blocks hardly matters: 4096, the most there are, take 0.07
/// ms.
const FREE_UNIT_BYTES: usize = 2 << 20;

/// The same while the server is at `maxmemory` or above and perhaps evicts. Memory counts now, so only
/// filters of 512 MiB and more are freed in the background: 1 ms, or 20 to 26 ms without large pages.
const URGENT_FREE_UNIT_BYTES: usize = 8 << 20;

/// The work of freeing a filter: giving its pages back.
///
/// # Safety
/// Called by the server only, with a value of the type.
pub(super) unsafe extern "C" fn free_effort(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: a value of the type, which nothing changes during the callback.
    let filter = unsafe { filter_at(value) };
    or_abort("weighing a filter", || {
        let unit_bytes = if is_short() { URGENT_FREE_UNIT_BYTES } else { FREE_UNIT_BYTES };
        let bits_bytes = filter.storages().map(|bits| size_of_val(bits.words())).sum::<usize>();
        1 + bits_bytes / unit_bytes
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
