//! Whether the cgroups of the server have memory for a block (docs/decisions/0029-memory-of-a-cgroup.md).

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

use redis_module::raw;

use super::api::server_flags;
use super::cgroup::{Allowance, MemoryCgroups};
use super::log;
use super::pace::Pace;
use super::pagemap::PageTable;
use super::reserved::{BLOCK_MIN_BYTES, ReservedBlocks};

/// The cgroups of the server.
static CGROUPS: RwLock<MemoryCgroups> = RwLock::new(MemoryCgroups::new());
/// The server's `maxmemory` in bytes. If it is not set, there is no limit.
static MAXMEMORY_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);
/// The bytes that may be allocated before the free memory of the cgroups is read again.
static ALLOWANCE: Allowance = Allowance::new();
/// The blocks of filters that are reserved. Background threads free some of them.
static RESERVED: Mutex<ReservedBlocks> = Mutex::new(ReservedBlocks::new());
/// The process that counts reserved blocks; 0 before the module is loaded. A child of the server does not: a thread of
/// the server may have had the lock when the child was made.
static COUNTING_PROCESS: AtomicU32 = AtomicU32::new(0);

/// Begins to count reserved blocks.
pub(super) fn count_reserved() {
    COUNTING_PROCESS.store(std::process::id(), Relaxed);
}

/// Sets the cgroups of the server, and its `maxmemory`.
pub(super) fn watch(cgroups: MemoryCgroups, maxmemory_bytes: u64) {
    *CGROUPS.write().unwrap_or_else(PoisonError::into_inner) = cgroups;
    MAXMEMORY_BYTES.store(maxmemory_bytes, Relaxed);
}

/// Returns the server's `maxmemory` in bytes; the largest number if there is none.
pub(super) fn maxmemory_bytes() -> u64 {
    MAXMEMORY_BYTES.load(Relaxed)
}

/// Returns the least memory limit of the cgroups in bytes; `None` if there is none.
pub(super) fn limit_bytes() -> Option<u64> {
    CGROUPS.read().unwrap_or_else(PoisonError::into_inner).limit_bytes()
}

/// Counts a new block as reserved: it is all zeros, and was not written to.
#[inline(always)]
pub(super) fn reserve(block: *mut u8, size_bytes: usize) {
    if size_bytes >= BLOCK_MIN_BYTES && !block.is_null() {
        with_reserved(|reserved| reserved.add(block.addr(), size_bytes));
    }
}

/// Counts a block no longer as reserved, before it is freed, or after it was moved.
#[inline(always)]
pub(super) fn unreserve(block: *mut u8, size_bytes: usize) {
    if size_bytes >= BLOCK_MIN_BYTES {
        with_reserved(|reserved| reserved.remove(block.addr()));
    }
}

/// Changes the reserved blocks, unless this is a child of the server.
#[cold]
#[inline(never)]
fn with_reserved(change: impl FnOnce(&mut ReservedBlocks)) {
    if COUNTING_PROCESS.load(Relaxed) == std::process::id() {
        change(&mut RESERVED.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Memory of the cgroups, in bytes.
#[derive(Clone, Copy, Default)]
struct Room {
    /// What may be allocated.
    bytes: u64,
    /// What is left to filters that have reserved it.
    reserved_bytes: u64,
}

/// Returns whether a block of this size fits in the memory that the cgroups of the server have free. If it does not,
/// the allocation must fail, because the kernel would end a process when the block is written to.
pub(super) fn has_room_for(block_bytes: usize) -> bool {
    let block_bytes = u64::try_from(block_bytes).unwrap_or(u64::MAX);
    let mut found = None;
    let has_room = ALLOWANCE.admits(block_bytes, || {
        found = room_for(block_bytes);
        found.map(|room| room.bytes)
    });
    if !has_room {
        log_full(block_bytes, found.unwrap_or_default());
    }
    has_room
}

/// Returns the room for a block of this size; `None` if it has no limit. What filters have reserved is no room for a
/// client's command, unless `maxmemory` is below the limit: `used_memory` counts what is reserved.
fn room_for(block_bytes: u64) -> Option<Room> {
    // The lock is taken only while the cgroups are replaced.
    let cgroups = CGROUPS.try_read().ok()?;
    let free_bytes = cgroups.free_bytes(log::is_server_loading())?;
    let all = Room { bytes: free_bytes, reserved_bytes: 0 };
    let is_bounded = || maxmemory_bytes() < u64::MAX && cgroups.limit_bytes() > Some(maxmemory_bytes());
    let rest_bytes = free_bytes.checked_sub(block_bytes).filter(|_| !is_bounded());
    let Some(rest_bytes) = rest_bytes else { return Some(all) };
    let reserved_bytes = reserved_bytes(rest_bytes);
    let is_short = reserved_bytes > rest_bytes;
    if is_short && !may_be_from_client() {
        log_overcommitted(reserved_bytes, free_bytes);
        return Some(all);
    }
    IS_OVERCOMMITMENT_LOGGED.fetch_and(is_short, Relaxed);
    Some(Room { bytes: free_bytes.saturating_sub(reserved_bytes), reserved_bytes })
}

/// Returns whether a client may have sent what the server does now: it is a primary that is not loading its data.
fn may_be_from_client() -> bool {
    !log::is_server_loading() && server_flags() & raw::REDISMODULE_CTX_FLAGS_SLAVE == 0
}

/// Returns how many bytes filters have reserved and not written to. If they seem to be more than `most_bytes`, they are
/// measured, unless they were measured a short time ago.
fn reserved_bytes(most_bytes: u64) -> u64 {
    static MEASURING: Pace = Pace::new();
    let mut total_bytes = 0;
    with_reserved(|reserved| {
        if reserved.total_bytes() > most_bytes {
            MEASURING.run(|| {
                let table = PageTable::open();
                // Without a table, all memory counts as written.
                reserved.measure(most_bytes, |block| {
                    table.as_ref().map_or(0, |table| table.reserved_bytes(block))
                });
            });
        }
        total_bytes = reserved.total_bytes();
    });
    total_bytes
}

#[cold]
fn log_full(block_bytes: u64, room: Room) {
    let Room { bytes, reserved_bytes } = room;
    let reserved = match reserved_bytes {
        0 => String::new(),
        reserved_bytes => format!(", besides {reserved_bytes} that filters have reserved and not filled yet"),
    };
    log::throttled(
        &log::ALLOCATING,
        ptr::null_mut(),
        &format!("it needs {block_bytes} bytes, but the memory limit of the cgroup leaves {bytes}{reserved}"),
    );
}

/// Whether the log has a line about the present shortage.
static IS_OVERCOMMITMENT_LOGGED: AtomicBool = AtomicBool::new(false);

/// Logs that the cgroup has too little memory for what filters have reserved, once for each shortage.
fn log_overcommitted(reserved_bytes: u64, free_bytes: u64) {
    if !IS_OVERCOMMITMENT_LOGGED.swap(true, Relaxed) {
        log::warning(
            ptr::null_mut(),
            &format!(
                "everbloom: filters have reserved {reserved_bytes} bytes that are not filled yet, but the memory limit of \
                 the cgroup leaves {free_bytes}: the system may end the server when they are filled"
            ),
        );
    }
}
