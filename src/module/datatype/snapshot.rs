//! Values in a snapshot (RDB, DUMP, a full resynchronisation), and in an append-only file that is rewritten without a
//! snapshot preamble.

use std::ffi::{c_int, c_longlong, c_void};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::{PoisonError, RwLock};

use redis_module::raw::{RedisModuleIO, RedisModuleString};

use super::value::{ServerType, StoredValue};
use super::{or_abort, value_at};
use crate::headroom::has_room_for;
use crate::memory::LoadLimit;
use crate::server::exit_at_once;
use crate::stored::Stored;
use crate::{log, stats};
use everbloom_format::chunks::Rewritten;
use everbloom_format::{DecodeError, Sink, Source};

/// Reads a value. Returns null, with a line in the log, if it cannot be read.
///
/// # Safety
/// Called by the server only, with a value to be read from `io`.
pub(super) unsafe extern "C" fn load<T: ServerType>(
    io: *mut RedisModuleIO,
    encoding_version: c_int,
) -> *mut c_void {
    // SAFETY: `io` is the server's, and is not used after this callback.
    let mut source = unsafe { SnapshotIo::new(io) };
    // SAFETY: `io` is the server's, and is not used after this callback.
    let limit = unsafe { LoadLimit::new(io) };
    let read = || T::load(encoding_version, &mut source, &limit);
    match catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("internal error".to_owned())) {
        Ok(value) => Stored::into_pointer(value),
        Err(error) => {
            stats::LOAD_ERRORS.add(1);
            // SAFETY: `io` is the server's, within this callback.
            unsafe { log::unloadable(io, &error) };
            ptr::null_mut()
        }
    }
}

/// Locked for reading while a value is saved, perhaps on another thread, and for writing while one is moved. Only the server's
/// main thread moves values, and it also makes the children, so that a child never finds the lock locked for writing.
pub(super) static SAVING: RwLock<()> = RwLock::new(());

/// Writes a value to a snapshot. The server may call this on another thread, while commands read the value.
///
/// # Safety
/// Called by the server only, with a value of the type.
pub(super) unsafe extern "C" fn save<V: StoredValue>(io: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let value = unsafe { value_at::<V>(value) };
    // SAFETY: `io` is the server's, and is not used after this callback.
    let mut sink = unsafe { SnapshotIo::new(io) };
    let _saving = SAVING.read().unwrap_or_else(PoisonError::into_inner);
    or_abort("saving a value", || value.save(&mut sink));
}

/// Writes the commands that restore a value to an append-only file.
///
/// # Safety
/// Called by the server only, with a value of the type and its key.
pub(super) unsafe extern "C" fn rewrite<V: StoredValue>(
    aof: *mut RedisModuleIO,
    key: *mut RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: the value is one of the type, which nothing changes during the callback.
    let value = unsafe { value_at::<V>(value) };
    let Some(emit) = api!(RedisModule_EmitAOF) else { return };
    let outcome = or_abort("rewriting a value", || {
        value.rewrite(&mut |command| {
            let (name, number, data) = match command {
                Rewritten::Chunk { iterator, data } => (c"BF.LOADCHUNK", iterator, data),
                Rewritten::CuckooChunk { iterator, data } => (c"CF.LOADCHUNK", iterator, data),
                Rewritten::Payload(data) => (c"RESTORE", 0, data),
                Rewritten::Blob(data) => {
                    let (name, format) = (c"BF.LOAD".as_ptr(), c"sb".as_ptr());
                    // SAFETY: `aof` and the key are the server's, within this callback. The format stands for a string
                    // of the server, and bytes with their length. The server writes them before it returns.
                    unsafe { emit(aof, name, format, key, data.as_ptr(), data.len()) };
                    return;
                }
            };
            let (name, format) = (name.as_ptr(), c"slb".as_ptr());
            let number: c_longlong = number.cast_signed();
            // SAFETY: `aof` and the key are the server's, within this callback. The format stands for what follows it:
            // a string of the server, a `long long`, and bytes with their length as a `size_t`. The server writes them
            // before it returns, and keeps a failure in `aof`.
            unsafe { emit(aof, name, format, key, number, data.as_ptr(), data.len()) };
        })
    });
    if outcome.is_err() {
        // This is a child of the server, so only the rewrite ends.
        log::warning(ptr::null_mut(), "a filter cannot be rewritten: out of memory; this rewrite ends");
        exit_at_once();
    }
}

