//! The allocator of the module. It uses the server's allocator, so that `used_memory` and `maxmemory` count the
//! filters. It is fallible: a request for too much memory is an error and does not abort the server. It zeroes memory
//! lazily: a zeroed gigabyte takes no time.
//!
//! In a container or a service with a memory limit, the server's allocator does not fail: the kernel ends the server when
//! it writes to the memory. So a block of a filter is refused if the cgroup has no memory for it ([`has_room_for`],
//! docs/decisions/0029). Blocks of filters are allocated zeroed. Lists of a command are not, and are refused from
//! [`LIST_MIN_BYTES`] on.
//!
//! # Out of memory
//!
//! Allocations whose size depends on a client, a file or a stream are fallible. If one fails:
//!
//! * a client's command replies an error and has changed nothing;
//! * a command from the primary or the append-only file exits the server
//!   ([`exit_after`](super::server::exit_after)), which would otherwise give false negatives;
//! * a value that is loaded is refused with a line in the log: RESTORE replies an error, and a server that loads its
//!   own file exits;
//! * COPY replies an error, with a line in the log;
//! * the child that rewrites an append-only file exits, and the rewrite fails. Saving allocates nothing of the size of
//!   a filter.
//!
//! A server also aborts if it has no memory for its copy of a large reply or of a replicated argument. So commands hold
//! memory of the same size until the server makes the copy (`command/spare.rs`), and large arguments are replicated
//! without a copy (`effects`).
//!
//! If an allocation of a few hundred bytes fails, the server aborts, as it does for its own allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::headroom::{has_room_for, reserve, unreserve};

// Unit tests have this crate as a dev-dependency, and use the global allocator of that copy. A program can have only
// one.
#[cfg_attr(not(test), global_allocator)]
#[cfg_attr(test, used)]
static ALLOCATOR: ServerAllocator = ServerAllocator;

/// Allocates by the server's allocator, or by the system's outside a server. Servers older than 7.0 have no fallible
/// allocator. There, too, it uses the system's, and the module refuses to load, with a line in the log.
///
/// Every method calls [`ServerMemory::get`]. The module allocates nothing before the server has set the functions of
/// the API, and these never change. So a block is freed by the allocator that made it.
struct ServerAllocator;

