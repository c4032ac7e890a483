//! Values in a snapshot (RDB, DUMP, a full resynchronisation).

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use redis_module::raw::RedisModuleIO;

use super::value::{hand_over, or_abort};
use crate::bloom::Format;
use crate::format;
use crate::redis::config::settings;
use crate::redis::load_limit::LoadLimit;
use crate::redis::log;
use crate::redis::pagemap::ProcessMemory;
use crate::redis::rdb_io::SnapshotIo;
use crate::redis::stats;
use crate::redis::stored::Stored;

/// The format with that place among all formats.
#[expect(clippy::indexing_slicing, reason = "a place that no format has does not compile")]
pub(super) const fn nth_format<const PLACE: usize>() -> Format {
    const { Format::ALL[PLACE] }
}

/// Reads a value of the format with that place among all formats: the server does not say which type it asks
/// for, so each type has a callback of its own.
///
/// # Safety
/// Called by the server only, with a value to be read from `io`.
pub(super) unsafe extern "C" fn load<const PLACE: usize>(
    io: *mut RedisModuleIO,
    encoding_version: c_int,
) -> *mut c_void {
    // SAFETY: the server's `io`, within this callback.
    unsafe { load_as(nth_format::<PLACE>(), encoding_version, io) }
}

/// Reads a value; null, with a line in the log, when it cannot be read.
///
/// # Safety
/// `io` must be the server's, within the running callback.
unsafe fn load_as(format: Format, encoding_version: c_int, io: *mut RedisModuleIO) -> *mut c_void {
    // SAFETY: the server's `io`, used within this callback.
    let mut source = unsafe { SnapshotIo::new(io) };
    // SAFETY: the server's `io`, used within this callback.
    let limit = unsafe { LoadLimit::new(io) };
    let read = || {
        let mut filter = format::filter::load(format, encoding_version, &mut source, &limit)
            .map_err(|error| error.to_string())?;
        if settings().assume_redisbloom_1_1 {
            filter.assume_redisbloom_1_1();
        }
        Ok(filter)
    };
    let outcome = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("internal error".to_owned()));
    match outcome {
        Ok(filter) => hand_over(filter),
        Err(error) => {
            stats::count_load_error();
            // SAFETY: the server's `io`, within this callback.
            unsafe { log::unloadable(io, &error) };
            ptr::null_mut()
        }
    }
}

/// # Safety
/// Called by the server only, with a value of the type.
pub(super) unsafe extern "C" fn save(io: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: a value of the type, which nobody else reads or changes during the callback.
    let Stored { filter, .. } = unsafe { &mut *value.cast::<Stored>() };
    // SAFETY: the server's `io`, used within this callback.
    let mut sink = unsafe { SnapshotIo::new(io) };
    or_abort("saving a filter", || format::filter::save(filter, &mut sink, ProcessMemory));
}
