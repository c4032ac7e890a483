//! How much memory a filter may take that a command makes.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use redis_module::raw;

use super::api::Context;
use super::config;

/// The memory of the machine in bytes; no limit until the server has said.
static SYSTEM_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);
/// The server's `maxmemory` in bytes; no limit when it is not set.
static MAXMEMORY_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);
/// Whether the server's configuration has changed since `MAXMEMORY_BYTES` was read. Asking costs tens of
/// microseconds, too much for every new filter.
static IS_STALE: AtomicBool = AtomicBool::new(true);

/// The most bytes of a filter that a client makes: as configured, and no more than the memory there is.
///
/// # Safety
/// `context` must be alive, or null.
pub(super) unsafe fn client_limit_bytes(context: Context) -> u64 {
    if IS_STALE.swap(false, Relaxed) {
        // SAFETY: the context is alive or null by the caller's word.
        unsafe { refresh(context) };
    }
    let memory_bytes = MAXMEMORY_BYTES.load(Relaxed).min(system_bytes());
    config::settings().max_filter_bytes.min(memory_bytes)
}

/// The memory of the machine in bytes: no filter is larger, wherever it comes from.
pub(super) fn system_bytes() -> u64 {
    SYSTEM_BYTES.load(Relaxed)
}

/// Whether the server has as much memory as it may have (`maxmemory`) or more. Asks the server.
pub(super) fn is_short() -> bool {
    // SAFETY: no precondition; zero where there is no limit.
    api!(RedisModule_GetUsedMemoryRatio).is_some_and(|ratio| unsafe { ratio() } >= 1.0)
}

/// Asks the server for the limits, and to be told when its configuration changes. Without the event, which is
/// newer than Redis 7.0's first release candidates, `maxmemory` stays as it was at load.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn watch(context: Context) {
    // SAFETY: the context is alive by the caller's word.
    unsafe { refresh(context) };
    IS_STALE.store(false, Relaxed);
    let Some(subscribe) = api!(RedisModule_SubscribeToServerEvent) else { return };
    let event = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_CONFIG, dataver: 1 };
    // SAFETY: the context is OnLoad's by the caller's word; the callback lives as long as the module.
    unsafe { subscribe(context, event, Some(on_config_change)) };
}

/// # Safety
/// Called by the server only.
unsafe extern "C" fn on_config_change(
    _context: Context,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    _data: *mut std::ffi::c_void,
) {
    IS_STALE.store(true, Relaxed);
}

/// Reads both memory sizes from INFO.
///
/// # Safety
/// `context` must be alive, or null.
unsafe fn refresh(context: Context) {
    let (Some(server_info), Some(free)) = (api!(RedisModule_GetServerInfo), api!(RedisModule_FreeServerInfo))
    else {
        return;
    };
    // SAFETY: the context, alive by the caller's word, or null, which the server allows, is for automatic
    // freeing only; the section is a C string.
    let info = unsafe { server_info(context, c"memory".as_ptr()) };
    // SAFETY: `info` was just made and is freed only below.
    let maxmemory = unsafe { field(info, c"maxmemory") };
    // SAFETY: `info` was just made and is freed only below.
    let system = unsafe { field(info, c"total_system_memory") };
    // SAFETY: `info` was made with this context and is not used again.
    unsafe { free(context, info) };
    MAXMEMORY_BYTES.store(maxmemory.unwrap_or(u64::MAX), Relaxed);
    SYSTEM_BYTES.store(system.unwrap_or(u64::MAX), Relaxed);
}

/// A number of INFO that is not zero.
///
/// # Safety
/// `info` must be what `GetServerInfo` answered, not yet freed.
unsafe fn field(info: *mut raw::RedisModuleServerInfoData, name: &CStr) -> Option<u64> {
    let get = api!(RedisModule_ServerInfoGetFieldUnsigned)?;
    let mut error = 0;
    // SAFETY: `info` is alive by the caller's word, the name is a C string, `error` a place for the status.
    let value = unsafe { get(info, name.as_ptr(), ptr::from_mut(&mut error)) };
    (error == 0 && value != 0).then_some(value)
}
