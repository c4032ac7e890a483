//! The settings, their values, and the load arguments that set their defaults.
//!
//! Every setting is `bf.name`. Servers that can register names without the module's prefix (Redis 8) also have it as
//! `bf-name`, RedisBloom's spelling. Both names are one setting.

mod registration;
mod setting;

use std::borrow::Cow;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

pub(super) use self::registration::register;
use self::setting::{BadValue, Kind, Setting};
use crate::bloom::Format;
use crate::bloom::limits::{
    CAPACITY_MAX_ITEMS, CAPACITY_MIN_ITEMS, EXPANSION_MAX, FILTER_MAX_MAX_BYTES, FILTER_MIN_MAX_BYTES,
};
use crate::command::Settings;
use crate::command::words::FORMAT_WORDS;

/// The default of `bf.huge-pages`. While a child saves, Linux from 5.8 on copies only 4 KiB of a huge page that is
/// written to. Older kernels copy all of it; set `no` there.
const HUGE_PAGES_DEFAULT: bool = true;

/// The words of all formats, in the order of their numbers.
const FORMATS: &[&str] = &FORMAT_WORDS;
/// The words of a setting that is on or off.
const SWITCH: &[&str] = &["yes", "no"];
/// The words of `bf.missing-filter`.
const MISSING_WORDS: &[&str] = &["no", "error"];
/// The words of `bf.on-full`.
const FULL_WORDS: &[&str] = &["refuse", "saturate"];

/// Returns the position of a state among the words of [`SWITCH`].
const fn switch(is_on: bool) -> u64 {
    if is_on { 0 } else { 1 }
}

/// Positions of the settings.
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
pub(super) static SETTINGS: [Setting; 11] = [
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
        Kind::Choice(MISSING_WORDS),
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

/// Returns the number that represents the value of a setting.
fn value(place: usize) -> u64 {
    SETTINGS.get(place).map_or(0, |setting| setting.value.load(Relaxed))
}

fn is_on(place: usize) -> bool {
    value(place) == switch(true)
}

/// Returns the current settings.
pub(super) fn settings() -> Settings {
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

/// Resets the value and the default of every setting.
pub(super) fn reset() {
    for setting in &SETTINGS {
        setting.default.store(setting.built_in, Relaxed);
        setting.value.store(setting.built_in, Relaxed);
        // SAFETY: on the main thread, before the settings are registered: none of their texts is in use.
        unsafe { setting.replace_text(ptr::null_mut()) };
    }
}

/// Returns `bf.huge-pages`.
pub(super) fn huge_pages_wanted() -> bool {
    is_on(HUGE_PAGES)
}

/// Sets the defaults of settings from the arguments of MODULE LOAD, pairs of a name and a value. A name is
/// RedisBloom's old word (`ERROR_RATE`) or that of the setting, with `bf.`, with `bf-` or without a prefix, in any
/// case. RedisBloom's settings of cuckoo filters are ignored. Returns warnings for the log.
///
/// # Errors
/// A line for the log, RedisBloom's if it has one. The module must not load.
pub(super) fn apply_arguments(arguments: &[&[u8]]) -> Result<Vec<String>, String> {
    // A single empty argument counts as none, as in RedisBloom: launchers pass an unset variable that way.
    if arguments == [b"".as_slice()] {
        return Ok(Vec::new());
    }
    let mut warnings = Vec::new();
    let (pairs, rest) = arguments.as_chunks::<2>();
    if let [word] = rest {
        return Err(format!("Invalid number of arguments passed: no value for '{}'", text(word)));
    }
    for [word, value] in pairs {
        if is_of_cuckoo_filters(word) {
            warnings.push(format!("'{}' is ignored: this module has no cuckoo filters", text(word)));
            continue;
        }
        let setting = SETTINGS
            .iter()
            .find(|setting| is_named(setting, word))
            .ok_or_else(|| format!("Unrecognized option '{}'", text(word)))?;
        setting.set_default(value).map_err(|bad| describe(bad, word, setting))?;
    }
    Ok(warnings)
}

/// Returns whether a name is a setting of RedisBloom's cuckoo filters, such as `CF_MAX_EXPANSIONS` or `cf-bucket-size`.
fn is_of_cuckoo_filters(word: &[u8]) -> bool {
    word.get(..3)
        .is_some_and(|start| [b"cf-", b"cf_"].iter().any(|prefix| start.eq_ignore_ascii_case(*prefix)))
}

/// Returns whether a word is one of the names of a setting.
fn is_named(setting: &Setting, word: &[u8]) -> bool {
    let plain = setting.dashed.to_bytes().strip_prefix(b"bf-").unwrap_or_default();
    [setting.dotted.to_bytes(), setting.dashed.to_bytes(), plain]
        .into_iter()
        .chain(setting.legacy.map(str::as_bytes))
        .any(|name| name.eq_ignore_ascii_case(word))
}

/// Returns the text for a bad value, with the name as in the arguments.
fn describe(bad: BadValue, word: &[u8], setting: &Setting) -> String {
    let name = text(word);
    match bad {
        BadValue::NotANumber => format!("Invalid argument for '{name}'"),
        BadValue::OutOfRange => format!("'{name}' must be in the range {}", setting.range_text()),
    }
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
