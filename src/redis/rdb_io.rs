//! Reads and writes the fields of an encoding in a snapshot of the server.

use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;

use redis_module::raw;

use crate::format::{DecodeError, Sink, Source};

/// One value in a snapshot that is read or written.
pub(super) struct SnapshotIo(*mut raw::RedisModuleIO);

impl SnapshotIo {
    /// # Safety
    /// `io` must be the server's, and the value must not outlive the callback that `io` was given to.
    pub(super) unsafe fn new(io: *mut raw::RedisModuleIO) -> Self {
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
        // SAFETY: `self.0` is alive by the contract of `new`; the server reads the bytes before it returns. A
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
        // SAFETY: the server returned the start of that many initialised bytes, which this buffer owns.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.size_bytes) }
    }
}

impl Drop for ServerBuffer {
    fn drop(&mut self) {
        let Some(free) = api!(RedisModule_Free) else { return };
        // SAFETY: the buffer is the server's allocation, owned by this value and not used again.
        unsafe { free(self.start.as_ptr().cast()) };
    }
}
