//! Lines in the server's log. The text is always an argument, never the format: it may hold what a client sent.

use std::ffi::{CStr, CString};
use std::ptr;

use redis_module::raw;

use super::api::Context;

const WARNING: &CStr = c"warning";
const TEXT: &CStr = c"%s";

/// Writes a warning; `context` may be null.
pub(super) fn warning(context: Context, text: &str) {
    let Some(log) = api!(RedisModule_Log) else { return };
    let text = c_text(text);
    // SAFETY: level and format are C strings, the one argument of the format is one too; the server copies them and
    // accepts a null context.
    unsafe { log(context, WARNING.as_ptr(), TEXT.as_ptr(), text.as_ptr()) };
}

/// Writes a warning about a value that is being loaded or saved.
///
/// # Safety
/// `io` must be the server's, within the callback it was given to.
pub(super) unsafe fn io_warning(io: *mut raw::RedisModuleIO, text: &str) {
    let Some(log) = api!(RedisModule_LogIOError) else { return };
    let text = c_text(text);
    // SAFETY: the caller vouches for `io`; the rest as in `warning`.
    unsafe { log(io, WARNING.as_ptr(), TEXT.as_ptr(), text.as_ptr()) };
}

/// Sends the message of every panic to the server's log; a daemon has no standard error.
pub(super) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| warning(ptr::null_mut(), &format!("everbloom: {panic}"))));
}

/// Ends the server on purpose, after a panic that left a filter or a snapshot in an unknown state.
pub(super) fn abort(what: &str) -> ! {
    warning(ptr::null_mut(), &format!("everbloom: panic in {what}, ending the server to save the data"));
    std::process::abort()
}

/// The text as one line without a NUL.
pub(super) fn c_text(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().map(|byte| if byte < b' ' { b' ' } else { byte }).collect();
    CString::new(bytes).unwrap_or_default()
}
