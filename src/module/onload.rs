//! The entry point of the module: registers everything, or logs why not and leaves the server unchanged.

use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use redis_module::raw::{self, RedisModuleString};

use super::api::{self, Context, ERR, OK, succeeded};
use super::args::Argv;
use super::{commands, config, datatype, huge_pages, log, memory, server, stats};

/// Name of the module.
const NAME: &CStr = c"bf";

/// The line in the log if a module with the same name is loaded already.
const NAME_TAKEN: &str = "a module named bf is loaded already: RedisBloom, valkey-bloom or another copy of everbloom. \
    A server can have only one. The line 'Module 'bf' loaded from' above shows its path, and in a running server also \
    MODULE LIST. Remove its loadmodule line or everbloom's";

/// The version that MODULE LIST shows, in `RedisBloom`'s form (8.2.0 is 80200): 8, because the commands and replies
/// are those of RedisBloom 8, followed by this release, as in 81302 for 1.3.2. docs/decisions/0011 has the reasons.
const VERSION: c_int = {
    let (major, minor, patch) = (
        number(env!("CARGO_PKG_VERSION_MAJOR")),
        number(env!("CARGO_PKG_VERSION_MINOR")),
        number(env!("CARGO_PKG_VERSION_PATCH")),
    );
    assert!(major < 10 && minor < 10 && patch < 100, "decide anew how MODULE LIST shows this version");
    80_000 + 1_000 * major + 100 * minor + patch
};

/// Returns the number that decimal digits represent.
const fn number(digits: &str) -> c_int {
    match c_int::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => 0,
    }
}

/// Whether the module is loaded. A loaded module stays, because servers do not unload modules with data types.
static IS_LOADED: AtomicBool = AtomicBool::new(false);

/// Loads the module. Fails if it is loaded already.
///
/// # Safety
/// Called by the server only, with a context for loading and `argc` load arguments at `argv`. The server calls it again
/// for a MODULE LOAD of the same file.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn RedisModule_OnLoad(
    context: Context,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    let status = if IS_LOADED.load(Relaxed) {
        // Filling in the API again is refused, because threads of the module may be reading it.
        ERR
    } else {
        // Nothing may be allocated before this call fills in the API, because the allocator of the module calls its
        // functions.
        // SAFETY: the context is the server's. The name is a C string that lives forever.
        unsafe {
            raw::Export_RedisModule_Init(
                context,
                NAME.as_ptr(),
                VERSION,
                raw::REDISMODULE_APIVER_1.cast_signed(),
            )
        }
    };
    let load = || {
        if !succeeded(status) {
            log::warning(context, NAME_TAKEN);
            return false;
        }
        // SAFETY: context and arguments are the server's, and are not used after this function returns.
        unsafe { load(context, argv, argc) }
    };
    match catch_unwind(AssertUnwindSafe(load)) {
        Ok(true) => {
            IS_LOADED.store(true, Relaxed);
            OK
        }
        Ok(false) | Err(_) => ERR,
    }
}

/// Registers everything. Steps that cannot fail come last, so that a module that fails to load leaves nothing behind.
///
/// # Safety
/// As [`RedisModule_OnLoad`], with the API filled in.
unsafe fn load(context: Context, argv: *mut *mut RedisModuleString, argc: c_int) -> bool {
    if let Some(name) = api::first_missing() {
        log::warning(
            context,
            &format!("this server has no {name}; Redis 7.0 or Valkey 7.2 or later is needed"),
        );
        return false;
    }
    log::report_panics();
    // The library may still have the settings of an earlier load that failed.
    config::reset();
    // SAFETY: the arguments are the server's. They are alive and do not change until OnLoad returns.
    let arguments = unsafe { Argv::new(argv, argc) };
    if let Err(line) = arguments.with_bytes(config::apply_arguments, || Err("out of memory".to_owned())) {
        log::warning(context, &line);
        return false;
    }
    let steps: [unsafe fn(Context) -> bool; 4] =
        [config::register, datatype::register, commands::register, stats::register];
    // SAFETY: the context is OnLoad's, which is all that a step requires.
    let registered = steps.into_iter().all(|step| unsafe { step(context) });
    if registered {
        let steps: [unsafe fn(Context); 4] = [set_options, memory::watch, huge_pages::watch, log::watch];
        // SAFETY: the context is OnLoad's, which is all that a step requires.
        steps.into_iter().for_each(|step| unsafe { step(context) });
    }
    registered
}

/// Sets the module's options.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
unsafe fn set_options(context: Context) {
    // `datatype` handles a damaged snapshot as an error.
    const OPTIONS: u32 = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        // `effects` signals keys, and only those that have changed.
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        // Filters do not depend on their database and key, so the server may load a second data set while it serves
        // the first.
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    // A filter may also arrive in chunks before its slot is served by this node. Without this option Valkey from 9.0
    // on refuses atomic slot migrations. The bindings lack this option.
    const HANDLE_ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;
    // Values are saved on another thread while commands read them, and a key that is being saved is not opened for writing
    // (docs/decisions/0033). Without this option Valkey from 9.2 on never saves without a fork. The bindings lack this option.
    const HANDLE_FORKLESS: u32 = 1 << 6;
    let Some(set_options) = api!(RedisModule_SetModuleOptions) else { return };
    let options = OPTIONS | server::known_options_of_valkey(HANDLE_ATOMIC_SLOT_MIGRATION | HANDLE_FORKLESS);
    // SAFETY: the context is OnLoad's by the caller's contract.
    unsafe { set_options(context, options.cast_signed()) };
}
