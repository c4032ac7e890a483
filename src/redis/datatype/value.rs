//! How the callbacks get at the filter behind a value, and what becomes of a panic in them.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bloom::Filter;
use crate::redis::log;
use crate::redis::stored::Stored;

/// The filter behind a value of the type.
///
/// # Safety
/// `value` must be a value of the type that is alive and not being changed for `'a`.
pub(super) unsafe fn filter_at<'a>(value: *const c_void) -> &'a Filter {
    // SAFETY: every value of the type is a boxed `Stored`; the rest is the caller's contract.
    let stored = unsafe { &*value.cast::<Stored>() };
    &stored.filter
}

/// A filter that came with its bits as a value of its type, for the server to own.
pub(super) fn hand_over(filter: Filter) -> *mut c_void {
    Box::into_raw(Stored::boxed(filter)).cast()
}

/// Runs the body; a panic ends the server, because what it leaves behind (a torn snapshot, a filter half
/// freed) is worse than that.
pub(super) fn or_abort<T>(what: &str, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| log::abort(what))
}
