//! API functions that a module calls while it is loaded, or that query the server later.

use std::ffi::{c_char, c_int, c_longlong, c_uint, c_void};
use std::ptr;

use super::functions::{text_of, token};
use super::host::{Context, ERR, Handler, OK, OnEvent, TypeMethods, status_of, with};

pub(super) extern "C" fn set_module_attributes(
    _: *mut Context,
    _: *const c_char,
    _version: c_int,
    _api_version: c_int,
) {
}

pub(super) extern "C" fn is_module_name_busy(_name: *const c_char) -> c_int {
    c_int::from(with(|state| state.is_busy))
}

/// # Safety
/// Called with C strings only, where there is a context or a value that is being loaded; the format is `%s`.
pub(super) unsafe extern "C" fn log(
    _: *mut c_void,
    _level: *const c_char,
    format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: by the module's contract.
    assert_eq!(unsafe { text_of(format) }, "%s");
    // SAFETY: by the module's contract.
    let line = unsafe { text_of(text) };
    with(|state| state.log.push(line));
}

pub(super) extern "C" fn get_server_version() -> c_int {
    with(|state| state.version)
}

pub(super) extern "C" fn get_server_info(_: *mut Context, _section: *const c_char) -> *mut c_void {
    token()
}

pub(super) extern "C" fn free_server_info(_: *mut Context, _info: *mut c_void) {}

/// # Safety
/// `error` must be a place for a status.
pub(super) unsafe extern "C" fn server_info_number(
    _: *mut c_void,
    _: *const c_char,
    error: *mut c_int,
) -> u64 {
    // SAFETY: by the module's contract.
    unsafe { error.write(ERR) };
    0
}

pub(super) extern "C" fn get_context_flags(_: *mut Context) -> c_int {
    const LOADING: c_int = 1 << 13;
    if with(|state| state.is_loading) { LOADING } else { 0 }
}

/// # Safety
/// `name` must be a C string.
pub(super) unsafe extern "C" fn register_numeric_config(
    _: *mut Context,
    name: *const c_char,
    default: c_longlong,
    flags: c_uint,
    _min: c_longlong,
    _max: c_longlong,
) -> c_int {
    // SAFETY: by the module's contract.
    let name = unsafe { text_of(name) };
    register_config("RegisterNumericConfig", name, default.to_string(), flags)
}

/// # Safety
/// `name` and `default` must be C strings.
pub(super) unsafe extern "C" fn register_string_config(
    _: *mut Context,
    name: *const c_char,
    default: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: by the module's contract.
    let name = unsafe { text_of(name) };
    // SAFETY: by the module's contract.
    let default = unsafe { text_of(default) };
    register_config("RegisterStringConfig", name, default, flags)
}

/// Registers a setting, unless the host refuses one of its flags.
fn register_config(function: &str, name: String, default: String, flags: c_uint) -> c_int {
    let is_refused = with(|state| {
        state.settings.push((name.clone(), flags));
        flags & state.refused_flags != 0
    });
    if is_refused {
        return ERR;
    }
    with(|state| state.defaults.insert(name, default));
    status_of(function)
}

pub(super) extern "C" fn load_configs(_: *mut Context) -> c_int {
    status_of("LoadConfigs")
}

fn token_unless_failing<T>(name: &str) -> *mut T {
    if status_of(name) == OK { token() } else { ptr::null_mut() }
}

/// # Safety
/// `name` must be a C string and `methods` at least as long as the methods here.
pub(super) unsafe extern "C" fn create_data_type(
    _: *mut Context,
    name: *const c_char,
    _encoding_version: c_int,
    methods: *const TypeMethods,
) -> *mut c_void {
    // SAFETY: by the module's contract.
    let name = unsafe { text_of(name) };
    // SAFETY: by the module's contract.
    let methods = unsafe { methods.read() };
    with(|state| state.data_types.insert(name, methods));
    token_unless_failing("CreateDataType")
}

/// # Safety
/// `name` must be a C string.
pub(super) unsafe extern "C" fn create_command(
    _: *mut Context,
    name: *const c_char,
    handler: Handler,
    _flags: *const c_char,
) -> c_int {
    // SAFETY: by the module's contract.
    let name = unsafe { text_of(name) };
    let status = status_of("CreateCommand");
    if status == OK {
        with(|state| state.commands.insert(name, handler));
    }
    status
}

pub(super) extern "C" fn get_command(_: *mut Context, _name: *const c_char) -> *mut c_void {
    token_unless_failing("GetCommand")
}

pub(super) extern "C" fn set_command_info(_command: *mut c_void, _info: *const c_void) -> c_int {
    status_of("SetCommandInfo")
}

pub(super) extern "C" fn add_acl_category(_: *mut Context, _name: *const c_char) -> c_int {
    status_of("AddACLCategory")
}

pub(super) extern "C" fn set_acl_categories(_command: *mut c_void, _categories: *const c_char) -> c_int {
    status_of("SetCommandACLCategories")
}

pub(super) extern "C" fn register_info_func(_: *mut Context, _function: *const c_void) -> c_int {
    status_of("RegisterInfoFunc")
}

pub(super) extern "C" fn set_module_options(_: *mut Context, options: c_int) {
    with(|state| state.options = options);
}

pub(super) extern "C" fn get_module_options_all() -> c_int {
    with(|state| state.known_options)
}

/// An event with its number and version.
#[repr(C)]
pub(super) struct Event {
    pub(super) id: u64,
    pub(super) version: u64,
}

pub(super) extern "C" fn subscribe(_: *mut Context, event: Event, callback: OnEvent) -> c_int {
    assert_eq!(event.version, 1, "event {}", event.id);
    with(|state| state.events.insert(event.id, callback));
    status_of("SubscribeToServerEvent")
}
