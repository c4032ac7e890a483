//! The section of INFO. It also runs while the server writes a crash report, so it allocates nothing and
//! touches no filter.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::api::{Context, succeeded};
use super::{log, stats};

/// The release, since MODULE LIST has room for a number only.
const RELEASE: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(release) => release,
    Err(_) => c"",
};

/// Tells the server of the section. Answers false, with a line in the log, when it refuses.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn register(context: Context) -> bool {
    let Some(register) = api!(RedisModule_RegisterInfoFunc) else { return false };
    // SAFETY: the context is OnLoad's by the caller's contract; the function lives as long as the module.
    let registered = succeeded(unsafe { register(context, Some(write_section)) });
    if !registered {
        log::warning(context, "the server refused the section of INFO");
    }
    registered
}

/// # Safety
/// Called by the server only, with the context of the INFO reply that is being written.
unsafe extern "C" fn write_section(info: *mut raw::RedisModuleInfoCtx, _for_crash_report: c_int) {
    let (Some(add_section), Some(add_field), Some(add_text)) = (
        api!(RedisModule_InfoAddSection),
        api!(RedisModule_InfoAddFieldULongLong),
        api!(RedisModule_InfoAddFieldCString),
    ) else {
        return;
    };
    // SAFETY: the context is the server's; an empty name means a section named after the module. The name is
    // copied.
    let wanted = unsafe { add_section(info, c"".as_ptr()) };
    if !succeeded(wanted) {
        return;
    }
    let counts = stats::counts();
    let fields: [(&CStr, u64); 5] = [
        (c"filters", counts.filters),
        (c"items", counts.items),
        (c"bytes", counts.bytes),
        (c"adds", counts.adds),
        (c"checks", counts.checks),
    ];
    // SAFETY: as below; both strings live forever.
    unsafe { add_text(info, c"release".as_ptr(), RELEASE.as_ptr()) };
    for (name, value) in fields {
        // SAFETY: as above, within the section that was just begun.
        unsafe { add_field(info, name.as_ptr(), value) };
    }
}