/// The functions that are required to use the server's allocator.
struct ServerMemory {
    try_alloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

impl ServerMemory {
    /// Returns all functions, or `None` if one is missing.
    #[inline(always)]
    fn get() -> Option<Self> {
        Some(Self { try_alloc: api!(RedisModule_TryAlloc)?, free: api!(RedisModule_Free)? })
    }
}

/// Alignment of every allocation of every server, and the largest that a type of this crate needs. If the C library
/// cannot tell the size of a block, as in musl, a server built without jemalloc stores the size in 8 bytes before the
/// block. The jemalloc that servers bundle (`--with-lg-quantum=3`) has blocks of 24, 40 and 56 bytes with only this
/// alignment. The hash tables of the standard library need 16 bytes, so the module has none.
pub(super) const ALIGN_MAX_BYTES: usize = 8;

/// A reallocation to this size or more is refused without a call of the server. No block is so large. If the size were
/// `SIZE_MAX / 2`, the server's function would free the block and return null.
const REALLOC_MAX_BYTES: usize = isize::MAX.cast_unsigned() / 2;

/// The smallest zeroed block that is refused if the cgroup has no memory for it. The tests of failed allocations
/// (tests/starved) fail blocks from this size on.
const ZEROED_MIN_BYTES: usize = 4096;

/// The smallest other block that is refused if the cgroup has no memory for it. Smaller ones are for the arguments and the
/// reply of a command. Some of these lists cannot be refused, because the command has already changed a filter.
const LIST_MIN_BYTES: usize = 1 << 20;

/// The smallest block that is cleared lazily: the system clears each page when it is first written to.
const LAZY_ZERO_MIN_BYTES: usize = 64 << 10;

// SAFETY: every method passes the request to the server's allocator, or outside a server to the system's. The system's
// allocator keeps this contract. The server's keeps it for alignments up to `ALIGN_MAX_BYTES`. Larger alignments are
// refused. No method unwinds.
unsafe impl GlobalAlloc for ServerAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(ServerMemory { try_alloc, .. }) = ServerMemory::get() else {
            // SAFETY: the system's method has the same contract, which the caller keeps.
            return unsafe { System.alloc(layout) };
        };
        if !is_allowed(layout.size(), layout.align(), LIST_MIN_BYTES) {
            return noted(ptr::null_mut(), layout.size());
        }
        // SAFETY: allocating has no precondition. Failure is null.
        noted(unsafe { try_alloc(layout.size()) }.cast(), layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(ServerMemory { try_alloc, .. }) = ServerMemory::get() else {
            // SAFETY: the system's method has the same contract, which the caller keeps.
            return unsafe { System.alloc_zeroed(layout) };
        };
        if !is_allowed(layout.size(), layout.align(), ZEROED_MIN_BYTES) {
            return noted(ptr::null_mut(), layout.size());
        }
        if let Some(try_calloc) = api!(RedisModule_TryCalloc) {
            // SAFETY: allocating has no precondition. Failure is null.
            let block: *mut u8 = noted(unsafe { try_calloc(1, layout.size()) }.cast(), layout.size());
            reserve(block, layout.size());
            return block;
        }
        // Redis 7.0 has no fallible calloc, and its calloc aborts the server when there is no memory.
        // SAFETY: allocating has no precondition. Failure is null.
        let block: *mut u8 = noted(unsafe { try_alloc(layout.size()) }.cast(), layout.size());
        if !block.is_null() {
            // SAFETY: the block is fresh and of at least that many bytes.
            unsafe { clear(block, layout.size()) };
            if layout.size() >= LAZY_ZERO_MIN_BYTES {
                reserve(block, layout.size());
            }
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        let Some(ServerMemory { try_alloc, .. }) = ServerMemory::get() else {
            // SAFETY: without the server's allocator, the block comes from the system. The system's method has the same
            // contract, which the caller keeps.
            return unsafe { System.realloc(block, layout, new_bytes) };
        };
        if new_bytes >= REALLOC_MAX_BYTES {
            return ptr::null_mut();
        }
        // Rust's collections make blocks smaller infallibly.
        let is_larger = new_bytes > layout.size();
        if is_larger && !is_allowed(new_bytes, layout.align(), LIST_MIN_BYTES) {
            return noted(ptr::null_mut(), new_bytes);
        }
        unreserve(block, layout.size());
        if let Some(try_realloc) = api!(RedisModule_TryRealloc) {
            // SAFETY: the block comes from this allocator, so the server's allocator made it. If the result is not null,
            // the block is not used again. If the result is null, the server has left the block unchanged, because the
            // size is not 0 by the caller's contract and less than `REALLOC_MAX_BYTES`.
            return noted(unsafe { try_realloc(block.cast(), new_bytes) }.cast(), new_bytes);
        }
        // The server's other reallocation function aborts the server when there is no memory.
        // SAFETY: allocating has no precondition. Failure is null.
        let new_block: *mut u8 = noted(unsafe { try_alloc(new_bytes) }.cast(), new_bytes);
        if !new_block.is_null() {
            // SAFETY: both blocks have at least the smaller of the two sizes, and the new one is not used elsewhere.
            unsafe { ptr::copy_nonoverlapping(block, new_block, layout.size().min(new_bytes)) };
            // SAFETY: `block` comes from this allocator with this layout and is not used again.
            unsafe { self.dealloc(block, layout) };
        }
        new_block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the contract is the same.
        unsafe { free(block, layout) }
    }
}

/// Frees a block. It is not inlined, so that the many places that free blocks stay small.
///
/// # Safety
/// As for [`GlobalAlloc::dealloc`].
#[inline(never)]
unsafe fn free(block: *mut u8, layout: Layout) {
    unreserve(block, layout.size());
    match ServerMemory::get() {
        // SAFETY: the block comes from the server's allocator, and is not used again.
        Some(ServerMemory { free, .. }) => unsafe { free(block.cast()) },
        // SAFETY: without the server's allocator `block` comes from the system with this layout.
        None => unsafe { System.dealloc(block, layout) },
    }
}

/// Returns whether the server's allocator may be asked for a block. From `checked_bytes` on, the cgroup must have memory for
/// it.
#[inline(always)]
fn is_allowed(size_bytes: usize, align_bytes: usize, checked_bytes: usize) -> bool {
    align_bytes <= ALIGN_MAX_BYTES && (size_bytes < checked_bytes || has_room_for(size_bytes))
}

/// Clears a block. The pages of a large block are returned to the system, which provides zeroed pages when they are
/// written to. So a large block takes no memory until then. jemalloc's calloc does the same.
///
/// # Safety
/// `block` must be the start of a block of at least `size_bytes` bytes that nothing else uses.
unsafe fn clear(block: *mut u8, size_bytes: usize) {
    let pages = if size_bytes < LAZY_ZERO_MIN_BYTES { 0..0 } else { whole_pages(block.addr(), size_bytes) };
    // SAFETY: the pages are within the block.
    let start = unsafe { block.add(pages.start) };
    // SAFETY: the pages are within the block, which nothing else uses.
    let pages = if !pages.is_empty() && unsafe { release(start, pages.len()) } { pages } else { 0..0 };
    // SAFETY: the bytes before the pages are within the block, which nothing else uses.
    unsafe { ptr::write_bytes(block, 0, pages.start) };
    // SAFETY: the pages are within the block, so their end is at most that of the block.
    let end = unsafe { block.add(pages.end) };
    // SAFETY: the bytes after the pages are within the block, which nothing else uses.
    unsafe { ptr::write_bytes(end, 0, size_bytes.saturating_sub(pages.end)) };
}

/// Returns the range of the whole pages in a block, in bytes from its start.
fn whole_pages(address: usize, size_bytes: usize) -> Range<usize> {
    // SAFETY: no precondition.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let Some(page_bytes) = usize::try_from(page_bytes).ok().filter(|bytes| bytes.is_power_of_two()) else {
        return 0..0;
    };
    let start = address.wrapping_neg() & page_bytes.saturating_sub(1);
    let rest_bytes = size_bytes.saturating_sub(start);
    start..start.saturating_add(rest_bytes & !page_bytes.saturating_sub(1))
}

