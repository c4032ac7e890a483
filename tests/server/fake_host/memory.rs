//! Memory: what is handed out is remembered, so that what comes back can be told from what never left. A block may have a
//! front of 8 bytes, as where the server keeps its size there: the module gets what follows, aligned to 8 bytes and no more.

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::ptr;

use super::host::{try_with, with};

/// The layout of a block with its front.
fn layout_of(size: usize) -> Layout {
    let whole = size.max(1) + with(|state| state.front_bytes);
    Layout::from_size_align(whole, 16).expect("a size that exists")
}

/// What follows the front of a fresh block.
fn handed_out(start: *mut u8, layout: Layout) -> *mut c_void {
    with(|state| {
        // SAFETY: the layout is larger than the front.
        let block = unsafe { start.add(state.front_bytes) };
        state.blocks.insert(block as usize, layout);
        block.cast()
    })
}

pub(super) extern "C" fn allocate(size: usize) -> *mut c_void {
    let layout = layout_of(size);
    // SAFETY: the layout has a size above zero.
    handed_out(unsafe { alloc::alloc(layout) }, layout)
}

pub(super) extern "C" fn allocate_zeroed(count: usize, size: usize) -> *mut c_void {
    let layout = layout_of(count * size);
    // SAFETY: the layout has a size above zero.
    handed_out(unsafe { alloc::alloc_zeroed(layout) }, layout)
}

/// # Safety
/// `block` must be the module's own; if this host did not hand it out, that is noted and it stays as it is.
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
/// `block` must not be used again; if this host did not hand it out, that is noted and it stays as it is.
pub(super) unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() {
        return;
    }
    let layout = try_with(|state| {
        let layout = state.blocks.remove(&(block as usize));
        state.strange_blocks += u32::from(layout.is_none());
        layout.map(|layout| (layout, state.front_bytes))
    });
    if let Some(Some((layout, front_bytes))) = layout {
        // SAFETY: handed out with this front in front of it.
        let start = unsafe { block.cast::<u8>().sub(front_bytes) };
        // SAFETY: allocated with this layout, and given up.
        unsafe { alloc::dealloc(start, layout) };
    }
}

pub(super) extern "C" fn malloc_size(block: *mut c_void) -> usize {
    with(|state| {
        let layout = state.blocks.get(&(block as usize)).copied();
        state.strange_blocks += u32::from(layout.is_none());
        layout.map_or(0, |layout| layout.size() - state.front_bytes)
    })
}
