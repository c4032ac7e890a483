//! How the server learns of the settings, and the callbacks through which it reads and writes them.

use std::ffi::{CStr, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use redis_module::raw::{self, RedisModuleString};

use super::setting::{BadValue, IS_LOADING, Kind, Setting, new_string};
use super::settings::SETTINGS;
use crate::redis::api::{Context, ERR, OK, succeeded};
use crate::redis::args::string_bytes;
use crate::redis::log;
use crate::redis::server::Server;

/// One name of a setting, as the server hands it to the callbacks.
struct Name {
    name: &'static CStr,
    setting: &'static Setting,
}

/// Registers every setting and lets the server give it its value. Answers false, with a line in the log, when
/// a name is taken or a configured value is not possible; the module must not load then.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(in crate::redis) unsafe fn register(context: Context, server: Server) -> bool {
    for setting in &SETTINGS {
        // SAFETY: the context is OnLoad's by the caller's contract.
        let mut registered = unsafe { register_name(context, setting, setting.dotted, 0) };
        if server.knows_plain_names() && registered {
            let flags = raw::REDISMODULE_CONFIG_UNPREFIXED;
            // SAFETY: the context is OnLoad's by the caller's contract.
            registered = unsafe { register_name(context, setting, setting.dashed, flags) };
        }
        if !registered {
            let name = setting.dotted.to_string_lossy();
            log::warning(context, &format!("cannot register the setting {name}: is the name taken?"));
            return false;
        }
    }
    let Some(load_configs) = api!(RedisModule_LoadConfigs) else { return false };
    IS_LOADING.store(true, Relaxed);
    // SAFETY: the context is OnLoad's by the caller's contract.
    let status = unsafe { load_configs(context) };
    IS_LOADING.store(false, Relaxed);
    if !succeeded(status) {
        log::warning(context, "a configured value of a bf setting is not possible; the module is not loaded");
    }
    succeeded(status)
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
    // The server keeps the address for as long as the module is loaded.
    let name_address: *mut c_void = ptr::from_mut(Box::leak(Box::new(Name { name, setting }))).cast();
    let status = match setting.kind {
        // RedisBloom's names have RedisBloom's texts for bad values, which only a string setting can give.
        Kind::Count { min, max } if !is_plain => {
            // SAFETY: the context is OnLoad's by the caller's contract; the name is copied; callbacks and
            // their argument live as long as the module.
            unsafe {
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
            }
        }
        Kind::Bytes { min, max } => {
            // SAFETY: as above.
            unsafe {
                register_numeric(
                    context,
                    registered_name.as_ptr(),
                    default.cast_signed(),
                    flags | raw::REDISMODULE_CONFIG_MEMORY,
                    min.cast_signed(),
                    max.cast_signed(),
                    Some(get_number),
                    Some(set_number),
                    None,
                    name_address,
                )
            }
        }
        Kind::Rate | Kind::Count { .. } | Kind::Format | Kind::Switch => {
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

/// The name without the module's prefix `bf.`.
fn strip_prefix(name: &'static CStr) -> &'static CStr {
    let bytes = name.to_bytes_with_nul();
    let rest = bytes.strip_prefix(b"bf.").unwrap_or(bytes);
    CStr::from_bytes_with_nul(rest).unwrap_or(name)
}

/// # Safety
/// `name` must be an address that [`register_name`] gave to the server.
unsafe fn name_at(name: *mut c_void) -> &'static Name {
    // SAFETY: `register_name` leaked it and nothing changes it.
    unsafe { &*name.cast::<Name>() }
}

/// # Safety
/// Called by the server only, with the argument it was registered with.
unsafe extern "C" fn get_number(_name: *const std::ffi::c_char, name: *mut c_void) -> std::ffi::c_longlong {
    // SAFETY: the server passes on what it was registered with.
    let Name { setting, .. } = unsafe { name_at(name) };
    setting.value.load(Relaxed).cast_signed()
}

/// # Safety
/// Called by the server only, with the argument it was registered with and a value in the registered range.
unsafe extern "C" fn set_number(
    _name: *const std::ffi::c_char,
    value: std::ffi::c_longlong,
    name: *mut c_void,
    _error: *mut *mut RedisModuleString,
) -> std::ffi::c_int {
    // SAFETY: the server passes on what it was registered with.
    let Name { setting, .. } = unsafe { name_at(name) };
    setting.set(value.cast_unsigned());
    OK
}

/// # Safety
/// Called by the server only, with the argument it was registered with.
unsafe extern "C" fn get_text(_name: *const std::ffi::c_char, name: *mut c_void) -> *mut RedisModuleString {
    // SAFETY: the server passes on what it was registered with.
    let Name { setting, .. } = unsafe { name_at(name) };
    catch_unwind(AssertUnwindSafe(|| setting.text())).unwrap_or(ptr::null_mut())
}

/// # Safety
/// Called by the server only, with a living string, the argument it was registered with and a place for an
/// error.
unsafe extern "C" fn set_text(
    _name: *const std::ffi::c_char,
    value: *mut RedisModuleString,
    name: *mut c_void,
    error: *mut *mut RedisModuleString,
) -> std::ffi::c_int {
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
                setting.replace_text(value);
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

/// RedisBloom's text for a bad value.
fn describe(bad: BadValue, name: &CStr, setting: &Setting) -> String {
    let name = name.to_string_lossy();
    match bad {
        BadValue::NotANumber => format!("Invalid value for `{name}`"),
        BadValue::OutOfRange => format!("Value for `{name}` must be in the range {}", setting.range_text()),
    }
}
