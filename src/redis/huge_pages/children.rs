//! The children that the server forks to save. A child shares every page with the server until it ends.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use redis_module::raw;

use crate::redis::api::{Context, server_flags};

/// The number of children that have ended. The system may have split pages during the life of each.
pub(super) static CHILDREN_ENDED: AtomicU32 = AtomicU32::new(0);
/// Whether a child that saves runs. To collapse a page that it shares would copy the page.
pub(super) static HAS_CHILD: AtomicBool = AtomicBool::new(false);

/// Subscribes to the server's events about its children.
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
    // The server's flags, not the subevent: the child of a script debugger has an event for its birth and none for its end.
    HAS_CHILD.store(server_flags() & raw::REDISMODULE_CTX_FLAGS_ACTIVE_CHILD != 0, Relaxed);
    if subevent == raw::REDISMODULE_SUBEVENT_FORK_CHILD_DIED {
        CHILDREN_ENDED.fetch_add(1, Relaxed);
    }
}
