//! Memory that a command allocates before it changes anything, because it cannot be refused afterwards.

use std::hint::black_box;

use super::error::CommandError;
use super::keyspace::Host;

/// The largest copy, in bytes, for which no memory is held. Every server is assumed to have memory for it.
const SMALL_COPY_BYTES: usize = 64 << 10;

/// Bytes that a server may allocate in addition to a copy.
const OVERHEAD_BYTES: usize = 64 << 10;

/// Bytes that a server allocates for an argument besides its own bytes: its struct, its length, and the pointer to it.
const ARGUMENT_BYTES: usize = 64;

/// Returns an empty buffer for `bytes` bytes.
pub(super) fn byte_buffer(bytes: usize) -> Result<Vec<u8>, CommandError> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes).map_err(|_| CommandError::OutOfMemory)?;
    Ok(buffer)
}

/// Memory that is held until the server makes a copy of the same size, because a server exits if it has no memory for a
/// copy.
#[derive(Debug, Default)]
pub(super) struct Spare(Vec<u8>);

impl Spare {
    /// Returns memory for a copy of `bytes` bytes. Allocates nothing for a small copy.
    #[inline(always)]
    pub(super) fn for_copy(bytes: usize) -> Result<Self, CommandError> {
        if bytes <= SMALL_COPY_BYTES { Ok(Self::default()) } else { Self::for_large_copy(bytes) }
    }

    /// Returns memory for copies of `items` arguments that have `bytes` bytes together, each with the server's structs.
    pub(super) fn for_copies(bytes: usize, items: usize) -> Result<Self, CommandError> {
        Self::for_copy(bytes.saturating_add(items.saturating_mul(ARGUMENT_BYTES)))
    }

    /// Returns memory for the server's copy of a reply of `bytes` bytes. Allocates nothing for a replicated command,
    /// whose reply is not copied.
    #[inline(always)]
    pub(super) fn for_reply(bytes: usize, host: &dyn Host) -> Result<Self, CommandError> {
        if bytes <= SMALL_COPY_BYTES || host.is_replicated() {
            Ok(Self::default())
        } else {
            Self::for_large_copy(bytes)
        }
    }

    #[cold]
    fn for_large_copy(bytes: usize) -> Result<Self, CommandError> {
        let mut spare = byte_buffer(bytes.saturating_add(OVERHEAD_BYTES))?;
        // Without this the compiler would remove the unused allocation.
        black_box(&mut spare);
        Ok(Self(spare))
    }

    /// Frees the memory, just before the copy is made.
    #[inline(always)]
    pub(super) fn free(self) {
        drop(self.0);
    }
}
