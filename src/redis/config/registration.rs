//! Registration of the settings with the server, and the callbacks that read and write them.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use redis_module::raw::{self, RedisModuleString};

use super::SETTINGS;
use super::setting::{BadValue, IS_LOADING, Kind, Setting, new_string};
use crate::redis::api::{Context, ERR, OK, succeeded};
use crate::redis::args::string_bytes;
use crate::redis::{log, server};

/// Registers every setting and makes the server set the configured values. Returns false, with a line in the log, if
/// a name is taken or a configured value is invalid. The module must not load then.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(in crate::redis) unsafe fn register(context: Context) -> bool {
    for setting in &SETTINGS {
        // SAFETY: the context is OnLoad's by the caller's contract.
        if !unsafe { register_name(context, setting, setting.dotted, 0) } {
            let name = setting.dotted.to_string_lossy();
            log::warning(
                context,
                &format!("cannot register the setting {name}: another module may have this name"),
            );
            return false;
        }
    }
    if server::may_accept_plain_names() {
        // SAFETY: the context is OnLoad's by the caller's contract.
        unsafe { register_plain_names(context) };
    }
    let Some(load_configs) = api!(RedisModule_LoadConfigs) else { return false };
    IS_LOADING.store(true, Relaxed);
    // SAFETY: the context is OnLoad's by the caller's contract.
    let status = unsafe { load_configs(context) };
    IS_LOADING.store(false, Relaxed);
    if !succeeded(status) {
        log::warning(
            context,
            "the module is not loaded: correct the invalid value of a bf setting in the configuration",
        );
    }
    succeeded(status)
}

/// Registers the second name of every setting, which has no prefix. These names are optional: the module loads
/// without them. The server logs a warning for each name that it refuses, so no further name is tried after the first
/// refusal.
///
/// # Safety
/// As [`register`].
unsafe fn register_plain_names(context: Context) {
    let flags = raw::REDISMODULE_CONFIG_UNPREFIXED;
    let refused = SETTINGS.iter().find(|setting| {
        // SAFETY: the context is OnLoad's by the caller's contract.
        !unsafe { register_name(context, setting, setting.dashed, flags) }
    });
    if let Some(setting) = refused {
        let (dashed, dotted) = (setting.dashed.to_string_lossy(), setting.dotted.to_string_lossy());
        log::warning(
            context,
            &format!(
                "the server refused {dashed} as a name of the setting {dotted}: use the names that begin with bf."
            ),
        );
    }
}

/// # Safety
/// As [`register`].
unsafe fn register_name(
    context: Context,
    setting: &'static Setting,
    name: &'static CStr,
    flags: c_uint,
) -> bool {
    let (Some(register_string), Some(register_numeric)) =
        (api!(RedisModule_RegisterStringConfig), api!(RedisModule_RegisterNumericConfig))
    else {
        return false;
    };
    let is_plain = flags & raw::REDISMODULE_CONFIG_UNPREFIXED != 0;
    // The server puts the module's name in front of names that are not plain.
    let registered_name = if is_plain { name } else { strip_prefix(name) };
    let default = setting.default.load(Relaxed);
    // The server keeps the address while the module is loaded.
    let name_address: *mut c_void = ptr::from_mut(Box::leak(Box::new(Name { name, setting }))).cast();
    // RedisBloom's names have RedisBloom's texts for bad values, which only a string setting can give.
    let range = match setting.kind {
        Kind::Count { min, max } if !is_plain => Some((min, max, flags)),
        Kind::Bytes { min, max } => Some((min, max, flags | raw::REDISMODULE_CONFIG_MEMORY)),
        Kind::Rate | Kind::Count { .. } | Kind::Choice(_) => None,
    };
    let status = match range {
        // SAFETY: the context is OnLoad's by the caller's contract; the name is copied; callbacks and their argument
        // live as long as the module.
        Some((min, max, flags)) => unsafe {
            register_numeric(
                context,
                registered_name.as_ptr(),
                default.cast_signed(),
                flags,
                min.cast_signed(),
                max.cast_signed(),
                Some(get_number),
                Some(set_number),
                None,
                name_address,
            )
        },
        None => {
            let default = log::c_text(&setting.format(default));
            // SAFETY: as above; the default is copied too.
            unsafe {
                register_string(
                    context,
                    registered_name.as_ptr(),
                    default.as_ptr(),
                    flags,
                    Some(get_text),
                    Some(set_text),
                    None,
                    name_address,
                )
            }
        }
    };
    succeeded(status)
}