/// Reads or writes the fields of one value in a snapshot.
pub(super) struct SnapshotIo(*mut RedisModuleIO);

impl SnapshotIo {
    /// # Safety
    /// `io` must be the server's, and the value must not outlive the callback that `io` was given to.
    pub(super) unsafe fn new(io: *mut RedisModuleIO) -> Self {
        Self(io)
    }
}

impl Sink for SnapshotIo {
    fn unsigned(&mut self, value: u64) {
        let Some(save) = api!(RedisModule_SaveUnsigned) else { return };
        // SAFETY: `self.0` is alive by the contract of `new`.
        unsafe { save(self.0, value) };
    }

    fn double(&mut self, value: f64) {
        let Some(save) = api!(RedisModule_SaveDouble) else { return };
        // SAFETY: `self.0` is alive by the contract of `new`.
        unsafe { save(self.0, value) };
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let Some(save) = api!(RedisModule_SaveStringBuffer) else { return };
        // SAFETY: `self.0` is alive by the contract of `new`. The server reads the bytes before it returns. A
        // failure to write is kept in `io`, and the server ends the snapshot with it.
        unsafe { save(self.0, bytes.as_ptr().cast(), bytes.len()) };
    }
}

impl Source for SnapshotIo {
    type Bytes = ServerBuffer;

    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        let load = api!(RedisModule_LoadUnsigned).ok_or(DecodeError::Truncated)?;
        // SAFETY: `self.0` is alive by the contract of `new`.
        let value = unsafe { load(self.0) };
        self.unless_failed(value)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        let load = api!(RedisModule_LoadDouble).ok_or(DecodeError::Truncated)?;
        // SAFETY: `self.0` is alive by the contract of `new`.
        let value = unsafe { load(self.0) };
        self.unless_failed(value)
    }

    fn float(&mut self) -> Result<f32, DecodeError> {
        let load = api!(RedisModule_LoadFloat).ok_or(DecodeError::Truncated)?;
        // SAFETY: `self.0` is alive by the contract of `new`.
        let value = unsafe { load(self.0) };
        self.unless_failed(value)
    }

    fn bytes(&mut self) -> Result<ServerBuffer, DecodeError> {
        let load = api!(RedisModule_LoadStringBuffer).ok_or(DecodeError::Truncated)?;
        let mut size_bytes = 0;
        // SAFETY: `self.0` is alive by the contract of `new`, and `size_bytes` is a place for the length.
        let start = unsafe { load(self.0, &raw mut size_bytes) };
        let buffer = NonNull::new(start.cast()).map(|start| ServerBuffer { start, size_bytes });
        self.unless_failed(buffer)?.ok_or(DecodeError::Truncated)
    }

    /// Checks that the cgroup has memory for the string and for a compressed copy of it, which the server keeps until it
    /// has read the string.
    fn expect_bytes(&self, size_bytes: u64) -> Result<(), DecodeError> {
        let needed_bytes = usize::try_from(size_bytes.saturating_mul(2)).unwrap_or(usize::MAX);
        if has_room_for(needed_bytes) { Ok(()) } else { Err(DecodeError::OutOfMemory) }
    }
}

impl SnapshotIo {
    /// Returns the value that was just read, unless the snapshot ended early or had a field of another type.
    fn unless_failed<T>(&self, read: T) -> Result<T, DecodeError> {
        let is_io_error = api!(RedisModule_IsIOError).ok_or(DecodeError::Truncated)?;
        // SAFETY: `self.0` is alive by the contract of `new`.
        let failed = unsafe { is_io_error(self.0) } != 0;
        if failed { Err(DecodeError::Truncated) } else { Ok(read) }
    }
}

/// Bytes that the server allocated and that this module frees.
pub(super) struct ServerBuffer {
    start: NonNull<u8>,
    size_bytes: usize,
}

impl Deref for ServerBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the server has returned the start of `size_bytes` initialised bytes, which this buffer owns.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.size_bytes) }
    }
}

impl Drop for ServerBuffer {
    fn drop(&mut self) {
        let Some(free) = api!(RedisModule_Free) else { return };
        // SAFETY: the server has allocated the buffer for this value, which owns it and does not use it again.
        unsafe { free(self.start.as_ptr().cast()) };
    }
}
