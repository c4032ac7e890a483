//! What this server can do. A feature is found by what the server has and accepts, never by its version: every development
//! build of Redis and Valkey calls itself 255.255.255. Both have the same API, but each numbers new flags on its own.

use std::ffi::c_int;

use super::api::{self, Context};

/// Whether this is Valkey from 8.0 on, which has every function of the API under a second name. Valkey 7.2 has the API of
/// Redis 7.2, and no flag of its own.
pub(super) fn is_valkey() -> bool {
    type GetContextFlags = unsafe extern "C" fn(Context) -> c_int;
    // SAFETY: the type of the function under either name.
    unsafe { api::by_name::<GetContextFlags>(c"ValkeyModule_GetContextFlags") }.is_some()
}

/// Whether it is worth trying to register settings without the module's prefix, which Redis accepts from 8.0 on. The server
/// decides: a Redis 8.0 in development may refuse them. Two kinds of servers are not asked:
///
/// * Valkey, where trying proves nothing: 9.1 accepts the flag of such a name, and reads it as "a number without a sign".
/// * Redis 7, which writes a warning of its own into the log for a flag that it does not know, at every start. The marker
///   is a function that Redis got shortly before it got these names.
pub(super) fn may_accept_plain_names() -> bool {
    api!(RedisModule_RegisterDefragCallbacks).is_some() && !is_valkey()
}

/// Whether the server knows this module option, which must be one of Valkey's. Setting an option cannot fail, so trying
/// proves nothing, but Valkey returns the options that it knows. Redis does too, but may mean another option by the same
/// bit, so it is not asked.
pub(super) fn knows_option_of_valkey(option: u32) -> bool {
    type GetModuleOptionsAll = unsafe extern "C" fn() -> c_int;
    // SAFETY: the type of the function under either name; only Valkey has this one.
    let known = unsafe { api::by_name::<GetModuleOptionsAll>(c"ValkeyModule_GetModuleOptionsAll") };
    // SAFETY: no precondition.
    known.is_some_and(|known| unsafe { known() }.cast_unsigned() & option != 0)
}
