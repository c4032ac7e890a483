//! The counts, and the sections of INFO that show them. Filters are also freed on background threads, so every count is
//! atomic.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::api::{Context, succeeded};
use super::followers;
use super::log;
use everbloom_command::table::KeyAccess;
use everbloom_command::totals::{Count, FilterTotals, KindTotals, TOTAL_NAMES};
use everbloom_command::{Command, Effects};
use everbloom_filter::filter::kind::KINDS;
use everbloom_format::carried::CarriedType;

// The following counts are of events since the module was loaded.

/// Items of adds that were new to their filter.
static ADDS_NEW: Count = Count::new();
/// Items of adds that have a life of their own.
static ADDS_WITH_LIFE: Count = Count::new();
/// Items of adds that their filter had already, or seemed to have.
static ADDS_KNOWN: Count = Count::new();
/// Items of adds that their filter refused.
static ADDS_REFUSED: Count = Count::new();
/// Checked items that may be in their filter.
static CHECKS_FOUND: Count = Count::new();
/// Checked items that are not in their filter.
static CHECKS_MISSED: Count = Count::new();
/// Layers and tables that filters have gained.
pub(super) static GROWTHS: Count = Count::new();
/// Values that could not be loaded.
pub(super) static LOAD_ERRORS: Count = Count::new();
/// Blocks that active defragmentation has moved.
static DEFRAG_HITS: Count = Count::new();
/// Blocks that active defragmentation has not moved.
static DEFRAG_MISSES: Count = Count::new();

/// The totals over all filters, in all databases.
pub(super) static TOTALS: FilterTotals = FilterTotals::new();

/// A type of RedisBloom besides Bloom filters.
#[derive(Clone, Copy)]
pub(super) enum OtherType {
    Cuckoo,
    Carried(CarriedType),
}

/// The names of these types in INFO: cuckoo filters, and the carried types in their order.
const OTHER_NAMES: [&str; 1 + CarriedType::ALL.len()] = ["cuckoo", "cms", "topk", "tdigest"];

/// The number and the bytes of the values of each of these types.
static OTHERS: [[Count; 2]; OTHER_NAMES.len()] = [const { [Count::new(), Count::new()] }; OTHER_NAMES.len()];

impl OtherType {
    #[expect(clippy::indexing_slicing, reason = "the number of a type")]
    const fn totals(self) -> &'static [Count; 2] {
        match self {
            Self::Cuckoo => &OTHERS[0],
            Self::Carried(carried) => &OTHERS[1 + carried as usize],
        }
    }

    /// Adds a value to the totals. Returns its bytes, for [`uncount`](Self::uncount).
    pub(super) fn count(self, bytes: u64) -> u64 {
        let [all_values, all_bytes] = self.totals();
        all_values.add(1);
        all_bytes.add(bytes);
        bytes
    }

    /// Removes a value, with the bytes that it was counted with, from the totals.
    pub(super) fn uncount(self, bytes: u64) {
        let [all_values, all_bytes] = self.totals();
        all_values.subtract(1);
        all_bytes.subtract(bytes);
    }
}

/// Counts the items of a command. The compiler knows the command, so only one arm remains.
#[inline(always)]
pub(super) fn count_items(command: Command, effects: &Effects<'_>) {
    match command.spec().key_access {
        KeyAccess::ReadOnly => {
            CHECKS_FOUND.add(effects.items_found.into());
            CHECKS_MISSED.add(effects.items_missed.into());
        }
        KeyAccess::ReadWrite => {
            ADDS_NEW.add(effects.items_added);
            ADDS_WITH_LIFE.add(effects.items_with_life);
            ADDS_KNOWN.add(effects.items_known.into());
            ADDS_REFUSED.add(effects.items_refused.into());
        }
    }
}

/// Counts a block that active defragmentation has moved or has not moved.
pub(super) fn count_defrag(was_moved: bool) {
    if was_moved { &DEFRAG_HITS } else { &DEFRAG_MISSES }.add(1);
}

/// The release. MODULE LIST shows a number only.
const RELEASE: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(release) => release,
    Err(_) => c"",
};

