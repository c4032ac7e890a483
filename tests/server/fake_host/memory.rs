//! Memory: every allocated block is recorded, so that freeing any other block is detected. A block may have a front
//! of 8 bytes, as in servers that keep its size there: the module gets the bytes after it, with an alignment of
//! exactly 8. The same holds for blocks of an odd multiple of 8 bytes if the host has quanta, as jemalloc built with
//! `--with-lg-quantum=3`.

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::ptr;

use super::host::{try_with, with};

/// Alignment of all blocks without their front.
const ALIGN_BYTES: usize = 16;

/// Returns the bytes before a block of this size.
fn front_bytes_of(size: usize) -> usize {
    let is_odd = !size.next_multiple_of(8).is_multiple_of(ALIGN_BYTES);
    with(|state| if state.has_quanta && is_odd { 8 } else { state.front_bytes })
}

/// Returns the bytes before an existing block.
fn front_bytes_at(block: usize) -> usize {
    block % ALIGN_BYTES
}

/// Returns the layout of a block with its front.
fn layout_of(size: usize) -> Layout {
    Layout::from_size_align(size.max(1) + front_bytes_of(size), ALIGN_BYTES).expect("a size that exists")
}

/// Returns the address after the front of a new block.
fn handed_out(start: *mut u8, layout: Layout, size: usize) -> *mut c_void {
    // SAFETY: the layout is larger than the front.
    let block = unsafe { start.add(front_bytes_of(size)) };
    with(|state| state.blocks.insert(block as usize, layout));
    block.cast()
}

pub(super) extern "C" fn allocate(size: usize) -> *mut c_void {
    let layout = layout_of(size);
    // SAFETY: the layout has a size above zero.
    handed_out(unsafe { alloc::alloc(layout) }, layout, size)
}

pub(super) extern "C" fn allocate_zeroed(count: usize, size: usize) -> *mut c_void {
    let size = count * size;
    let layout = layout_of(size);
    // SAFETY: the layout has a size above zero.
    handed_out(unsafe { alloc::alloc_zeroed(layout) }, layout, size)
}

/// # Safety
/// `block` must be the module's own. If this host did not allocate it, that is recorded and the block is unchanged.
pub(super) unsafe extern "C" fn reallocate(block: *mut c_void, size: usize) -> *mut c_void {
    let new_block = allocate(size);
    if !block.is_null() {
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
