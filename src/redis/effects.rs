//! What follows a change: the new filter in its place, replication, signals and events.

use std::ffi::CStr;
use std::ptr;

use redis_module::raw::{self, RedisModuleString};

use super::api::{Context, succeeded};
use super::args::string_bytes;
use super::claim::Claims;
use super::key::Key;
use super::log::{self, Topic};
use super::moment;
use super::stats;
use crate::command::table::KeyAccess;
use crate::command::{Command, Effects, Line, OpenKey, Replication, Slot, growth_line};

/// Shown to clients that watch keyspace events when a filter is created.
const CREATED: &CStr = c"bloom.reserve";
/// Shown to clients that watch keyspace events when items are added.
const ADDED: &CStr = c"bloom.add";
/// Shown to clients that watch keyspace events when a filter has grown.
const GROWN: &CStr = c"bloom.grow";

/// Shown to clients that watch keyspace events when a filter is emptied.
const CLEARED: &CStr = c"bloom.clear";

/// Shown to clients that watch keyspace events when other filters are merged into one.
const MERGED: &CStr = c"bloom.merge";
/// Shown to clients that watch keyspace events when items are deleted.
const DELETED: &CStr = c"bloom.del";
/// Shown, as by the server's own commands, when a key is given a time to live.
const EXPIRES: &CStr = c"expire";

/// Carries out the effects of `command`, whose first key has the name `name`.
///
/// # Safety
/// `context` and `name` must be those of the running command, and the key must not be open.
#[inline(always)]
pub(super) unsafe fn carry_out(
    command: Command,
    effects: Effects<'_>,
    context: Context,
    name: *mut RedisModuleString,
) {
    stats::count_items(command, &effects);
    if effects.replication == Replication::None {
        return;
    }
    // SAFETY: by the caller's contract.
    unsafe { tell(command, effects, context, name) };
}

/// Tells replicas, the append-only file and clients that watch the key what has changed.
///
/// # Safety
/// As [`carry_out`].
unsafe fn tell(command: Command, effects: Effects<'_>, context: Context, name: *mut RedisModuleString) {
    match effects.replication {
        Replication::None => {}
        Replication::Verbatim => {
            // SAFETY: the context is that of the running command.
            let status = api!(RedisModule_ReplicateVerbatim).map(|replicate| unsafe { replicate(context) });
            if !status.is_some_and(succeeded) {
                warn_of_replication(context, command.spec().name);
            }
        }
        Replication::Rewritten(lines) => {
            for line in &lines {
                // SAFETY: the context is that of the running command.
                unsafe { replicate(context, line) };
            }
        }
    }
    if let Some(signal) = api!(RedisModule_SignalModifiedKey) {
        // SAFETY: context and name are those of the running command.
        unsafe { signal(context, name) };
    }
    if effects.created {
        // SAFETY: context and name are those of the running command.
        unsafe { notify(context, CREATED, name) };
    }
    if effects.merged {
        // SAFETY: context and name are those of the running command.
        unsafe { notify(context, MERGED, name) };
    }
    if effects.expires {
        // SAFETY: context and name are those of the running command.
        unsafe { notify(context, EXPIRES, name) };
    }
    if effects.cleared {
        // SAFETY: context and name are those of the running command.
        unsafe { notify(context, CLEARED, name) };
    }
    if effects.items_added > 0 {
        // SAFETY: context and name are those of the running command.
        unsafe { notify(context, ADDED, name) };
    }
    if effects.items_deleted > 0 {
        // SAFETY: context and name are those of the running command.
        unsafe { notify(context, DELETED, name) };
    }
    if effects.layers_added > 0 {
        // SAFETY: context and name are those of the running command.
        unsafe { tell_of_growth(effects.layers_added, context, name) };
    }
}

/// # Safety
/// As [`carry_out`].
#[cold]
unsafe fn tell_of_growth(layers_added: u32, context: Context, name: *mut RedisModuleString) {
    // SAFETY: context and name are those of the running command.
    unsafe { notify(context, GROWN, name) };
    stats::count_growth(layers_added);
    // Whoever sent it there has been told.
    // SAFETY: the context is that of the running command.
    if unsafe { moment::must_obey(context) } {
        return;
    }
    let claims = Claims::none();
    let Some(claim) = claims.claim_only() else { return };
    // SAFETY: context and name are those of the running command, and no key is open, by the caller's
    // contract.
    let mut key = unsafe { Key::open(context, name, KeyAccess::ReadOnly, claim) };
    if let Slot::Filter(filter) = key.slot() {
        // SAFETY: the name is alive and stays as it is while the command runs.
        let line = growth_line(unsafe { string_bytes(name) }, filter, layers_added);
        line.iter().for_each(|line| log::throttled(Topic::Growing, context, line));
    }
}

/// Sends a command to the replicas and to the append-only file.
///
/// # Safety
/// `context` must be that of the running command.
unsafe fn replicate(context: Context, line: &Line<'_>) {
    let (Some(replicate), Some(create), Some(free)) =
        (api!(RedisModule_Replicate), api!(RedisModule_CreateString), api!(RedisModule_FreeString))
    else {
        return;
    };
    let command = log::c_text(line.command);
    let strings: Vec<*mut RedisModuleString> = line
        .arguments
        .iter()
        .map(|argument| {
            // SAFETY: no context is needed; the bytes are copied.
            unsafe { create(ptr::null_mut(), argument.as_ptr().cast(), argument.len()) }
        })
        .collect();
    // SAFETY: the context is that of the running command; the format `v` stands for an array of strings and
    // its length, a `size_t`. The server takes references of its own.
    let status =
        unsafe { replicate(context, command.as_ptr(), c"v".as_ptr(), strings.as_ptr(), strings.len()) };
    if !succeeded(status) {
        warn_of_replication(context, line.command);
    }
    for string in strings {
        // SAFETY: made above without a context, and not used again.
        unsafe { free(ptr::null_mut(), string) };
    }
}

/// The change is made and the client is told so; what is left is to say that nobody else has it.
#[cold]
fn warn_of_replication(context: Context, command: &str) {
    let text = format!("{command}; replicas and the append-only file lack what it did");
    log::throttled(Topic::Replicating, context, &text);
}

/// # Safety
/// `context` and `name` must be those of the running command.
unsafe fn notify(context: Context, event: &CStr, name: *mut RedisModuleString) {
    let Some(notify) = api!(RedisModule_NotifyKeyspaceEvent) else { return };
    // SAFETY: context and name are alive by the caller's word, the event is a C string.
    unsafe { notify(context, raw::REDISMODULE_NOTIFY_GENERIC, event.as_ptr(), name) };
}
