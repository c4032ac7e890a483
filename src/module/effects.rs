//! Applies the effects of a command: replication, signals, keyspace events.

use std::borrow::Cow;
use std::ffi::CStr;
use std::ptr;
use std::sync::Mutex;

use redis_module::raw::{self, RedisModuleString};

use super::api::{Context, succeeded};
use super::args::{Argv, string_bytes};
use super::key::KeyToRead;
use super::log;
use super::{server, stats};
use everbloom_command::table::KeyAccess;
use everbloom_command::{
    Command, Effects, KeyValue, ReadKey, Refusals, ReplicatedCommand, Replication, growth_line, import_line,
};
use everbloom_filter::{AddError, Filter};

/// Memory for replicated commands is preallocated only if the running command has more arguments than this.
const FEW_ARGUMENTS: usize = 1024;
/// The most arguments that a replicated command has in addition to those of the running command.
const MORE_ARGUMENTS: usize = 64;

/// Memory for the arguments of a replicated command.
#[derive(Default)]
pub(super) struct Strings(Vec<*mut RedisModuleString>);

impl Strings {
    /// Allocates memory for the replicated commands of a command with `arguments` arguments. Returns false if there is
    /// not enough memory. The command must be refused then, because it cannot be refused after it has changed a filter.
    #[inline(always)]
    pub(super) fn reserve(&mut self, command: Command, arguments: usize) -> bool {
        let needs_memory = arguments > FEW_ARGUMENTS && command.spec().key_access == KeyAccess::ReadWrite;
        !needs_memory || self.0.try_reserve_exact(arguments.saturating_add(MORE_ARGUMENTS)).is_ok()
    }
}

/// Applies the effects of `command`, whose arguments are `argv`. The first argument is the name of the key.
///
/// # Safety
/// `context` and `argv` must be those of the running command, and the key must not be open.
#[inline(always)]
pub(super) unsafe fn carry_out(
    command: Command,
    effects: Effects<'_>,
    context: Context,
    argv: Argv<'_>,
    strings: &mut Strings,
) {
    stats::count_items(command, &effects);
    if let (Some(error), Some(name)) = (effects.refused, argv.string(0)) {
        // SAFETY: context and name are those of the running command, by the caller's contract.
        unsafe { log_refusal(error, context, name) };
    }
    if effects.replication == Replication::None {
        return;
    }
    if let Some(name) = argv.string(0) {
        // SAFETY: context and arguments are those of the running command, and the key is not open, by the caller's
        // contract.
        unsafe { publish(command, effects, context, name, argv, strings) };
    }
}

/// Replicates a change, signals the key as modified, and notifies keyspace events.
///
/// # Safety
/// As [`carry_out`].
unsafe fn publish(
    command: Command,
    effects: Effects<'_>,
    context: Context,
    name: *mut RedisModuleString,
    argv: Argv<'_>,
    strings: &mut Strings,
) {
    match effects.replication {
        Replication::None => {}
        Replication::Verbatim => {
            // SAFETY: the context is that of the running command.
            let status = api!(RedisModule_ReplicateVerbatim).map(|replicate| unsafe { replicate(context) });
            if !status.is_some_and(succeeded) {
                warn_of_replication(context, command.spec().name);
            }
        }
        Replication::Rewritten(commands) => {
            for command in &commands {
                // SAFETY: context and arguments are those of the running command.
                unsafe { replicate(context, command, argv, strings) };
            }
        }
    }
    if let Some(signal) = api!(RedisModule_SignalModifiedKey) {
        // SAFETY: context and name are those of the running command.
        unsafe { signal(context, name) };
    }
    let notify = api!(RedisModule_NotifyKeyspaceEvent);
    let notify_if = |has_happened: bool, event: &CStr| {
        if has_happened && let Some(notify) = notify {
            // SAFETY: context and name are those of the running command. The event is a C string.
            unsafe { notify(context, raw::REDISMODULE_NOTIFY_GENERIC, event.as_ptr(), name) };
        }
    };
    notify_if(effects.created, c"bloom.reserve");
    notify_if(effects.merged, c"bloom.merge");
    notify_if(effects.expires, c"expire");
    notify_if(effects.cleared, c"bloom.clear");
    notify_if(effects.items_added > 0, c"bloom.add");
    notify_if(effects.items_deleted > 0, c"bloom.del");
    notify_if(effects.layers_added > 0, c"bloom.grow");
    if effects.layers_added > 0 {
        stats::GROWTHS.add(effects.layers_added.into());
        let line = |key: &[u8], filter: &Filter| growth_line(key, filter, effects.layers_added);
        // SAFETY: context and name are those of the running command, and the key is not open, by the caller's contract.
        unsafe { log_about(&log::GROWING, context, name, line) };
    }
    if command == Command::Import {
        // SAFETY: context and name are those of the running command, and the key is not open, by the caller's contract.
        unsafe { log_about(&log::IMPORTING, context, name, import_line) };
    }
}

