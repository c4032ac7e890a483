//! The allocator of the module: the server's, so that `used_memory` and `maxmemory` count the filters, but
//! fallible and with memory that is zeroed lazily, so that reserving a gigabyte costs nothing and asking for
//! too much is an error instead of the end of the server.
//!
//! # When memory runs out
//!
//! What a client, a file or a stream decides the size of is asked for by calls that can fail. Where they do:
//!
//! * a client's command replies an error and has changed nothing;
//! * a command of a primary or of an append-only file ends the server ([`loss`](super::loss)), which would
//!   otherwise deny items that were added;
//! * a value that is being loaded is refused with a line in the log: RESTORE replies an error, and a server
//!   that loads its own file ends;
//! * COPY replies an error, with a line in the log;
//! * the child that rewrites an append-only file ends, and with it the rewrite; saving takes no memory of the
//!   size of a filter, and so goes on.
//!
//! A block of a few hundred bytes that cannot be had ends the server, as it does where the server itself
//! asks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[cfg_attr(not(test), global_allocator)]
static ALLOCATOR: ServerAllocator = ServerAllocator;

/// The server's allocator, or the system's where there is none or one that cannot fail (outside a server;
/// servers older than 7.0, which get no more of the module than a line in the log). Which one it is never
/// changes between an allocation and its release: every method asks [`ServerMemory::get`], and the module
/// allocates nothing before the server has given its functions, which stay.
struct ServerAllocator;

/// The functions without which the server's allocator is not used at all.
struct ServerMemory {
    try_alloc: unsafe extern "C" fn(usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

impl ServerMemory {
    /// All of them or none.
    #[inline(always)]
    fn get() -> Option<Self> {
        Some(Self {
            try_alloc: api!(RedisModule_TryAlloc)?,
            calloc: api!(RedisModule_Calloc)?,
            free: api!(RedisModule_Free)?,
        })
    }
}

/// Alignment that every allocation of the server has (malloc's, on 64-bit hosts). No type of this crate asks
/// for more.
const ALIGN_MAX_BYTES: usize = 16;

/// Size from which on zeroing is left to the server's `Calloc`, whose memory comes zeroed from the system.
/// Below, one fallible allocation that is cleared here is cheaper than asking twice.
const LAZY_ZERO_MIN_BYTES: usize = 64 << 10;

// SAFETY: every method hands the request to the server's allocator or, outside a server, to the system's,
// each of which keeps this contract for alignments up to `ALIGN_MAX_BYTES`; larger ones are refused. No
// method unwinds.
unsafe impl GlobalAlloc for ServerAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(ServerMemory { try_alloc, .. }) = ServerMemory::get() else {
            // SAFETY: the caller keeps the contract of this very method.
            return unsafe { System.alloc(layout) };
        };
        if layout.align() > ALIGN_MAX_BYTES {
            return ptr::null_mut();
        }
        // SAFETY: allocating has no precondition; failure is null.
        noted(unsafe { try_alloc(layout.size()) }.cast(), layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(ServerMemory { calloc, .. }) = ServerMemory::get() else {
            // SAFETY: the caller keeps the contract of this very method.
            return unsafe { System.alloc_zeroed(layout) };
        };
        if layout.align() > ALIGN_MAX_BYTES {
            return ptr::null_mut();
        }
        if let Some(try_calloc) = api!(RedisModule_TryCalloc) {
            // SAFETY: allocating has no precondition; failure is null.
            return noted(unsafe { try_calloc(1, layout.size()) }.cast(), layout.size());
        }
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        let probe = unsafe { self.alloc(layout) };
        if probe.is_null() {
            return probe;
        }
        if layout.size() < LAZY_ZERO_MIN_BYTES {
            // SAFETY: `probe` is a fresh allocation of at least that many bytes.
            unsafe { ptr::write_bytes(probe, 0, layout.size()) };
            return probe;
        }
        // Redis 7.0 has no fallible calloc, and its calloc ends the server when there is no memory: so only
        // after an allocation of the same size has just succeeded.
        // SAFETY: `probe` comes from `alloc` with this layout and is not used again.
        unsafe { self.dealloc(probe, layout) };
        // SAFETY: allocating has no precondition; the product of the two sizes cannot overflow.
        unsafe { calloc(1, layout.size()) }.cast()
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        if ServerMemory::get().is_none() {
            // SAFETY: without the server's allocator `block` comes from the system; the caller keeps the
            // contract.
            return unsafe { System.realloc(block, layout, new_bytes) };
        }
        if let Some(try_realloc) = api!(RedisModule_TryRealloc) {
            // SAFETY: `block` comes from this allocator, hence from the server's, and is not used again
            // unless the answer is null, in which case it is untouched. Its alignment is at most
            // `ALIGN_MAX_BYTES`.
            return unsafe { try_realloc(block.cast(), new_bytes) }.cast();
        }
        // The server's other reallocation ends it when there is no memory.
        let new_layout = match Layout::from_size_align(new_bytes, layout.align()) {
            Ok(new_layout) => new_layout,
            Err(_) => return ptr::null_mut(),
        };
        // SAFETY: the caller of this method asks for a size above zero.
        let new_block = unsafe { self.alloc(new_layout) };
        if !new_block.is_null() {
            // SAFETY: both blocks hold at least the smaller of the two sizes, and the new one is fresh.
            unsafe { ptr::copy_nonoverlapping(block, new_block, layout.size().min(new_bytes)) };
            // SAFETY: `block` comes from this allocator with this layout and is not used again.
            unsafe { self.dealloc(block, layout) };
        }
        new_block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match ServerMemory::get() {
            // SAFETY: `block` comes from this allocator, hence from the server's, and is not used again.
            Some(ServerMemory { free, .. }) => unsafe { free(block.cast()) },
            // SAFETY: without the server's allocator `block` comes from the system with this layout.
            None => unsafe { System.dealloc(block, layout) },
        }
    }
}

/// Size of the last allocation that failed, in bytes; 0 while none has.
static REFUSED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The block, noting its size where the allocator refused it.
fn noted(block: *mut u8, size_bytes: usize) -> *mut u8 {
    if block.is_null() {
        REFUSED_BYTES.store(size_bytes, Relaxed);
    }
    block
}

/// Size of the last allocation that failed, in bytes; 0 while none has.
pub(super) fn refused_bytes() -> usize {
    REFUSED_BYTES.load(Relaxed)
}

/// Bytes that the server's allocator set aside for the block that begins at `start`, or `size_bytes` if it
/// cannot say. `start` must be the start of a living allocation of this module, or `size_bytes` zero.
pub(super) fn block_bytes<T>(start: *const T, size_bytes: usize) -> usize {
    match api!(RedisModule_MallocSize) {
        // SAFETY: a block of more than no bytes that a collection of this module owns was made by
        // `ServerAllocator`, and looking up its size does not write to it.
        Some(malloc_size) if size_bytes > 0 => unsafe { malloc_size(start.cast_mut().cast()) },
        _ => size_bytes,
    }
}
