//! The sections of INFO. It also runs while the server writes a crash report, so it allocates nothing and
//! touches no filter.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::api::{Context, succeeded};
use super::log;
use super::stats::{self, EVENTS, Totals};
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

/// The name of a field, and its value, by the totals of this moment.
type Field = (&'static CStr, fn(&Now) -> u64);

/// What there is of each kind, all read before the first field is written: filters are freed on other threads meanwhile,
/// and the sums must be those of the kinds.
type Now = [Totals<u64>; Kind::ALL.len()];

/// The section of the kind with that place among all kinds.
macro_rules! of_kind {
    ($place:literal, $section:literal, $name:literal) => {
        Section {
            name: $section,
            fields: &[
                (terminated(concat!($name, "_filters\0")), |now| now[$place].filters),
                (terminated(concat!($name, "_bytes\0")), |now| now[$place].bytes),
                (terminated(concat!($name, "_layers\0")), |now| now[$place].layers),
                (terminated(concat!($name, "_items\0")), |now| now[$place].items),
                (terminated(concat!($name, "_capacity\0")), |now| now[$place].capacity_items),
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
            (c"filters", |now| sum(now, |kind| kind.filters)),
            (c"items", |now| sum(now, |kind| kind.items)),
            (c"bytes", |now| sum(now, |kind| kind.bytes)),
            (c"adds", |_| EVENTS.adds_new.get()),
            (c"checks", |_| EVENTS.checks_found.get().wrapping_add(EVENTS.checks_missed.get())),
            (c"layers", |now| sum(now, |kind| kind.layers)),
            (c"capacity", |now| sum(now, |kind| kind.capacity_items)),
            (c"adds_known", |_| EVENTS.adds_known.get()),
            (c"adds_refused", |_| EVENTS.adds_refused.get()),
            (c"checks_found", |_| EVENTS.checks_found.get()),
            (c"checks_missed", |_| EVENTS.checks_missed.get()),
            (c"growths", |_| EVENTS.growths.get()),
            (c"load_errors", |_| EVENTS.load_errors.get()),
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
            (c"bloom_total_memory_bytes", |now| sum(now, |kind| kind.bytes)),
            (c"bloom_num_objects", |now| sum(now, |kind| kind.filters)),
            (c"bloom_num_filters_across_objects", |now| sum(now, |kind| kind.layers)),
            (c"bloom_num_items_across_objects", |now| sum(now, |kind| kind.items)),
            (c"bloom_capacity_across_objects", |now| sum(now, |kind| kind.capacity_items)),
        ],
    },
    Section {
        name: c"bloom_defrag_metrics",
        fields: &[
            (c"bloom_defrag_hits", |_| EVENTS.defrag_hits.get()),
            (c"bloom_defrag_misses", |_| EVENTS.defrag_misses.get()),
        ],
    },
];

/// A total over all kinds.
fn sum(now: &Now, total: fn(&Totals<u64>) -> u64) -> u64 {
    now.iter().fold(0, |sum, kind| sum.wrapping_add(total(kind)))
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
    let now = stats::now();
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
            unsafe { add_field(info, name.as_ptr(), value(&now)) };
        }
    }
}
