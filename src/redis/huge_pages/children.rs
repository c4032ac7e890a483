//! The children that the server forks to save: each has a claim of its own to every page until it ends.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use redis_module::raw;

use crate::redis::api::{Context, server_flags};

/// Children of the server that have ended: each time pages may have been split.
pub(super) static CHILDREN_ENDED: AtomicU32 = AtomicU32::new(0);
/// Whether a child that saves runs: what is joined meanwhile is copied, because the child has it too.
pub(super) static HAS_CHILD: AtomicBool = AtomicBool::new(false);

/// Asks the server to tell of its children.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(in crate::redis) unsafe fn watch(context: Context) {
    let Some(subscribe) = api!(RedisModule_SubscribeToServerEvent) else { return };
    let event = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_FORK_CHILD, dataver: 1 };
    // SAFETY: the context is OnLoad's by the caller's contract; the callback lives as long as the module.
    unsafe { subscribe(context, event, Some(on_child)) };
}

/// # Safety
/// Called by the server only.
unsafe extern "C" fn on_child(
    _context: Context,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    // What the server says at each event, not the event: it tells of the birth of a child for a debugger of scripts, which
    // may run beside another one, but of no such child's death. What is joined while one runs is copied.
    HAS_CHILD.store(server_flags() & raw::REDISMODULE_CTX_FLAGS_ACTIVE_CHILD != 0, Relaxed);
    if subevent == raw::REDISMODULE_SUBEVENT_FORK_CHILD_DIED {
        CHILDREN_ENDED.fetch_add(1, Relaxed);
    }
}
