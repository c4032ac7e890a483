//! Limits on the memory of a filter that a command creates or the server loads.

use std::cell::OnceCell;
use std::ffi::CStr;
use std::panic::catch_unwind;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redis_module::raw::{self, RedisModuleIO};

use super::api::{CallReply, Context, Refusal, server_flags, subscribe};
use super::args::string_bytes;
use super::cgroup::MemoryCgroups;
use super::pace::Pace;
use super::{config, headroom};
use everbloom_filter::{ByteLimit, Limit, LimitSource};

/// The memory of the machine in bytes. Before it is read, there is no limit.
static SYSTEM_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);
/// The memory limit of the server's cgroup in bytes. If it has none, there is no limit.
static CGROUP_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);

/// Returns the largest size of a filter that a client may create: the least of `bf.max-filter-bytes`, `maxmemory`, the
/// memory limit of the cgroup and the memory of the machine.
pub(super) fn client_limit() -> Limit {
    let maxmemory = Limit { bytes: headroom::maxmemory_bytes(), source: LimitSource::MaxMemory };
    Limit::from(config::settings().max_filter_bytes).min(maxmemory).min(machine_limit())
}

/// Returns whether `limit` comes from the cgroup and was read again. If it was raised since it was read, a filter would be
/// refused for the old number. Takes tens of microseconds, so callers do it before a refusal only.
pub(super) fn was_read_again(limit: Limit) -> bool {
    static READING: Pace = Pace::new();
    let read = || CGROUP_BYTES.store(headroom::limit_bytes().unwrap_or(u64::MAX), Relaxed);
    limit.source == LimitSource::Cgroup && READING.run(read).is_some()
}

/// Returns the memory that the server can get, the maximum for filters from any origin: that of the machine, or less if
/// the server is in a container.
fn machine_limit() -> Limit {
    let cgroup = Limit { bytes: CGROUP_BYTES.load(Relaxed), source: LimitSource::Cgroup };
    Limit { bytes: SYSTEM_BYTES.load(Relaxed), source: LimitSource::Machine }.min(cgroup)
}

/// Returns whether the server has reached `maxmemory`.
pub(super) fn is_short() -> bool {
    is_above(1.0)
}

/// Returns whether the server is above `maxmemory` by more than what its commands take after it has made room for them.
pub(super) fn is_very_short() -> bool {
    is_above(1.01)
}

fn is_above(share: f32) -> bool {
    // SAFETY: no precondition. The result is 0 if there is no limit.
    api!(RedisModule_GetUsedMemoryRatio).is_some_and(|ratio| unsafe { ratio() } >= share)
}

/// Reads the limits, and subscribes to changes of the server's configuration. Without that event, which is newer than
/// the first release candidates of Redis 7.0, the limits are read only at load.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn watch(context: Context) {
    headroom::count_reserved();
    refresh();
    // SAFETY: the context is OnLoad's by the caller's contract, and this is a callback of such events.
    unsafe { subscribe(context, raw::REDISMODULE_EVENT_CONFIG, Some(on_config_change)) };
}

/// # Safety
/// Called by the server only.
unsafe extern "C" fn on_config_change(
    _context: Context,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    _data: *mut std::ffi::c_void,
) {
    // The panic hook has logged a panic.
    let _ = catch_unwind(refresh);
}

/// Reads `maxmemory` and the memory of the machine from INFO, and finds the cgroups of the server. Takes tens of
/// microseconds.
fn refresh() {
    let cgroups = MemoryCgroups::of_process(Path::new("/"));
    CGROUP_BYTES.store(cgroups.limit_bytes().unwrap_or(u64::MAX), Relaxed);
    let [maxmemory, system] = memory_info();
    SYSTEM_BYTES.store(system.unwrap_or(u64::MAX), Relaxed);
    headroom::watch(cgroups, maxmemory.unwrap_or(u64::MAX));
}

/// Returns `maxmemory` and the memory of the machine from INFO; `None` if they are unknown, or there is no `maxmemory`.
fn memory_info() -> [Option<u64>; 2] {
    let (Some(server_info), Some(free)) = (api!(RedisModule_GetServerInfo), api!(RedisModule_FreeServerInfo))
    else {
        return [None; 2];
    };
    // SAFETY: the server allows a null context, because it uses the context for automatic freeing only. The section is a
    // C string.
    let info = unsafe { server_info(ptr::null_mut(), c"memory".as_ptr()) };
    // SAFETY: `info` was just made and is freed only below.
    let maxmemory = unsafe { field(info, c"maxmemory") };
    // SAFETY: `info` was just made and is freed only below.
    let system = unsafe { field(info, c"total_system_memory") };
    // SAFETY: `info` was made with this context and is not used again.
    unsafe { free(ptr::null_mut(), info) };
    [maxmemory, system]
}

