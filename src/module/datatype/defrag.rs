//! Active defragmentation: moves the structs and the blocks of a value to better addresses.
//!
//! # Duration of a step
//!
//! The server sets no time limit for a call, so the module asks the server after every layer, segment or array whether
//! to stop. Before the first question it moves all structs. Between two questions it moves one block, of at most
//! [`MOVABLE_MAX_BYTES`]. At a question, Redis 7.0 and Valkey check the clock. Redis from 8.0 on checks it only after
//! 512 moved or 1024 unmoved blocks.
//!
//! The server lets the module stop only for values with a large [`free_effort`](super::free_effort). So that function
//! returns a large effort for filters with more than [`BLOCKS_AT_ONCE_MAX`] layers and segments. If the server still
//! does not let the module stop, that number of blocks is moved, and the others stay where they are.

use std::ffi::{c_int, c_ulong, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use redis_module::raw::{RedisModuleDefragCtx, RedisModuleString};

use super::snapshot::SAVING;
use super::value::StoredValue;
use super::{BLOCKS_AT_ONCE_MAX, or_abort};
use crate::allocator::ALIGN_MAX_BYTES;
use crate::api::succeeded;
use crate::headroom::unreserve;
use crate::stats;
use crate::stored::Stored;
use everbloom_filter::BlockMover;

/// The server need not call again for the value.
const DONE: c_int = 0;
/// The server must call again for the value.
const TO_BE_CONTINUED: c_int = 1;

/// Moves a value, or a part of it. Returns [`DONE`] or [`TO_BE_CONTINUED`].
///
/// # Safety
/// Called by the server only, with a place that holds a value of the type.
pub(super) unsafe extern "C" fn defrag<V: StoredValue>(
    context: *mut RedisModuleDefragCtx,
    _key: *mut RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    or_abort("moving a value", || {
        // Nothing is moved while a value is saved.
        let Ok(_moving) = SAVING.try_write() else { return DONE };
        // SAFETY: the context is the server's, and the place holds a value of the type. Both are used within this
        // callback.
        let mut run = unsafe { DefragStep::new(context, value) };
        run.execute::<V>()
    })
}

/// Bytes of the largest block that is moved.
///
/// Only blocks that share pages with others leave holes when they are freed: the small size classes of jemalloc, 14
/// KiB and less, or 224 KiB with pages of 64 KiB. A larger block has its pages to itself and returns them to the
/// system. Moving it would copy a gigabyte for no gain, in a step that cannot be interrupted. The patched jemalloc of
/// the servers never recommends it, but another allocator might.
const MOVABLE_MAX_BYTES: usize = 256 << 10;

/// One call by the server to defragment a value.
struct DefragStep {
    context: *mut RedisModuleDefragCtx,
    value: *mut *mut c_void,
}

impl DefragStep {
    /// Returns the state of a call by the server for the value at this place.
    ///
    /// # Safety
    /// The context must be alive, and the place hold a value of the type that nothing else uses, while this
    /// lives.
    unsafe fn new(context: *mut RedisModuleDefragCtx, value: *mut *mut c_void) -> Self {
        Self { context, value }
    }

    fn execute<V: StoredValue>(&mut self) -> c_int {
        let cursor = self.cursor();
        let first = cursor.unwrap_or(0);
        if first == 0 {
            self.move_box_of_value::<Stored<V>>();
        }
        // SAFETY: the place holds a value of the type, moved or not, by the contract of `new`.
        let stored = unsafe { *self.value };
        // SAFETY: a value of the type is a boxed `Stored`, and nothing else uses it by the contract of `new`.
        let Stored { value, .. } = unsafe { &mut *stored.cast::<Stored<V>>() };
        if first == 0 {
            value.move_structs(self);
        }
        let count = value.block_count();
        let count = if cursor.is_none() { count.min(BLOCKS_AT_ONCE_MAX) } else { count };
        for index in first..count {
            value.move_block(index, self);
            let next = index.saturating_add(1);
            if next < count && self.should_stop() && self.set_cursor(next) {
                return TO_BE_CONTINUED;
            }
        }
        DONE
    }

    /// Moves the value itself, a boxed `T`.
    fn move_box_of_value<T>(&self) {
        // SAFETY: the place holds a value of the type by the contract of `new`.
        let old = unsafe { *self.value };
        if let Some(new) = self.move_block(old.cast::<T>(), 1) {
            // SAFETY: the server has passed the place so that the new address is written to it.
            unsafe { self.value.write(new.as_ptr().cast()) };
        }
    }

    /// Moves a block of `values` values to a better place. Returns its new address; `None` if it was not moved.
    fn move_block<T>(&self, block: *mut T, values: usize) -> Option<NonNull<T>> {
        // A block with a larger alignment may begin after the start of the server's own block, and the server can
        // move only its own. This assertion excludes such types.
        const { assert!(align_of::<T>() <= ALIGN_MAX_BYTES) };
        let size_bytes = values.saturating_mul(size_of::<T>());
        if size_bytes == 0 {
            return None;
        }
        if size_bytes > MOVABLE_MAX_BYTES {
            stats::count_defrag(false);
            return None;
        }
        let defrag_alloc = api!(RedisModule_DefragAlloc)?;
        // SAFETY: this module's allocator has made the block with the server's. It begins where the server's block
        // does, because its alignment needs no shift. Nothing else uses it. If the result is not null, the server has
        // copied the bytes there and has freed the old block.
        let moved = NonNull::new(unsafe { defrag_alloc(self.context, block.cast()) }.cast());
        if moved.is_some() {
            // The server has written to all of the new block.
            unreserve(block.cast(), size_bytes);
        }
        stats::count_defrag(moved.is_some());
        moved
    }

    fn should_stop(&self) -> bool {
        // SAFETY: the context is alive by the contract of `new`.
        api!(RedisModule_DefragShouldStop)
            .is_some_and(|should_stop| unsafe { should_stop(self.context) } != 0)
    }

    /// Returns the number of the block to continue with; `None` if the server wants the value done at once.
    fn cursor(&self) -> Option<usize> {
        let get = api!(RedisModule_DefragCursorGet)?;
        let mut cursor: c_ulong = 0;
        // SAFETY: the context is alive by the contract of `new`, and `cursor` is a place for the number.
        let status = unsafe { get(self.context, ptr::from_mut(&mut cursor)) };
        if succeeded(status) { usize::try_from(cursor).ok() } else { None }
    }

    /// Saves the number of the block to continue with. Returns false if the server wants the value done in
    /// one call.
    fn set_cursor(&self, next: usize) -> bool {
        let (Some(set), Ok(cursor)) = (api!(RedisModule_DefragCursorSet), c_ulong::try_from(next)) else {
            return false;
        };
        // SAFETY: the context is alive by the contract of `new`.
        succeeded(unsafe { set(self.context, cursor) })
    }
}

impl BlockMover for DefragStep {
    fn move_vec<T>(&self, values: &mut Vec<T>) {
        let mut old = ManuallyDrop::new(std::mem::take(values));
        let (start, length, capacity) = (old.as_mut_ptr(), old.len(), old.capacity());
        let start = self.move_block(start, capacity).map_or(start, NonNull::as_ptr);
        // SAFETY: the parts are those of the old vector, which is not dropped. If its block was moved, the new block
        // has the same bytes and size, and the old block is freed.
        *values = unsafe { Vec::from_raw_parts(start, length, capacity) };
    }

    fn move_box<T>(&self, value: &mut Box<T>) {
        let Some(new) = self.move_block(ptr::from_mut(&mut **value), 1) else { return };
        // SAFETY: the new block has the bytes and the size of the box's block, which this module's allocator made for a
        // `T`.
        let new = unsafe { Box::from_raw(new.as_ptr()) };
        // The old block is freed, so the old box must not be dropped. Nothing since the move can unwind.
        // SAFETY: the place is a valid mutable reference.
        unsafe { ptr::write(value, new) };
    }
}