/// Returns pages to the system. Returns whether the pages are now zero. They are not if they are locked, or if the
/// allocator has not taken them from anonymous memory.
///
/// # Safety
/// `start` must be the start of a page, and nothing else use the `size_bytes` bytes from there on, at least one.
unsafe fn release(start: *mut u8, size_bytes: usize) -> bool {
    const MARK: u8 = 0xA5;
    // SAFETY: the byte is in a block that nothing else uses, by the caller's contract.
    unsafe { start.write_volatile(MARK) };
    // SAFETY: nothing else uses the bytes of these pages, by the caller's contract.
    let status = unsafe { libc::madvise(start.cast(), size_bytes, libc::MADV_DONTNEED) };
    // SAFETY: the byte is in a block that nothing else uses, by the caller's contract.
    status == 0 && unsafe { start.read_volatile() } == 0
}

/// Size of the last failed allocation, in bytes; 0 if none has failed.
static REFUSED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Returns the block. Records its size if the allocation failed.
fn noted(block: *mut u8, size_bytes: usize) -> *mut u8 {
    if block.is_null() {
        REFUSED_BYTES.store(size_bytes, Relaxed);
    }
    block
}

/// Returns the size of the last failed allocation, in bytes; 0 if none has failed.
pub(super) fn refused_bytes() -> usize {
    REFUSED_BYTES.load(Relaxed)
}

/// Returns the number of bytes that the server's allocator set aside for the block that begins at `start`, or
/// `size_bytes` if this is unknown.
///
/// # Safety
/// `start` must be the start of a living allocation of this module that was made for values of `T`, or `size_bytes`
/// zero.
pub(super) unsafe fn block_bytes<T>(start: *const T, size_bytes: usize) -> usize {
    // Outside a server there is no function for the size.
    match api!(RedisModule_MallocSize) {
        // SAFETY: the block is alive and was allocated by `ServerAllocator`, by the caller's contract. The function
        // only reads its size.
        Some(malloc_size) if size_bytes > 0 => unsafe { malloc_size(start.cast_mut().cast()) },
        _ => size_bytes,
    }
}
