//! The callbacks through which the server reads and writes the settings.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use redis_module::raw::RedisModuleString;

use super::setting::{BadValue, Setting, new_string};
use crate::redis::api::{ERR, OK};
use crate::redis::args::string_bytes;

/// One name of a setting, as the server hands it to the callbacks.
pub(super) struct Name {
    pub(super) name: &'static CStr,
    pub(super) setting: &'static Setting,
}

/// # Safety
/// `name` must be an address that [`register`](super::registration::register) gave to the server.
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
                // SAFETY: retained just now, on the main thread; the server has copied what it asked for before.
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

/// RedisBloom's text for a bad value.
fn describe(bad: BadValue, name: &CStr, setting: &Setting) -> String {
    let name = name.to_string_lossy();
    match bad {
        BadValue::NotANumber => format!("Invalid value for `{name}`"),
        BadValue::OutOfRange => format!("Value for `{name}` must be in the range {}", setting.range_text()),
    }
}