/// Returns a number of INFO; `None` if it is zero or missing.
///
/// # Safety
/// `info` must be what `GetServerInfo` returned, not yet freed.
unsafe fn field(info: *mut raw::RedisModuleServerInfoData, name: &CStr) -> Option<u64> {
    let get = api!(RedisModule_ServerInfoGetFieldUnsigned)?;
    let mut error = 0;
    // SAFETY: `info` is alive by the caller's contract, the name is a C string, `error` a place for the status.
    let value = unsafe { get(info, name.as_ptr(), ptr::from_mut(&mut error)) };
    (error == 0 && value != 0).then_some(value)
}

/// The limit for a value that is loaded from a file, from the primary, from another node of the cluster, or by RESTORE
/// of a client. `bf.max-filter-bytes` applies only to clients. The other sources have existing data, which a refusal
/// would lose.
pub(super) struct LoadLimit {
    io: *mut RedisModuleIO,
    /// Whether the value may come from a client: this is a primary that is not loading its own file.
    may_be_from_client: bool,
    /// Whether this node serves the key of the value. It is determined when it is first needed.
    is_served: OnceCell<bool>,
}

impl LoadLimit {
    /// # Safety
    /// `io` must be the server's, and the value must not outlive the callback that `io` was given to.
    pub(super) unsafe fn new(io: *mut RedisModuleIO) -> Self {
        let trusted = raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_SLAVE;
        let may_be_from_client = server_flags() & trusted == 0;
        Self { io, may_be_from_client, is_served: OnceCell::new() }
    }
}

impl ByteLimit for LoadLimit {
    /// Returns whether the value comes from a client, not from another node of the cluster that migrates its slot.
    /// That node sends RESTORE as clients do. But this node serves the slot only after the migration, and until then
    /// clients cannot write to the key.
    fn is_from_client(&self) -> bool {
        self.may_be_from_client
            && (server_flags() & raw::REDISMODULE_CTX_FLAGS_CLUSTER == 0
                // SAFETY: `self.io` is alive by the contract of `new`.
                || *self.is_served.get_or_init(|| unsafe { serves_key_of(self.io) } == Some(true)))
    }

    fn limit(&self) -> Limit {
        if self.is_from_client() { client_limit() } else { machine_limit() }
    }

    fn limit_again(&self, limit: Limit) -> Limit {
        if was_read_again(limit) { self.limit() } else { limit }
    }

    /// Checks the limit for clients first. A size within it is permitted for every origin, so the call of the server
    /// that determines the origin is omitted.
    fn permits(&self, needed_bytes: u64) -> Result<(), Limit> {
        let fits_clients = needed_bytes <= client_limit().bytes;
        let limit = if fits_clients { return Ok(()) } else { self.limit() };
        let limit = if needed_bytes > limit.bytes { self.limit_again(limit) } else { return Ok(()) };
        if needed_bytes > limit.bytes { Err(limit) } else { Ok(()) }
    }
}

/// Returns whether this node of the cluster serves the key of the value; `None` if the key is unknown. If the node does
/// not serve the key, the server refuses to call a command with it.
///
/// # Safety
/// `io` must be the server's, within the running callback.
unsafe fn serves_key_of(io: *mut RedisModuleIO) -> Option<bool> {
    let (key_name, call) = (api!(RedisModule_GetKeyNameFromIO)?, api!(RedisModule_Call)?);
    let get_context = api!(RedisModule_GetThreadSafeContext)?;
    let free_context = api!(RedisModule_FreeThreadSafeContext)?;
    // SAFETY: `io` is alive by the caller's contract.
    let key = NonNull::new(unsafe { key_name(io) }.cast_mut())?;
    // SAFETY: the key is alive and does not change as long as `io` lives.
    let key = unsafe { string_bytes(key.as_ptr()) };
    // A call needs a context with a client, which the context of `io` does not have.
    // SAFETY: null means that no client is blocked. This is the main thread, which holds the server's lock.
    let context = unsafe { get_context(ptr::null_mut()) };
    // SAFETY: the context was just made. The format stands for a key with its length.
    let reply = unsafe { call(context, c"EXISTS".as_ptr(), c"b".as_ptr(), key.as_ptr(), key.len()) };
    // SAFETY: the context is alive. The reply was just made, and its pointer is not used again.
    let outcome = unsafe { CallReply::or_refusal(context, reply) };
    // If the server refuses all calls, the value is taken for that of a client: the limit holds, and a node that
    // migrates the slot keeps a larger value.
    let is_served = matches!(outcome, Ok(_) | Err(Refusal::AllCalls));
    // SAFETY: the context was made here and is not used again.
    unsafe { free_context(context) };
    Some(is_served)
}
