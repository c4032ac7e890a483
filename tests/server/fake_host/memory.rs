//! Memory: every allocated block is recorded, so that freeing any other block is detected. A block may have a front of
//! 8 bytes, as in servers that keep its size there: the module gets the bytes after it, with an alignment of exactly 8.
//! If the host has quanta, blocks of an odd multiple of 8 bytes have such a front: jemalloc built with
//! `--with-lg-quantum=3` aligns them to 8 bytes only.

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::ptr;

use super::host::{try_with, with};

/// Alignment of a block together with its front.
const ALIGN_BYTES: usize = 16;

/// Returns the length of the front of a new block of this size.
fn front_bytes_of(size: usize) -> usize {
    let is_odd = !size.next_multiple_of(8).is_multiple_of(ALIGN_BYTES);
    with(|state| if state.has_quanta && is_odd { 8 } else { state.front_bytes })
}

/// Returns the length of the front of an existing block.
fn front_bytes_at(block: usize) -> usize {
    block % ALIGN_BYTES
}

/// Returns the layout of a block with its front.
fn layout_of(size: usize) -> Layout {
    Layout::from_size_align(size.max(1) + front_bytes_of(size), ALIGN_BYTES).expect("a size that exists")
}

/// Smallest block that counts towards the limit. A server aborts if it has no memory for smaller ones.
const LARGE_MIN_BYTES: usize = 16 << 10;

/// Takes memory for a block or a copy. Returns whether there is enough.
pub(super) fn take(size: usize) -> bool {
    with(|state| {
        let bytes = state.memory_bytes + size;
        if size >= LARGE_MIN_BYTES {
            if state.memory_max_bytes.is_some_and(|most| bytes > most) {
                return false;
            }
            state.memory_bytes = bytes;
            state.memory_peak_bytes = state.memory_peak_bytes.max(bytes);
        }
        true
    })
}

/// Takes memory for a copy that the host makes. A server without the memory aborts.
pub(super) fn take_or_abort(size: usize) {
    if !take(size) {
        with(|state| state.aborts += 1);
    }
}

/// Gives back what [`take`] took.
pub(super) fn give_back(size: usize) {
    if size >= LARGE_MIN_BYTES {
        let _ = try_with(|state| state.memory_bytes = state.memory_bytes.saturating_sub(size));
    }
}

/// The byte that fills a new block that is not zeroed.
const GARBAGE: u8 = 0xC7;

/// Records a new block. Returns the address after its front.
fn handed_out(start: *mut u8, layout: Layout, size: usize) -> *mut c_void {
    // SAFETY: the layout is larger than the front.
    let block = unsafe { start.add(front_bytes_of(size)) };
    with(|state| state.blocks.insert(block as usize, layout));
    block.cast()
}

pub(super) extern "C" fn allocate(size: usize) -> *mut c_void {
    let layout = layout_of(size);
    if !take(layout.size()) {
        return ptr::null_mut();
    }
    // SAFETY: the layout has a size above zero.
    let start = unsafe { alloc::alloc(layout) };
    // SAFETY: the block is fresh and that long.
    unsafe { ptr::write_bytes(start, GARBAGE, layout.size()) };
    handed_out(start, layout, size)
}

pub(super) extern "C" fn allocate_or_abort() -> *mut c_void {
    with(|state| state.aborts += 1);
    ptr::null_mut()
}

pub(super) extern "C" fn allocate_zeroed(count: usize, size: usize) -> *mut c_void {
    let size = count * size;
    let layout = layout_of(size);
    if !take(layout.size()) {
        return ptr::null_mut();
    }
    // SAFETY: the layout has a size above zero.
    handed_out(unsafe { alloc::alloc_zeroed(layout) }, layout, size)
}

/// # Safety
/// `block` must be the module's own. If this host did not allocate it, that is recorded and the block is unchanged.
pub(super) unsafe extern "C" fn reallocate(block: *mut c_void, size: usize) -> *mut c_void {
    let new_block = allocate(size);
    if !block.is_null() && !new_block.is_null() {
        let old_size = malloc_size(block);
        // SAFETY: both blocks have at least that many bytes, and the new one is fresh.
        unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), new_block.cast(), old_size.min(size)) };
        // SAFETY: the module gives the block up.
        unsafe { free(block) };
    }
    new_block
}

/// # Safety
/// `block` must not be used again. If this host did not allocate it, that is recorded and the block is unchanged.
pub(super) unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() {
        return;
    }
    let layout = try_with(|state| {
        let layout = state.blocks.remove(&(block as usize));
        state.strange_blocks += u32::from(layout.is_none());
        layout
    });
    if let Some(Some(layout)) = layout {
        give_back(layout.size());
        // SAFETY: the block was allocated with this front.
        let start = unsafe { block.cast::<u8>().sub(front_bytes_at(block as usize)) };
        // SAFETY: allocated with this layout, and given up.
        unsafe { alloc::dealloc(start, layout) };
    }
}

pub(super) extern "C" fn malloc_size(block: *mut c_void) -> usize {
    with(|state| {
        let layout = state.blocks.get(&(block as usize)).copied();
        state.strange_blocks += u32::from(layout.is_none());
        layout.map_or(0, |layout| layout.size() - front_bytes_at(block as usize))
    })
}
