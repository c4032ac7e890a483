//! The digest of a value, by which DEBUG DIGEST tells whether two servers have the same.

use std::ffi::c_void;

use redis_module::raw::RedisModuleDigest;

use super::value::{filter_at, or_abort};
use crate::format;

/// # Safety
/// Called by the server only, with a value of the type.
pub(super) unsafe extern "C" fn digest(digest: *mut RedisModuleDigest, value: *mut c_void) {
    let (Some(add), Some(end)) =
        (api!(RedisModule_DigestAddStringBuffer), api!(RedisModule_DigestEndSequence))
    else {
        return;
    };
    // SAFETY: a value of the type, which nothing changes during the callback.
    let filter = unsafe { filter_at(value) };
    or_abort("digesting a filter", || {
        format::filter::digest(filter, &mut |bytes| {
            // SAFETY: the server's digest; the bytes are read before it returns.
            unsafe { add(digest, bytes.as_ptr().cast(), bytes.len()) };
        });
        // SAFETY: the server's digest.
        unsafe { end(digest) };
    });
}
