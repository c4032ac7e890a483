//! API functions that commands call: strings, keys, replication and replies.

use std::ffi::{c_char, c_int, c_long, c_longlong, c_void};
use std::ptr;

use super::functions::{text_of, token};
use super::host::{Context, OK, Text, status_of, with};
use super::memory;

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

pub(super) extern "C" fn open_key(_: *mut Context, _name: *mut Text, _mode: c_int) -> *mut c_void {
    token()
}

pub(super) extern "C" fn close_key(_key: *mut c_void) {}

pub(super) extern "C" fn key_type(_key: *mut c_void) -> c_int {
    0
}

pub(super) extern "C" fn module_type_of(_key: *mut c_void) -> *mut c_void {
    if with(|state| state.value.is_some()) { token() } else { ptr::null_mut() }
}

pub(super) extern "C" fn get_value(_key: *mut c_void) -> *mut c_void {
    with(|state| state.value).unwrap_or(ptr::null_mut())
}

pub(super) extern "C" fn set_value(_key: *mut c_void, _data_type: *mut c_void, value: *mut c_void) -> c_int {
    let status = status_of("ModuleTypeSetValue");
    if status == OK {
        with(|state| state.value = Some(value));
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