/// Registers the sections of INFO. Returns false, with a line in the log, if the server refuses.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn register(context: Context) -> bool {
    let Some(register) = api!(RedisModule_RegisterInfoFunc) else { return false };
    // SAFETY: the context is OnLoad's by the caller's contract. The function lives as long as the module.
    let registered = succeeded(unsafe { register(context, Some(write_info)) });
    if !registered {
        log::warning(context, "the server refused the section of INFO");
    }
    registered
}

/// Writes all sections of INFO. The server adds the prefix `bf_` to the names of sections and fields, which are stable:
/// docs/monitoring.md. The server also calls this for a crash report, so it allocates nothing and accesses no filter.
///
/// # Safety
/// Called by the server only, with the context of the INFO reply that is being written.
unsafe extern "C" fn write_info(info: *mut raw::RedisModuleInfoCtx, _for_crash_report: c_int) {
    let (Some(add_section), Some(add_field), Some(add_text)) = (
        api!(RedisModule_InfoAddSection),
        api!(RedisModule_InfoAddFieldULongLong),
        api!(RedisModule_InfoAddFieldCString),
    ) else {
        return;
    };
    // SAFETY: the context is the server's. The name is copied.
    let begin = |name: &CStr| succeeded(unsafe { add_section(info, name.as_ptr()) });
    let write = |name: &CStr, value: u64| {
        // SAFETY: the context is the server's, and a section was begun. The server copies the name.
        unsafe { add_field(info, name.as_ptr(), value) };
    };
    // All totals are read before the first field is written: other threads may free filters meanwhile, and the sums
    // must equal those of the kinds.
    let totals = TOTALS.numbers();
    let [filters, bytes, layers, items, capacity_items] = totals.iter().fold([0; 5], sum);
    let (found, missed) = (CHECKS_FOUND.get(), CHECKS_MISSED.get());
    if begin(c"") {
        // SAFETY: the context is the server's, and a section was begun. Both strings live forever.
        unsafe { add_text(info, c"release".as_ptr(), RELEASE.as_ptr()) };
        write(c"filters", filters);
        write(c"items", items);
        write(c"bytes", bytes);
        write(c"adds", ADDS_NEW.get());
        write(c"checks", found.wrapping_add(missed));
        write(c"layers", layers);
        write(c"capacity", capacity_items);
        write(c"adds_known", ADDS_KNOWN.get());
        write(c"adds_refused", ADDS_REFUSED.get());
        write(c"checks_found", found);
        write(c"checks_missed", missed);
        write(c"growths", GROWTHS.get());
        write(c"load_errors", LOAD_ERRORS.get());
        write(c"adds_with_life", ADDS_WITH_LIFE.get());
        let [followed, followed_bytes] = followers::counts();
        write(c"followed_filters", followed);
        write(c"followed_bytes", followed_bytes);
    }
    for (row, totals) in KINDS.iter().zip(totals) {
        if begin(InfoName::of([row.info_name, ""]).text()) {
            for (suffix, total) in TOTAL_NAMES.iter().zip(totals) {
                write(InfoName::of([row.info_name, suffix]).text(), total);
            }
        }
    }
    if begin(c"other_types") {
        for (name, [values, size_bytes]) in OTHER_NAMES.into_iter().zip(&OTHERS) {
            write(InfoName::of([name, "_values"]).text(), values.get());
            write(InfoName::of([name, "_bytes"]).text(), size_bytes.get());
        }
    }
    // valkey-bloom's names, which exporters use.
    if begin(c"bloom_core_metrics") {
        write(c"bloom_total_memory_bytes", bytes);
        write(c"bloom_num_objects", filters);
        write(c"bloom_num_filters_across_objects", layers);
        write(c"bloom_num_items_across_objects", items);
        write(c"bloom_capacity_across_objects", capacity_items);
    }
    if begin(c"bloom_defrag_metrics") {
        write(c"bloom_defrag_hits", DEFRAG_HITS.get());
        write(c"bloom_defrag_misses", DEFRAG_MISSES.get());
    }
}

fn sum(mut totals: KindTotals, others: &KindTotals) -> KindTotals {
    totals.iter_mut().zip(others).for_each(|(total, other)| *total = total.wrapping_add(*other));
    totals
}

/// The name of a section or a field, built without an allocation.
struct InfoName([u8; Self::MAX_BYTES]);

impl InfoName {
    /// Largest length of a name in bytes, with its NUL.
    const MAX_BYTES: usize = 64;

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
