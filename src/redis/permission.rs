//! Keys beside the first one, of which the server knows nothing: it does not say of them who may read them, nor whether they
//! are on this node of a cluster. So it is asked.
//!
//! That it be told by the flag `getkeys-api` is out of the question: it then calls the module from the threads that read from
//! clients (Valkey 8 and later in a cluster), as if it were the main thread, which ends the server.

use std::io;

use redis_module::raw::{self, RedisModuleString};

use super::api::{Context, server_flags};
use super::call::CallReply;
use crate::command::CommandError;

/// Whether the client may read `source` beside `first`, and both are in one slot where there are slots.
///
/// # Errors
/// As [`Keyspace::may_read`](crate::command::Keyspace::may_read).
///
/// # Safety
/// The context and both names must be those of the running command.
pub(super) unsafe fn may_read(
    context: Context,
    source: *mut RedisModuleString,
    first: *mut RedisModuleString,
) -> Result<(), CommandError> {
    // SAFETY: by the caller's word.
    let first_slot = unsafe { slot_of(context, first) };
    // SAFETY: by the caller's word.
    if unsafe { slot_of(context, source) } != first_slot {
        return Err(CommandError::SourceSlot);
    }
    let call = api!(RedisModule_Call).ok_or(CommandError::Internal)?;
    // As the client: `C`. The command reads next to nothing, and whatever type the key is of, the server looks first whether
    // that client may read it with this command and whether it is here.
    // SAFETY: by the caller's word; the format stands for a string of the server.
    let reply = unsafe { call(context, c"BF.CARD".as_ptr(), c"Cs".as_ptr(), source) };
    // Before anything else can fail.
    let refusal = io::Error::last_os_error();
    // SAFETY: the reply was just made, and its pointer is not used again.
    if unsafe { CallReply::new(reply) }.is_some() {
        return Ok(());
    }
    // Why the server did not run it, by its documentation of `RedisModule_Call`.
    match refusal.raw_os_error() {
        // There is no client: another module runs the command, or a timer of one.
        Some(libc::ENOTSUP) => Ok(()),
        Some(libc::EACCES) => Err(CommandError::SourceDenied),
        Some(libc::EPERM) => Err(CommandError::SourceMoving),
        _ => Err(CommandError::Internal),
    }
}

/// Returns whether a key that is not here may be on the node that the slot comes from or goes to: whether the server refuses to run a
/// command of its own that reads this key and `first`.
///
/// # Safety
/// The context must be that of the running command, and no key be open.
pub(super) unsafe fn may_be_migrating(context: Context, key: &[u8], first: &[u8]) -> bool {
    let Some(call) = api!(RedisModule_Call).filter(|_| is_cluster_node()) else { return false };
    let (name, format) = (c"EXISTS".as_ptr(), c"bb".as_ptr());
    // The call is made for the client, as far as the slot is concerned: whether it has sent ASKING counts. Not as the client, who may
    // not have EXISTS.
    // SAFETY: the context by the caller's contract; the format stands for two strings with their lengths.
    let reply = unsafe { call(context, name, format, first.as_ptr(), first.len(), key.as_ptr(), key.len()) };
    // Before anything else can fail.
    let refusal = io::Error::last_os_error();
    // SAFETY: the reply was just made, and its pointer is not used again.
    unsafe { CallReply::new(reply) }.is_none() && refusal.raw_os_error() == Some(libc::EPERM)
}

fn is_cluster_node() -> bool {
    server_flags() & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0
}

/// The slot of a key; none where the server is no node of a cluster.
///
/// # Safety
/// The context and the name must be those of the running command.
unsafe fn slot_of(context: Context, name: *mut RedisModuleString) -> Option<i64> {
    if !is_cluster_node() {
        return None;
    }
    let call = api!(RedisModule_Call)?;
    // SAFETY: by the caller's word; the format stands for a C string and a string of the server.
    let reply = unsafe { call(context, c"CLUSTER".as_ptr(), c"cs".as_ptr(), c"KEYSLOT".as_ptr(), name) };
    // SAFETY: the reply was just made, and its pointer is not used again.
    unsafe { CallReply::new(reply) }?.integer()
}