/// Logs the line that `line` returns for the filter under a key, but not for a replicated command, because the primary
/// has logged it.
///
/// # Safety
/// As [`carry_out`].
#[cold]
unsafe fn log_about(
    topic: &log::Topic,
    context: Context,
    name: *mut RedisModuleString,
    line: impl FnOnce(&[u8], &Filter) -> Option<String>,
) {
    // SAFETY: the context is that of the running command.
    if unsafe { server::is_replicated(context) } {
        return;
    }
    // SAFETY: context and name are those of the running command, and no key is open, by the caller's
    // contract.
    let key = unsafe { KeyToRead::open(context, name) };
    if let KeyValue::Present(filter) = key.slot() {
        // SAFETY: the name is alive and stays as it is while the command runs.
        let line = line(unsafe { string_bytes(name) }, filter);
        line.iter().for_each(|line| log::throttled(topic, context, line));
    }
}

/// The filters that refused items lately.
static REFUSALS: Mutex<Refusals> = Mutex::new(Refusals::new());

/// Logs that a filter has no room for new items, but not for a replicated command, because the primary has logged it.
///
/// # Safety
/// `context` and `name` must be those of the running command.
#[cold]
unsafe fn log_refusal(error: AddError, context: Context, name: *mut RedisModuleString) {
    // SAFETY: the context is that of the running command.
    if unsafe { server::is_replicated(context) } {
        return;
    }
    // SAFETY: the context is that of the running command.
    let database = api!(RedisModule_GetSelectedDb).map_or(0, |database| unsafe { database(context) });
    // SAFETY: the name is alive and stays as it is while the command runs.
    let key = unsafe { string_bytes(name) };
    let refusals = REFUSALS.try_lock().ok();
    let line = refusals.and_then(|mut refusals| {
        refusals.line(database.cast_unsigned().into(), key, error, server::now_ms())
    });
    line.iter().for_each(|line| log::throttled(&log::REFUSING, context, line));
}

/// Arguments of the running command with at least this size are replicated without a copy. A batch may have hundreds of
/// megabytes, and a server exits if it has no memory for a copy.
const SHARED_MIN_BYTES: usize = 4096;

/// Sends a command to the replicas and to the append-only file.
///
/// # Safety
/// `context` and `argv` must be those of the running command.
unsafe fn replicate(
    context: Context,
    command: &ReplicatedCommand<'_>,
    argv: Argv<'_>,
    Strings(strings): &mut Strings,
) {
    let (Some(replicate), Some(create), Some(retain), Some(free)) = (
        api!(RedisModule_Replicate),
        api!(RedisModule_CreateString),
        api!(RedisModule_RetainString),
        api!(RedisModule_FreeString),
    ) else {
        return;
    };
    let command_name = log::c_text(command.command);
    // The replicated command keeps the order of the running command's arguments. So the search for an argument begins
    // after the last found one.
    let mut rest = argv;
    strings.clear();
    strings.extend(command.arguments.iter().map(|argument| {
        if let Cow::Borrowed(bytes) = argument
            && bytes.len() >= SHARED_MIN_BYTES
            && let Some((string, others)) = rest.find(bytes)
        {
            rest = others;
            // SAFETY: no context is needed. The string is an argument of the running command, so it is alive.
            unsafe { retain(ptr::null_mut(), string) };
            return string;
        }
        // SAFETY: no context is needed. The bytes are copied.
        unsafe { create(ptr::null_mut(), argument.as_ptr().cast(), argument.len()) }
    }));
    // SAFETY: the context is that of the running command. The format `v` stands for an array of strings and its length
    // as a `size_t`. The server retains the strings that it keeps.
    let status =
        unsafe { replicate(context, command_name.as_ptr(), c"v".as_ptr(), strings.as_ptr(), strings.len()) };
    if !succeeded(status) {
        warn_of_replication(context, command.command);
    }
    for string in strings.drain(..) {
        // SAFETY: the string was made or retained above without a context, and is not used again.
        unsafe { free(ptr::null_mut(), string) };
    }
}

/// Logs that a command was not replicated. It is too late to refuse it: the filter has changed, and the client has
/// its reply.
#[cold]
fn warn_of_replication(context: Context, command: &str) {
    let text = format!(
        "{command}; replicas and the append-only file lack its changes: synchronise the replicas and run BGREWRITEAOF"
    );
    log::throttled(&log::REPLICATING, context, &text);
}
