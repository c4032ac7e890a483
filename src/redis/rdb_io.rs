//! The fields of an encoding in a snapshot of the server.

use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;

use redis_module::raw;

use crate::format::{DecodeError, Sink, Source};

/// The place of one value in a snapshot, being read or written.
pub(super) struct SnapshotIo(*mut raw::RedisModuleIO);

impl SnapshotIo {
    /// # Safety
    /// `io` must be the server's, and the value must not outlive the callback that `io` was given to.
    pub(super) unsafe fn new(io: *mut raw::RedisModuleIO) -> Self {
        Self(io)
    }
}

impl Sink for SnapshotIo {
    fn bytes(&mut self, bytes: &[u8]) {
        let Some(save) = api!(RedisModule_SaveStringBuffer) else { return };
        // SAFETY: `self.0` is alive by the contract of `new`; the server reads the bytes before it returns. A failure
        // to write is kept in `io`, and the server ends the snapshot with it.
        unsafe { save(self.0, bytes.as_ptr().cast(), bytes.len()) };
    }
}

impl Source for SnapshotIo {
    type Bytes = ServerBuffer;

    fn bytes(&mut self) -> Result<ServerBuffer, DecodeError> {
        let (Some(load), Some(is_io_error)) =
            (api!(RedisModule_LoadStringBuffer), api!(RedisModule_IsIOError))
        else {
            return Err(DecodeError::Truncated);
        };
        let mut size_bytes = 0;
        // SAFETY: `self.0` is alive by the contract of `new`, and `size_bytes` is a place for the length.
        let start = unsafe { load(self.0, &raw mut size_bytes) };
        let buffer = NonNull::new(start.cast()).map(|start| ServerBuffer { start, size_bytes });
        // SAFETY: as above.
        let failed = unsafe { is_io_error(self.0) } != 0;
        buffer.filter(|_| !failed).ok_or(DecodeError::Truncated)
    }
}

/// Bytes that the server allocated and that this module is to free.
pub(super) struct ServerBuffer {
    start: NonNull<u8>,
    size_bytes: usize,
}

impl Deref for ServerBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the server gave the start of that many initialised bytes and left them to this buffer alone.
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
