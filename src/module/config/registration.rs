//! Registration of the settings with the server, and the callbacks that read and write them.

use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use redis_module::raw::{self, RedisModuleString};

use super::settings::{BadValue, SETTINGS, Setting, SettingType, new_string};
use crate::api::{Context, ERR, OK, succeeded};
use crate::args::string_bytes;
use crate::{log, server};

/// Registers every setting and makes the server set the configured values. Returns false, with a line in the log, if
/// a name is taken or a configured value is invalid. The module must not load then.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(crate) unsafe fn register(context: Context) -> bool {
    // A server that accepts names without the module's prefix gets both names of a setting in one registration, so that
    // CONFIG REWRITE writes one line. The server logs a warning for a name that it refuses, so no further plain name is
    // tried after the first refusal.
    let mut with_plain_names = server::may_accept_plain_names();
    for setting in SETTINGS {
        // SAFETY: the context is OnLoad's by the caller's contract.
        if with_plain_names && !unsafe { register_setting(context, setting, true) } {
            with_plain_names = false;
            let text = format!(
                "the server refused {} as a name of the setting bf.{}: use the names that begin with bf.",
                setting.plain_name(),
                setting.name
            );
            log::warning(context, &text);
        }
        // SAFETY: the context is OnLoad's by the caller's contract.
        if !with_plain_names && !unsafe { register_setting(context, setting, false) } {
            let name = setting.name;
            let text = format!("cannot register the setting bf.{name}: another module may have this name");
            log::warning(context, &text);
            return false;
        }
    }
    let Some(load_configs) = api!(RedisModule_LoadConfigs) else { return false };
    // SAFETY: the context is OnLoad's by the caller's contract.
    let loaded = succeeded(unsafe { load_configs(context) });
    if !loaded {
        log::warning(
            context,
            "the module is not loaded: correct the invalid value of a bf setting in the configuration",
        );
    }
    loaded
}

/// Registers a setting: as `bf.name`, and if `has_plain_name`, also under the name without the module's prefix, which
/// only Redis 8 and later accept.
///
/// # Safety
/// As [`register`].
unsafe fn register_setting(context: Context, setting: &'static Setting, has_plain_name: bool) -> bool {
    let (Some(register_string), Some(register_numeric)) =
        (api!(RedisModule_RegisterStringConfig), api!(RedisModule_RegisterNumericConfig))
    else {
        return false;
    };
    // The server puts the module's name in front of a name, except with this flag. The part after `|` is the second
    // name.
    let (registered_name, flags) = if has_plain_name {
        (format!("bf.{}|{}", setting.name, setting.plain_name()), raw::REDISMODULE_CONFIG_UNPREFIXED)
    } else {
        (setting.name.to_owned(), 0)
    };
    // RedisBloom's settings are rates and counts.
    let is_redisblooms = matches!(setting.setting_type, SettingType::Rate | SettingType::Count { .. });
    let shown_name =
        if has_plain_name && is_redisblooms { setting.plain_name() } else { format!("bf.{}", setting.name) };
    let registered_name = log::c_text(&registered_name);
    let default = setting.default.load(Relaxed);
    // The server keeps the address while the module is loaded.
    let name = ptr::from_mut(Box::leak(Box::new(RegisteredName { shown_name, setting }))).cast();
    // A bad value for one of RedisBloom's names gets RedisBloom's error text. Only a string setting can choose this
    // text, so a count with such a name is registered as a string.
    let range = match setting.setting_type {
        SettingType::Count { min, max } if !has_plain_name => Some((min, max, flags)),
        SettingType::Bytes { min, max } => Some((min, max, flags | raw::REDISMODULE_CONFIG_MEMORY)),
        SettingType::Rate | SettingType::Count { .. } | SettingType::Choice(_) => None,
    };
    let status = match range {
        // SAFETY: the context is OnLoad's by the caller's contract. The server copies the name. The callbacks and their
        // argument live as long as the module.
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
                name,
            )
        },
        None => {
            let default = log::c_text(&setting.format(default));
            // SAFETY: the context is OnLoad's by the caller's contract. The server copies the name and the default. The
            // callbacks and their argument live as long as the module.
            unsafe {
                register_string(
                    context,
                    registered_name.as_ptr(),
                    default.as_ptr(),
                    flags,
                    Some(get_text),
                    Some(set_text),
                    None,
                    name,
                )
            }
        }
    };
    succeeded(status)
}