/// Returns the name without the module's prefix `bf.`.
fn strip_prefix(name: &'static CStr) -> &'static CStr {
    let bytes = name.to_bytes_with_nul();
    let rest = bytes.strip_prefix(b"bf.").unwrap_or(bytes);
    CStr::from_bytes_with_nul(rest).unwrap_or(name)
}

/// A name of a setting: the argument of the callbacks.
pub(super) struct Name {
    pub(super) name: &'static CStr,
    pub(super) setting: &'static Setting,
}

/// # Safety
/// `name` must be an address that [`register`] gave to the server.
unsafe fn name_at(name: *mut c_void) -> &'static Name {
    // SAFETY: the registration leaked it and nothing changes it.
    unsafe { &*name.cast::<Name>() }
}

/// # Safety
/// Called by the server only, with the argument it was registered with.
pub(super) unsafe extern "C" fn get_number(_name: *const c_char, name: *mut c_void) -> c_longlong {
    // SAFETY: the server passes on what it was registered with.
    let Name { setting, .. } = unsafe { name_at(name) };
    setting.value.load(Relaxed).cast_signed()
}

/// # Safety
/// Called by the server only, with the argument it was registered with and a value in the registered range.
pub(super) unsafe extern "C" fn set_number(
    _name: *const c_char,
    value: c_longlong,
    name: *mut c_void,
    _error: *mut *mut RedisModuleString,
) -> c_int {
    // SAFETY: the server passes on what it was registered with.
    let Name { setting, .. } = unsafe { name_at(name) };
    setting.set(value.cast_unsigned());
    OK
}

/// # Safety
/// Called by the server only, with the argument it was registered with.
pub(super) unsafe extern "C" fn get_text(_name: *const c_char, name: *mut c_void) -> *mut RedisModuleString {
    // SAFETY: the server passes on what it was registered with.
    let Name { setting, .. } = unsafe { name_at(name) };
    catch_unwind(AssertUnwindSafe(|| setting.text())).unwrap_or(ptr::null_mut())
}

/// # Safety
/// Called by the server only, with a living string, the argument it was registered with and a place for an
/// error.
pub(super) unsafe extern "C" fn set_text(
    _name: *const c_char,
    value: *mut RedisModuleString,
    name: *mut c_void,
    error: *mut *mut RedisModuleString,
) -> c_int {
    // SAFETY: the server passes on what it was registered with.
    let Name { name, setting } = unsafe { name_at(name) };
    // SAFETY: the string is alive for this call.
    let text = unsafe { string_bytes(value) };
    let outcome =
        catch_unwind(AssertUnwindSafe(|| setting.parse(text).map_err(|bad| describe(bad, name, setting))));
    match outcome {
        Ok(Ok(new_value)) => {
            setting.set(new_value);
            if let Some(retain) = api!(RedisModule_RetainString) {
                // SAFETY: the string is alive; without a context it stays so until `replace_text` frees it.
                unsafe { retain(ptr::null_mut(), value) };
                // SAFETY: retained just now, on the main thread; the server has copied the text that it read before.
                unsafe { setting.replace_text(value) };
            }
            OK
        }
        Ok(Err(text)) => {
            // SAFETY: the server gives a place for an error and frees the string it finds there.
            unsafe { error.write(new_string(&text)) };
            ERR
        }
        Err(_) => ERR,
    }
}

/// Returns RedisBloom's text for a bad value.
fn describe(bad: BadValue, name: &CStr, setting: &Setting) -> String {
    let name = name.to_string_lossy();
    match bad {
        BadValue::NotANumber => format!("Invalid value for `{name}`"),
        BadValue::OutOfRange => format!("Value for `{name}` must be in the range {}", setting.range_text()),
    }
}
