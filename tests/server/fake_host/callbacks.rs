//! API functions that a module calls while it is loaded, for commands, or to query the server later.

use std::ffi::{c_char, c_int, c_long, c_longlong, c_uint, c_void};
use std::ptr;

use super::functions::{text_of, token};
use super::host::{Context, ERR, Handler, OK, OnEvent, Text, TypeMethods, status_of, with};
use super::memory;

// Loading.

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
/// `format` must be `%s`, and `text` a C string. The first argument is a context or a value that is being loaded, and
/// is not read.
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
    // A setting may have two names.
    for name in name.split('|') {
        let name = name.strip_prefix("bf.").unwrap_or(name).to_owned();
        with(|state| state.defaults.insert(name, default.clone()));
    }
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
    if status_of("CreateDataType") == OK { Box::into_raw(Box::new(0u64)).cast() } else { ptr::null_mut() }
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

// Strings.

/// # Safety
/// `length` bytes must begin at `start`.
pub(super) unsafe extern "C" fn create_string(
    _: *mut Context,
    start: *const c_char,
    length: usize,
) -> *mut Text {
    // SAFETY: by the module's contract.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    memory::take_or_abort(length);
    Box::into_raw(Box::new(Text::new(bytes.to_vec())))
}

/// # Safety
/// `text` must be alive.
pub(super) unsafe extern "C" fn retain_string(_: *mut Context, text: *mut Text) {
    // SAFETY: by the module's contract.
    let text = unsafe { &*text };
    text.references.set(text.references.get() + 1);
}

/// # Safety
/// `text` must come from [`create_string`] or [`retain_string`], and that reference must not be used again.
pub(super) unsafe extern "C" fn free_string(_: *mut Context, text: *mut Text) {
    // SAFETY: by the module's contract.
    let references = unsafe { &*text }.references.replace(0);
    if references > 1 {
        // SAFETY: by the module's contract.
        unsafe { &*text }.references.set(references - 1);
        return;
    }
    // SAFETY: by the module's contract; this was the last reference.
    let text = unsafe { Box::from_raw(text) };
    memory::give_back(text.bytes.len());
}

/// # Safety
/// `text` must be alive and `length` a place for its length.
pub(super) unsafe extern "C" fn string_ptr_len(text: *const Text, length: *mut usize) -> *const c_char {
    // SAFETY: by the module's contract.
    let text = unsafe { &*text };
    // SAFETY: by the module's contract.
    unsafe { length.write(text.bytes.len()) };
    text.bytes.as_ptr().cast()
}

// Keys: at most one, with any name.

/// A key that is in use is null for a command that would write to it, and for no other.
pub(super) extern "C" fn open_key(_: *mut Context, _name: *mut Text, mode: c_int) -> *mut c_void {
    const WRITE: c_int = 1 << 1;
    if mode & WRITE != 0 && with(|state| state.is_in_use) { ptr::null_mut() } else { token() }
}

pub(super) extern "C" fn close_key(_key: *mut c_void) {}

pub(super) extern "C" fn key_type(_key: *mut c_void) -> c_int {
    0
}

pub(super) extern "C" fn module_type_of(_key: *mut c_void) -> *mut c_void {
    with(|state| state.value_type).unwrap_or(ptr::null_mut())
}

pub(super) extern "C" fn get_value(_key: *mut c_void) -> *mut c_void {
    with(|state| state.value).unwrap_or(ptr::null_mut())
}

pub(super) extern "C" fn set_value(_key: *mut c_void, data_type: *mut c_void, value: *mut c_void) -> c_int {
    let status = status_of("ModuleTypeSetValue");
    if status == OK {
        with(|state| (state.value, state.value_type) = (Some(value), Some(data_type)));
    }
    status
}

pub(super) extern "C" fn replicate_verbatim(_: *mut Context) -> c_int {
    with(|state| state.replicated.push(Vec::new()));
    status_of("ReplicateVerbatim")
}

/// # Safety
/// `argc` living strings must begin at `argv`.
pub(super) unsafe extern "C" fn replicate(
    _: *mut Context,
    _command: *const c_char,
    _format: *const c_char,
    argv: *const *mut Text,
    argc: usize,
) -> c_int {
    // SAFETY: by the module's contract.
    let texts = unsafe { std::slice::from_raw_parts(argv, argc) };
    // SAFETY: by the module's contract.
    let lengths = texts.iter().map(|text| unsafe { &**text }.bytes.len()).collect();
    with(|state| state.replicated.push(lengths));
    status_of("Replicate")
}

pub(super) extern "C" fn signal_modified_key(_: *mut Context, _name: *mut Text) -> c_int {
    OK
}

pub(super) extern "C" fn notify_keyspace_event(
    _: *mut Context,
    _type: c_int,
    _event: *const c_char,
    _: *mut Text,
) -> c_int {
    OK
}

/// Every call succeeds, so the module has all permissions.
pub(super) extern "C" fn call(_: *mut Context, _: *const c_char, _: *const c_char) -> *mut c_void {
    ptr::dangling_mut()
}

pub(super) extern "C" fn free_call_reply(_: *mut c_void) {}

/// # Safety
/// `place` must have space for `length` bytes.
pub(super) unsafe extern "C" fn get_random_bytes(place: *mut u8, length: usize) {
    // SAFETY: by the module's contract.
    unsafe { ptr::write_bytes(place, 0x5A, length) };
}

pub(super) extern "C" fn get_selected_db(_: *mut Context) -> c_int {
    0
}

/// The clock stands still.
pub(super) extern "C" fn milliseconds() -> c_longlong {
    1_800_000_000_000
}

// Replies.

fn replied(reply: String) -> c_int {
    with(|state| state.replies.push(reply));
    OK
}

pub(super) extern "C" fn reply_with_long_long(_: *mut Context, number: c_longlong) -> c_int {
    replied(number.to_string())
}

pub(super) extern "C" fn reply_with_bool(_: *mut Context, value: c_int) -> c_int {
    replied(value.to_string())
}

/// # Safety
/// `text` must be a C string.
pub(super) unsafe extern "C" fn reply_with_simple_string(_: *mut Context, text: *const c_char) -> c_int {
    // SAFETY: by the module's contract.
    replied(format!("+{}", unsafe { text_of(text) }))
}

/// # Safety
/// `text` must be a C string.
pub(super) unsafe extern "C" fn reply_with_error(_: *mut Context, text: *const c_char) -> c_int {
    // SAFETY: by the module's contract.
    replied(format!("-{}", unsafe { text_of(text) }))
}

/// # Safety
/// `length` bytes must begin at `start`.
pub(super) unsafe extern "C" fn reply_with_string_buffer(
    _: *mut Context,
    start: *const c_char,
    length: usize,
) -> c_int {
    memory::take_or_abort(length);
    memory::give_back(length);
    // SAFETY: by the module's contract.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    replied(format!("${}", String::from_utf8_lossy(bytes)))
}

pub(super) extern "C" fn reply_with_array(_: *mut Context, length: c_long) -> c_int {
    replied(format!("*{length}"))
}

pub(super) extern "C" fn reply_with_map(_: *mut Context, pairs: c_long) -> c_int {
    replied(format!("%{pairs}"))
}

pub(super) extern "C" fn reply_with_double(_: *mut Context, number: f64) -> c_int {
    replied(format!(",{number}"))
}

pub(super) extern "C" fn reply_with_null(_: *mut Context) -> c_int {
    replied("_".to_owned())
}