/// The argument of the callbacks of a setting.
struct RegisteredName {
    /// The name in errors: RedisBloom's, if the setting has it. The server does not say which one a client used.
    shown_name: String,
    setting: &'static Setting,
}

/// Returns the name and the setting behind an argument of a callback.
///
/// # Safety
/// `name` must be an address that [`register`] gave to the server.
unsafe fn name_at(name: *mut c_void) -> &'static RegisteredName {
    // SAFETY: the registration has leaked the value, so it lives forever, and nothing changes it.
    unsafe { &*name.cast::<RegisteredName>() }
}

/// # Safety
/// Called by the server only, with the argument it was registered with.
unsafe extern "C" fn get_number(_name: *const c_char, name: *mut c_void) -> c_longlong {
    // SAFETY: the server passes the argument with which the callback was registered.
    let RegisteredName { setting, .. } = unsafe { name_at(name) };
    setting.value().cast_signed()
}

/// # Safety
/// Called by the server only, with the argument it was registered with and a value in the registered range.
unsafe extern "C" fn set_number(
    _name: *const c_char,
    value: c_longlong,
    name: *mut c_void,
    _error: *mut *mut RedisModuleString,
) -> c_int {
    // SAFETY: the server passes the argument with which the callback was registered.
    let RegisteredName { setting, .. } = unsafe { name_at(name) };
    setting.set(value.cast_unsigned());
    OK
}

/// # Safety
/// Called by the server only, with the argument it was registered with.
unsafe extern "C" fn get_text(_name: *const c_char, name: *mut c_void) -> *mut RedisModuleString {
    // SAFETY: the server passes the argument with which the callback was registered.
    let RegisteredName { setting, .. } = unsafe { name_at(name) };
    catch_unwind(AssertUnwindSafe(|| setting.text())).unwrap_or(ptr::null_mut())
}

/// # Safety
/// Called by the server only, with a living string, the argument it was registered with and a place for an
/// error.
unsafe extern "C" fn set_text(
    _name: *const c_char,
    value: *mut RedisModuleString,
    name: *mut c_void,
    error: *mut *mut RedisModuleString,
) -> c_int {
    // SAFETY: the server passes the argument with which the callback was registered.
    let RegisteredName { shown_name: name, setting } = unsafe { name_at(name) };
    // SAFETY: the string is alive for this call.
    let text = unsafe { string_bytes(value) };
    let parse = || {
        setting.parse(text).map_err(|bad| match bad {
            BadValue::NotANumber(_) => format!("Invalid value for `{name}`"),
            BadValue::OutOfRange => {
                format!("Value for `{name}` must be in the range {}", setting.range_text())
            }
        })
    };
    match catch_unwind(AssertUnwindSafe(parse)) {
        Ok(Ok(new_value)) => {
            setting.set(new_value);
            if let Some(retain) = api!(RedisModule_RetainString) {
                // SAFETY: the string is alive. A string that is retained without a context lives until `replace_text`
                // frees it.
                unsafe { retain(ptr::null_mut(), value) };
                // SAFETY: the string was just retained, and this is the main thread. The server has already copied the
                // text that `get_text` last returned.
                unsafe { setting.replace_text(value) };
            }
            OK
        }
        Ok(Err(text)) => {
            // SAFETY: the server has passed a place for an error, and frees the string that it finds there.
            unsafe { error.write(new_string(&text)) };
            ERR
        }
        Err(_) => ERR,
    }
}
