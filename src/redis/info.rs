//! The sections of INFO. The server also calls this for a crash report, so it allocates nothing and accesses no
//! filter.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::api::{Context, succeeded};
use super::log;
use super::stats::{self, EVENTS, Totals};
use crate::bloom::filter::kind::{KIND_COUNT, KINDS};

/// The release. MODULE LIST shows a number only.
const RELEASE: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(release) => release,
    Err(_) => c"",
};

/// Registers the sections. Returns false, with a line in the log, if the server refuses.
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

/// A section and its fields. The server adds the prefix `bf_` to both. The first section has no other name.
struct Section {
    name: &'static CStr,
    fields: &'static [Field],
}

/// The name of a field, and its value from the current totals.
type Field = (&'static CStr, fn(&Now) -> u64);

/// The totals of each kind, all read before the first field is written. Other threads may free filters meanwhile, and
/// the sums must equal those of the kinds.
type Now = [Totals<u64>; KIND_COUNT];

/// One of the totals of a kind.
type OfKind = fn(&Totals<u64>) -> u64;

/// The fields of the section of each kind: the suffix of the name, and the value.
static OF_KIND: [(&str, OfKind); 5] = [
    ("_filters", |kind| kind.filters),
    ("_bytes", |kind| kind.bytes),
    ("_layers", |kind| kind.layers),
    ("_items", |kind| kind.items),
    ("_capacity", |kind| kind.capacity_items),
];

/// The name of a section or a field, built without an allocation.
struct Name([u8; Self::MAX_BYTES]);

impl Name {
    /// Largest length of a name in bytes, with its NUL.
    const MAX_BYTES: usize = 64;

    /// Returns the concatenation of the parts.
    fn of(parts: [&str; 2]) -> Self {
        let mut name = [0; Self::MAX_BYTES];
        let bytes = parts.iter().flat_map(|part| part.bytes()).take(Self::MAX_BYTES - 1);
        name.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        Self(name)
    }

    fn text(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// All names are stable: docs/monitoring.md. After the first section, each kind has one.
static SECTIONS: [Section; 3] = [
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
    // valkey-bloom's names, which exporters use.
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

/// Returns a total over all kinds.
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
    // SAFETY: the context is the server's. The name is copied.
    let begin = |name: &CStr| succeeded(unsafe { add_section(info, name.as_ptr()) });
    let write = |name: &CStr, value: u64| {
        // SAFETY: as above, within the section that was begun last. The name is copied.
        unsafe { add_field(info, name.as_ptr(), value) };
    };
    for section in &SECTIONS {
        let is_first = section.name.is_empty();
        if begin(section.name) {
            if is_first {
                // SAFETY: as above, within the section that was just begun. Both strings live forever.
                unsafe { add_text(info, c"release".as_ptr(), RELEASE.as_ptr()) };
            }
            section.fields.iter().for_each(|(name, value)| write(name, value(&now)));
        }
        if is_first {
            for (row, totals) in KINDS.iter().zip(&now) {
                if begin(Name::of([row.info_name, ""]).text()) {
                    let fields = OF_KIND.iter();
                    fields.for_each(|(name, value)| {
                        write(Name::of([row.info_name, name]).text(), value(totals))
                    });
                }
            }
        }
    }
}
