//! How much memory a filter may take that is loaded: from a file, from the primary, from another node of the
//! cluster, or by a client that sends RESTORE. Only the client is held to what clients may make: the others
//! bring what is there already, and to refuse it would be to lose it.

use std::cell::OnceCell;
use std::ptr;

use redis_module::raw::{self, RedisModuleIO};

use super::api::server_flags;
use super::call::CallReply;
use super::memory::{client_limit_bytes, system_bytes};
use crate::bloom::ByteLimit;

/// The limit of one value that is being loaded.
pub(super) struct LoadLimit {
    io: *mut RedisModuleIO,
    /// Whether it may be a client's: this is a primary that is not loading its own file.
    may_be_a_clients: bool,
    /// Whether this node serves the value's key; asked when it matters.
    is_served: OnceCell<bool>,
}

impl LoadLimit {
    /// # Safety
    /// `io` must be the server's, and the value must not outlive the callback that `io` was given to.
    pub(super) unsafe fn new(io: *mut RedisModuleIO) -> Self {
        let obeyed = raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_SLAVE;
        let may_be_a_clients = server_flags() & obeyed == 0;
        Self { io, may_be_a_clients, is_served: OnceCell::new() }
    }

    /// Whether the value comes from a client: unless it is moved here from another node of the cluster. That
    /// node sends RESTORE as any client does; but this one does not serve the slot before it has all of it,
    /// so that otherwise no client could write to the key.
    fn is_a_clients(&self) -> bool {
        self.may_be_a_clients
            && (server_flags() & raw::REDISMODULE_CTX_FLAGS_CLUSTER == 0
                // SAFETY: `self.io` is alive by the contract of `new`.
                || *self.is_served.get_or_init(|| unsafe { serves_key_of(self.io) }))
    }
}

impl ByteLimit for LoadLimit {
    fn max_filter_bytes(&self) -> u64 {
        system_bytes()
    }

    fn permits(&self, needed_bytes: u64) -> Result<(), u64> {
        let system_bytes = system_bytes();
        if needed_bytes > system_bytes {
            return Err(system_bytes);
        }
        if !self.may_be_a_clients {
            return Ok(());
        }
        // SAFETY: a null context is allowed.
        let limit_bytes = unsafe { client_limit_bytes(ptr::null_mut()) };
        if needed_bytes > limit_bytes && self.is_a_clients() { Err(limit_bytes) } else { Ok(()) }
    }
}

/// Whether a client of this cluster's node may reach the key of the value. The server refuses the call of a
/// command whose key is in a slot of another node.
///
/// # Safety
/// `io` must be the server's, within the running callback.
unsafe fn serves_key_of(io: *mut RedisModuleIO) -> bool {
    let (Some(key_name), Some(string_ptr_len)) =
        (api!(RedisModule_GetKeyNameFromIO), api!(RedisModule_StringPtrLen))
    else {
        return false;
    };
    let (Some(get_context), Some(free_context)) =
        (api!(RedisModule_GetThreadSafeContext), api!(RedisModule_FreeThreadSafeContext))
    else {
        return false;
    };
    let Some(call) = api!(RedisModule_Call) else { return false };
    // SAFETY: `io` is alive by the caller's contract.
    let key = unsafe { key_name(io) };
    if key.is_null() {
        return false;
    }
    let mut length = 0;
    // SAFETY: the key is alive as long as `io`; `length` is a place for its length.
    let start = unsafe { string_ptr_len(key, &raw mut length) };
    // The context of a value that is loaded has no client, and a call needs one.
    // SAFETY: no client is blocked: null. This is the main thread, which holds the server's lock.
    let context = unsafe { get_context(ptr::null_mut()) };
    // SAFETY: the context was just made; the format stands for a key with its length.
    let reply = unsafe { call(context, c"EXISTS".as_ptr(), c"b".as_ptr(), start, length) };
    // SAFETY: the reply was just made, and its pointer is not used again.
    let is_served = unsafe { CallReply::new(reply) }.is_some();
    // SAFETY: the context was made here and is not used again.
    unsafe { free_context(context) };
    is_served
}
