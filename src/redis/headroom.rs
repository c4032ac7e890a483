//! Whether the cgroups of the server have memory for a block (docs/decisions/0029-memory-of-a-cgroup.md).

use std::ptr;
use std::sync::{PoisonError, RwLock};

use super::cgroup::{Allowance, MemoryCgroups};
use super::log;

/// The cgroups of the server.
static CGROUPS: RwLock<MemoryCgroups> = RwLock::new(MemoryCgroups::new());
/// The bytes that may be allocated before the free memory of the cgroups is read again.
static ALLOWANCE: Allowance = Allowance::new();

/// Sets the cgroups of the server.
pub(super) fn watch(cgroups: MemoryCgroups) {
    *CGROUPS.write().unwrap_or_else(PoisonError::into_inner) = cgroups;
}

/// Returns the least memory limit of the cgroups in bytes; `None` if there is none.
pub(super) fn limit_bytes() -> Option<u64> {
    CGROUPS.read().unwrap_or_else(PoisonError::into_inner).limit_bytes()
}

/// Returns whether a block of this size fits in the memory that the cgroups of the server have free. If it does not,
/// the allocation must fail, because the kernel would end a process when the block is written to.
pub(super) fn has_room_for(block_bytes: usize) -> bool {
    let block_bytes = u64::try_from(block_bytes).unwrap_or(u64::MAX);
    // The lock is taken only while the cgroups are replaced.
    let free_bytes = || CGROUPS.try_read().ok()?.free_bytes(log::is_server_loading());
    let has_room = ALLOWANCE.admits(block_bytes, free_bytes);
    if !has_room {
        log_full(block_bytes, free_bytes());
    }
    has_room
}

#[cold]
fn log_full(block_bytes: u64, free_bytes: Option<u64>) {
    let free_bytes = free_bytes.unwrap_or(0);
    log::throttled(
        &log::ALLOCATING,
        ptr::null_mut(),
        &format!("it needs {block_bytes} bytes, but the memory limit of the cgroup leaves {free_bytes}"),
    );
}
