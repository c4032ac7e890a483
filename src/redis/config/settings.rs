//! Every setting, and what they are set to.

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use super::setting::{Kind, Setting, format_at};
use crate::bloom::limits::{
    CAPACITY_MAX_ITEMS, CAPACITY_MIN_ITEMS, EXPANSION_MAX, FILTER_MAX_MAX_BYTES, FILTER_MIN_MAX_BYTES,
};
use crate::command::Settings;

/// Whether large pages are wanted where nothing is configured. Linux from 5.8 on copies 4 KiB of a large page
/// that is written to while a child saves; older kernels copied all of it, which is why large pages have a
/// bad name with Redis: `no` is the right setting there.
const HUGE_PAGES_DEFAULT: bool = true;

/// All settings.
pub(in crate::redis) static SETTINGS: [Setting; 7] = [
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
    Setting::new([c"bf.format", c"bf-format"], None, Kind::Format, Settings::DEFAULT.format as u64),
    Setting::new(
        [c"bf.assume-redisbloom-1-1", c"bf-assume-redisbloom-1-1"],
        None,
        Kind::Switch,
        Settings::DEFAULT.assume_redisbloom_1_1 as u64,
    ),
    Setting::new([c"bf.huge-pages", c"bf-huge-pages"], None, Kind::Switch, HUGE_PAGES_DEFAULT as u64),
];

/// The settings now.
pub(in crate::redis) fn settings() -> Settings {
    let [error_rate, initial_size, expansion_factor, max_filter_bytes, format, assume_redisbloom_1_1, _] =
        &SETTINGS;
    Settings {
        error_rate: f64::from_bits(error_rate.value.load(Relaxed)),
        initial_size_items: initial_size.value.load(Relaxed),
        expansion_factor: u32::try_from(expansion_factor.value.load(Relaxed)).unwrap_or(EXPANSION_MAX),
        max_filter_bytes: max_filter_bytes.value.load(Relaxed),
        format: format_at(format.value.load(Relaxed)),
        assume_redisbloom_1_1: assume_redisbloom_1_1.value.load(Relaxed) == 1,
    }
}

/// Gives every setting the value and the default that it has in a module that was never loaded.
pub(in crate::redis) fn reset() {
    for setting in &SETTINGS {
        setting.default.store(setting.built_in, Relaxed);
        setting.value.store(setting.built_in, Relaxed);
        setting.replace_text(ptr::null_mut());
    }
}

/// Whether large bit arrays are to have large pages.
pub(in crate::redis) fn huge_pages_wanted() -> bool {
    let [.., huge_pages] = &SETTINGS;
    huge_pages.value.load(Relaxed) == 1
}
