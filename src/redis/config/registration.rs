//! How the server learns of the settings.

use std::ffi::{CStr, c_uint, c_void};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use redis_module::raw;

use super::callbacks::{Name, get_number, get_text, set_number, set_text};
use super::setting::{IS_LOADING, Kind, Setting};
use super::settings::SETTINGS;
use crate::redis::api::{Context, succeeded};
use crate::redis::{log, server};

/// Registers every setting and lets the server give it its value. Returns false, with a line in the log, when
/// a name is taken or a configured value is not possible; the module must not load then.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(in crate::redis) unsafe fn register(context: Context) -> bool {
    for setting in &SETTINGS {
        // SAFETY: the context is OnLoad's by the caller's contract.
        if !unsafe { register_name(context, setting, setting.dotted, 0) } {
            let name = setting.dotted.to_string_lossy();
            log::warning(context, &format!("cannot register the setting {name}: is the name taken?"));
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
        log::warning(context, "a configured value of a bf setting is not possible; the module is not loaded");
    }
    succeeded(status)
}

/// Registers the second name of every setting, which has no prefix. These names are a convenience, and the module loads
/// without them. The server writes a warning for each name that it refuses, so the first refusal is the last attempt.
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
            &format!("the server refused {dashed} as a name of the setting {dotted}: use the names with bf."),
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
        Kind::Rate | Kind::Count { .. } | Kind::Choice(_) => {
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
