//! The sections of INFO. It also runs while the server writes a crash report, so it allocates nothing and
//! touches no filter.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::api::{Context, succeeded};
use super::log;
use super::stats::{Count, EVENTS, Totals, totals};
use crate::bloom::Kind;

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

/// A section and its fields; the server puts `bf_` before both. The first is named after the module alone.
struct Section {
    name: &'static CStr,
    fields: &'static [Field],
}

/// The name of a field, and its value now.
type Field = (&'static CStr, fn() -> u64);

/// The section of the kind with that place among all kinds.
macro_rules! of_kind {
    ($place:literal, $section:literal, $name:literal) => {
        Section {
            name: $section,
            fields: &[
                (terminated(concat!($name, "_filters\0")), || of::<$place>(|totals| &totals.filters)),
                (terminated(concat!($name, "_bytes\0")), || of::<$place>(|totals| &totals.bytes)),
                (terminated(concat!($name, "_layers\0")), || of::<$place>(|totals| &totals.layers)),
                (terminated(concat!($name, "_items\0")), || of::<$place>(|totals| &totals.items)),
                (terminated(concat!($name, "_capacity\0")), || of::<$place>(|totals| &totals.capacity_items)),
            ],
        }
    };
}

/// A text that ends with its only NUL.
const fn terminated(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    }
}

/// All names are stable: docs/monitoring.md.
static SECTIONS: [Section; 11] = [
    Section {
        name: c"",
        fields: &[
            (c"filters", || sum(|totals| &totals.filters)),
            (c"items", || sum(|totals| &totals.items)),
            (c"bytes", || sum(|totals| &totals.bytes)),
            (c"adds", || EVENTS.adds_new.get()),
            (c"checks", || EVENTS.checks_found.get().wrapping_add(EVENTS.checks_missed.get())),
            (c"layers", || sum(|totals| &totals.layers)),
            (c"capacity", || sum(|totals| &totals.capacity_items)),
            (c"adds_known", || EVENTS.adds_known.get()),
            (c"adds_refused", || EVENTS.adds_refused.get()),
            (c"checks_found", || EVENTS.checks_found.get()),
            (c"checks_missed", || EVENTS.checks_missed.get()),
            (c"growths", || EVENTS.growths.get()),
            (c"load_errors", || EVENTS.load_errors.get()),
        ],
    },
    of_kind!(0, c"everbloom", "everbloom"),
    of_kind!(1, c"redisbloom", "redisbloom"),
    of_kind!(2, c"valkey_bloom", "valkey_bloom"),
    of_kind!(3, c"imported", "imported"),
    of_kind!(4, c"union", "union"),
    of_kind!(5, c"counting", "counting"),
    of_kind!(6, c"keyed", "keyed"),
    of_kind!(7, c"window", "window"),
    // valkey-bloom's own names, which exporters know.
    Section {
        name: c"bloom_core_metrics",
        fields: &[
            (c"bloom_total_memory_bytes", || sum(|totals| &totals.bytes)),
            (c"bloom_num_objects", || sum(|totals| &totals.filters)),
            (c"bloom_num_filters_across_objects", || sum(|totals| &totals.layers)),
            (c"bloom_num_items_across_objects", || sum(|totals| &totals.items)),
            (c"bloom_capacity_across_objects", || sum(|totals| &totals.capacity_items)),
        ],
    },
    Section {
        name: c"bloom_defrag_metrics",
        fields: &[
            (c"bloom_defrag_hits", || EVENTS.defrag_hits.get()),
            (c"bloom_defrag_misses", || EVENTS.defrag_misses.get()),
        ],
    },
];

/// A total over all kinds.
fn sum(total: fn(&'static Totals) -> &'static Count) -> u64 {
    Kind::ALL.into_iter().fold(0, |sum, kind| sum.wrapping_add(total(totals(kind)).get()))
}

/// A total of the kind with that place among all kinds.
#[expect(clippy::indexing_slicing, reason = "a place that no kind has does not compile")]
fn of<const PLACE: usize>(total: fn(&'static Totals) -> &'static Count) -> u64 {
    total(totals(const { Kind::ALL[PLACE] })).get()
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
    for section in &SECTIONS {
        // SAFETY: the context is the server's. The name is copied.
        let wanted = unsafe { add_section(info, section.name.as_ptr()) };
        if !succeeded(wanted) {
            continue;
        }
        if section.name.is_empty() {
            // SAFETY: as above, within the section that was just begun. Both strings live forever.
            unsafe { add_text(info, c"release".as_ptr(), RELEASE.as_ptr()) };
        }
        for (name, value) in section.fields {
            // SAFETY: as above, within the section that was just begun.
            unsafe { add_field(info, name.as_ptr(), value()) };
        }
    }
}
