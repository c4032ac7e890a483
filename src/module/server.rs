//! The properties of the server: what it supports, whether it replicates a command to this server, its clock and
//! random numbers, and how it exits.

use std::ffi::c_int;
use std::ptr;

use redis_module::raw;

use super::allocator;
use super::api::{self, Context};
use super::args::Argv;
use super::log;
use everbloom_command::error::quotable;
use everbloom_command::{Command, CommandError};
use everbloom_filter::hash::siphash::SEED_BYTES;

/// Returns whether this is Valkey from 8.0 on, which has every function of the API under a second name. Valkey 7.2
/// has the API of Redis 7.2, and nothing that distinguishes it.
fn is_valkey() -> bool {
    type GetContextFlags = unsafe extern "C" fn(Context) -> c_int;
    // SAFETY: this is the type of the function in the module API.
    unsafe { api::by_name::<GetContextFlags>(c"ValkeyModule_GetContextFlags") }.is_some()
}

/// Returns whether to try to register settings without the module's prefix, which Redis accepts from 8.0 on. The
/// server decides: a Redis 8.0 in development may refuse them. For two kinds of servers it is not tried:
///
/// * Valkey, where an attempt proves nothing: 9.1 accepts the flag, but takes it for that of an unsigned number.
/// * Redis 7, which logs a warning for an unknown flag at every start. It is recognized by the lack of a function that
///   Redis got shortly before these names.
pub(super) fn may_accept_plain_names() -> bool {
    api!(RedisModule_RegisterDefragCallbacks).is_some() && !is_valkey()
}

/// Returns those of some module options that the server supports, if it is a Valkey. Valkey has a function that returns the
/// options that it supports. Redis has one too, but the same bit may be another option there, so Redis is not queried.
/// Setting an unknown option does not fail, so trying it proves nothing.
pub(super) fn known_options_of_valkey(options: u32) -> u32 {
    type GetModuleOptionsAll = unsafe extern "C" fn() -> c_int;
    // SAFETY: this is the type of the function in Valkey's module API, the only one with this name.
    let known = unsafe { api::by_name::<GetModuleOptionsAll>(c"ValkeyModule_GetModuleOptionsAll") };
    // SAFETY: no precondition.
    known.map_or(0, |known| unsafe { known() }.cast_unsigned() & options)
}

/// Returns whether the command is replicated: from the primary, the append-only file, or the node that a slot migrates
/// from.
///
/// # Safety
/// `context` must be that of the running command.
pub(super) unsafe fn is_replicated(context: Context) -> bool {
    type MustObeyClient = unsafe extern "C" fn(Context) -> c_int;
    // SAFETY: the context is that of the running command, by the caller's contract.
    if is_from_primary_or_file(unsafe { api::context_flags(context) }) {
        return true;
    }
    // SAFETY: this is the type of the function in Valkey's module API, the only one that has it.
    let is_replicated = unsafe { api::by_name::<MustObeyClient>(c"RedisModule_MustObeyClient") };
    // SAFETY: the context is that of the running command.
    is_replicated.is_some_and(|is_replicated| unsafe { is_replicated(context) } != 0)
}

/// Returns whether the command is from the primary or the append-only file. A command from a node that a slot migrates
/// from may fail. The migration then ends, and that node keeps the slot and the filter.
///
/// # Safety
/// `context` must be that of the running command.
pub(super) unsafe fn must_succeed(context: Context) -> bool {
    // SAFETY: the context is that of the running command, by the caller's contract.
    let flags = unsafe { api::context_flags(context) };
    is_from_primary_or_file(flags) && !is_importing_slot(flags)
}

/// Returns whether the flags are those of a replicated command. Valkey also sets them for a slot migration.
fn is_from_primary_or_file(flags: u32) -> bool {
    flags & (raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING) != 0
}

/// Returns whether the command is from the node that a slot migrates from. Only the receiving primary sees this. For
/// its replicas and its append-only file the command is from the primary.
fn is_importing_slot(flags: u32) -> bool {
    // Only Valkey from 9.0 on has this flag, and the bindings lack it. In Redis from 8.0 on the bit means a debugging
    // build.
    const SLOT_IMPORT_CLIENT: u32 = 1 << 25;
    flags & SLOT_IMPORT_CLIENT != 0 && is_valkey()
}

/// Returns the start time of the command, in milliseconds of UNIX time. All commands of a script or a transaction
/// have the same time, except in Redis 7.0, which has only the current time.
pub(super) fn now_ms() -> u64 {
    if let Some(cached) = api!(RedisModule_CachedMicroseconds) {
        // SAFETY: no precondition.
        return u64::try_from(unsafe { cached() }).unwrap_or(0) / 1000;
    }
    // SAFETY: no precondition.
    let now_ms = api!(RedisModule_Milliseconds).map(|milliseconds| unsafe { milliseconds() });
    now_ms.and_then(|now_ms| u64::try_from(now_ms).ok()).unwrap_or(0)
}

/// Returns unpredictable bytes, for a seed or a key.
pub(super) fn random_seed() -> [u8; SEED_BYTES] {
    let mut seed = [0; SEED_BYTES];
    if let Some(random_bytes) = api!(RedisModule_GetRandomBytes) {
        // SAFETY: the server writes the given number of bytes, the length of the array.
        unsafe { random_bytes(seed.as_mut_ptr(), seed.len()) };
    }
    seed
}

pub(super) fn random_number() -> u64 {
    random_seed().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Exits with status 1 immediately, as the server's children do. No exit handler runs, because threads of the module
/// still use what the handlers would free. The log is complete, because the server flushes each line.
pub(super) fn exit_at_once() -> ! {
    // SAFETY: no precondition.
    unsafe { libc::_exit(1) }
}

/// Exits after a command from the primary or the append-only file has failed. Logs the key, the bytes sent and the
/// error.
///
/// Without the exit, a filter or a part of one would be missing, and lookups would give false negatives. The server
/// also exits if it lacks memory for such a command on its own types.
pub(super) fn exit_after(error: &CommandError, command: Command, argv: Argv<'_>) -> ! {
    let (key, sent_bytes) = argv.with_bytes(
        |arguments| {
            let key = quotable(arguments.first().copied().unwrap_or_default());
            (key, arguments.iter().map(|bytes| bytes.len()).sum::<usize>())
        },
        Default::default,
    );
    let name = command.spec().name.to_uppercase();
    let refused = match allocator::refused_bytes() {
        0 => String::new(),
        bytes => format!("; the last failed allocation had {bytes} bytes"),
    };
    log::warning(
        ptr::null_mut(),
        &format!(
            "everbloom: {name} from the primary or the append-only file failed for key '{key}' ({sent_bytes} bytes \
             sent): {error}{refused}. The server exits, because it would not find items that were added. Give it more \
             memory, or intact data."
        ),
    );
    // The exit is the same as for a file that the server cannot load: this is not a crash, so there is no crash report.
    exit_at_once()
}
