//! Every setting, and what they are set to.

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use super::setting::{Kind, Setting};
use crate::bloom::Format;
use crate::bloom::limits::{
    CAPACITY_MAX_ITEMS, CAPACITY_MIN_ITEMS, EXPANSION_MAX, FILTER_MAX_MAX_BYTES, FILTER_MIN_MAX_BYTES,
};
use crate::command::Settings;
use crate::command::words::FORMAT_WORDS;

/// Whether large pages are wanted where nothing is configured. Linux from 5.8 on copies 4 KiB of a large page
/// that is written to while a child saves; older kernels copied all of it, which is why large pages have a
/// bad name with Redis: `no` is the right setting there.
const HUGE_PAGES_DEFAULT: bool = true;

/// The names of all formats, in the order of their numbers.
const FORMATS: &[&str] = &FORMAT_WORDS;
/// The words of a setting that is on or off.
const SWITCH: &[&str] = &["yes", "no"];
/// The words of `bf.missing-filter`.
const ANSWERS: &[&str] = &["no", "error"];
/// The words of `bf.on-full`.
const FULL_WORDS: &[&str] = &["refuse", "saturate"];

/// The place of a state among the words of [`SWITCH`].
const fn switch(is_on: bool) -> u64 {
    if is_on { 0 } else { 1 }
}

/// What `settings` and `huge_pages_wanted` read, by place.
const ERROR_RATE: usize = 0;
const INITIAL_SIZE: usize = 1;
const EXPANSION_FACTOR: usize = 2;
const MAX_FILTER_BYTES: usize = 3;
const FORMAT: usize = 4;
const MISSING_FILTER: usize = 5;
const AUTO_CREATE: usize = 6;
const FULL: usize = 7;
const KEYED: usize = 8;
const ASSUME_REDISBLOOM_1_1: usize = 9;
const HUGE_PAGES: usize = 10;

/// All settings.
pub(in crate::redis) static SETTINGS: [Setting; 11] = [
    Setting::new(
        [c"bf.error-rate", c"bf-error-rate"],
        Some("ERROR_RATE"),
        Kind::Rate,
        Settings::DEFAULT.error_rate.to_bits(),
    ),
    Setting::new(
        [c"bf.initial-size", c"bf-initial-size"],
        Some("INITIAL_SIZE"),
        Kind::Count { min: CAPACITY_MIN_ITEMS, max: CAPACITY_MAX_ITEMS },
        Settings::DEFAULT.initial_size_items,
    ),
    Setting::new(
        [c"bf.expansion-factor", c"bf-expansion-factor"],
        None,
        Kind::Count { min: 0, max: EXPANSION_MAX as u64 },
        Settings::DEFAULT.expansion_factor as u64,
    ),
    Setting::new(
        [c"bf.max-filter-bytes", c"bf-max-filter-bytes"],
        None,
        Kind::Bytes { min: FILTER_MIN_MAX_BYTES, max: FILTER_MAX_MAX_BYTES },
        Settings::DEFAULT.max_filter_bytes,
    ),
    Setting::new([c"bf.format", c"bf-format"], None, Kind::Choice(FORMATS), Settings::DEFAULT.format as u64),
    Setting::new(
        [c"bf.missing-filter", c"bf-missing-filter"],
        None,
        Kind::Choice(ANSWERS),
        Settings::DEFAULT.missing_filter_is_error as u64,
    ),
    Setting::new(
        [c"bf.auto-create", c"bf-auto-create"],
        None,
        Kind::Choice(SWITCH),
        switch(Settings::DEFAULT.auto_create),
    ),
    Setting::new(
        [c"bf.on-full", c"bf-on-full"],
        None,
        Kind::Choice(FULL_WORDS),
        Settings::DEFAULT.fixed_filters_saturate as u64,
    ),
    Setting::new([c"bf.keyed", c"bf-keyed"], None, Kind::Choice(SWITCH), switch(Settings::DEFAULT.keyed)),
    Setting::new(
        [c"bf.assume-redisbloom-1-1", c"bf-assume-redisbloom-1-1"],
        None,
        Kind::Choice(SWITCH),
        switch(Settings::DEFAULT.assume_redisbloom_1_1),
    ),
    Setting::new(
        [c"bf.huge-pages", c"bf-huge-pages"],
        None,
        Kind::Choice(SWITCH),
        switch(HUGE_PAGES_DEFAULT),
    ),
];

/// The number that stands for the value of the setting at a place.
fn value(place: usize) -> u64 {
    SETTINGS.get(place).map_or(0, |setting| setting.value.load(Relaxed))
}

fn is_on(place: usize) -> bool {
    value(place) == switch(true)
}

/// The settings now.
pub(in crate::redis) fn settings() -> Settings {
    let format = usize::try_from(value(FORMAT)).ok().and_then(|place| Format::ALL.get(place));
    Settings {
        error_rate: f64::from_bits(value(ERROR_RATE)),
        initial_size_items: value(INITIAL_SIZE),
        expansion_factor: u32::try_from(value(EXPANSION_FACTOR)).unwrap_or(EXPANSION_MAX),
        max_filter_bytes: value(MAX_FILTER_BYTES),
        format: format.copied().unwrap_or_default(),
        missing_filter_is_error: value(MISSING_FILTER) == 1,
        auto_create: is_on(AUTO_CREATE),
        fixed_filters_saturate: value(FULL) == 1,
        keyed: is_on(KEYED),
        assume_redisbloom_1_1: is_on(ASSUME_REDISBLOOM_1_1),
    }
}

/// Gives every setting the value and the default that it has in a module that was never loaded.
pub(in crate::redis) fn reset() {
    for setting in &SETTINGS {
        setting.default.store(setting.built_in, Relaxed);
        setting.value.store(setting.built_in, Relaxed);
        // SAFETY: on the main thread, before the settings are registered: nobody has a text of theirs.
        unsafe { setting.replace_text(ptr::null_mut()) };
    }
}

/// Whether large bit arrays are to have large pages.
pub(in crate::redis) fn huge_pages_wanted() -> bool {
    is_on(HUGE_PAGES)
}
