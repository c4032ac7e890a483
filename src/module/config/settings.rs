//! The settings: one row each, their values, and how they are read.

use std::borrow::Cow;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};

use redis_module::raw::RedisModuleString;

use crate::args::string_bytes;
use everbloom_command::error::quotable;
use everbloom_command::number::{is_ratio, parse_double, parse_integer};
use everbloom_command::words::FORMAT_WORDS;
use everbloom_command::{CuckooSettings, Settings};
use everbloom_filter::Format;
use everbloom_filter::limits::{
    CAPACITY_MAX_ITEMS, CAPACITY_MIN_ITEMS, CUCKOO_BUCKET_MAX_SLOTS, CUCKOO_CAPACITY_MAX_ITEMS,
    CUCKOO_CAPACITY_MIN_ITEMS, CUCKOO_ITERATIONS_MAX, CUCKOO_MAX_EXPANSIONS_MAX, EXPANSION_MAX,
    FILTER_MAX_MAX_BYTES, FILTER_MIN_MAX_BYTES, FOLLOW_LOG_MIN_BYTES, FOLLOW_MAX_BYTES,
};

/// The words of a setting that is on or off.
const SWITCH: SettingType = SettingType::Choice(&["yes", "no"]);

/// Returns the value of a switch that is on or off: the position of its word in [`SWITCH`].
const fn switch(is_on: bool) -> u64 {
    if is_on { 0 } else { 1 }
}

const DEFAULT: Settings = Settings::DEFAULT;
static ERROR_RATE: Setting = Setting::new("error-rate", SettingType::Rate, DEFAULT.error_rate.to_bits());
static INITIAL_SIZE: Setting = Setting::new(
    "initial-size",
    SettingType::Count { min: CAPACITY_MIN_ITEMS, max: CAPACITY_MAX_ITEMS },
    DEFAULT.initial_size_items,
);
static EXPANSION_FACTOR: Setting = Setting::new(
    "expansion-factor",
    SettingType::Count { min: 0, max: EXPANSION_MAX as u64 },
    DEFAULT.expansion_factor as u64,
);
static MAX_FILTER_BYTES: Setting = Setting::new(
    "max-filter-bytes",
    SettingType::Bytes { min: FILTER_MIN_MAX_BYTES, max: FILTER_MAX_MAX_BYTES },
    DEFAULT.max_filter_bytes,
);
static FORMAT: Setting = Setting::new("format", SettingType::Choice(&FORMAT_WORDS), DEFAULT.format as u64);
static MISSING_FILTER: Setting = Setting::new(
    "missing-filter",
    SettingType::Choice(&["no", "error"]),
    DEFAULT.missing_filter_is_error as u64,
);
static AUTO_CREATE: Setting = Setting::new("auto-create", SWITCH, switch(DEFAULT.auto_create));
static ON_FULL: Setting = Setting::new(
    "on-full",
    SettingType::Choice(&["refuse", "saturate"]),
    DEFAULT.fixed_filters_saturate as u64,
);
static KEYED: Setting = Setting::new("keyed", SWITCH, switch(DEFAULT.keyed));
static ASSUME_REDISBLOOM_1_1: Setting =
    Setting::new("assume-redisbloom-1-1", SWITCH, switch(DEFAULT.assume_redisbloom_1_1));
static FOLLOW_LOG_BYTES: Setting = Setting::new(
    "follow-log-bytes",
    SettingType::Bytes { min: FOLLOW_LOG_MIN_BYTES, max: FOLLOW_MAX_BYTES },
    DEFAULT.follow_log_bytes,
);
static FOLLOW_TOTAL_BYTES: Setting = Setting::new(
    "follow-total-bytes",
    SettingType::Bytes { min: 0, max: FOLLOW_MAX_BYTES },
    DEFAULT.follow_total_bytes,
);
static CUCKOO_BUCKET_SIZE: Setting = Setting::new(
    "cuckoo-bucket-size",
    SettingType::Count { min: 1, max: CUCKOO_BUCKET_MAX_SLOTS as u64 },
    DEFAULT.cuckoo.bucket_size_slots as u64,
);
static CUCKOO_INITIAL_SIZE: Setting = Setting::new(
    "cuckoo-initial-size",
    SettingType::Count { min: CUCKOO_CAPACITY_MIN_ITEMS, max: CUCKOO_CAPACITY_MAX_ITEMS },
    DEFAULT.cuckoo.initial_size_items,
);
static CUCKOO_MAX_ITERATIONS: Setting = Setting::new(
    "cuckoo-max-iterations",
    SettingType::Count { min: 1, max: CUCKOO_ITERATIONS_MAX as u64 },
    DEFAULT.cuckoo.max_iterations as u64,
);
static CUCKOO_EXPANSION_FACTOR: Setting = Setting::new(
    "cuckoo-expansion-factor",
    SettingType::Count { min: 0, max: EXPANSION_MAX as u64 },
    DEFAULT.cuckoo.expansion_factor as u64,
);
static CUCKOO_MAX_EXPANSIONS: Setting = Setting::new(
    "cuckoo-max-expansions",
    SettingType::Count { min: 1, max: CUCKOO_MAX_EXPANSIONS_MAX },
    DEFAULT.cuckoo.max_expansions as u64,
);
/// On by default. If a huge page is written to while a child saves, Linux from 5.8 on copies only 4 KiB of it. Older
/// kernels copy all of it, so `no` is better there.
static HUGE_PAGES: Setting = Setting::new("huge-pages", SWITCH, switch(true));

/// All settings.
pub(super) static SETTINGS: [&Setting; 18] = [
    &ERROR_RATE,
    &INITIAL_SIZE,
    &EXPANSION_FACTOR,
    &MAX_FILTER_BYTES,
    &FORMAT,
    &MISSING_FILTER,
    &AUTO_CREATE,
    &ON_FULL,
    &KEYED,
    &ASSUME_REDISBLOOM_1_1,
    &HUGE_PAGES,
    &FOLLOW_LOG_BYTES,
    &FOLLOW_TOTAL_BYTES,
    &CUCKOO_BUCKET_SIZE,
    &CUCKOO_INITIAL_SIZE,
    &CUCKOO_MAX_ITERATIONS,
    &CUCKOO_EXPANSION_FACTOR,
    &CUCKOO_MAX_EXPANSIONS,
];

/// Names of settings as load arguments of RedisBloom before 8.
const OLD_WORDS: [(&str, &str); 3] = [
    ("ERROR_RATE", "error-rate"),
    ("INITIAL_SIZE", "initial-size"),
    ("CF_MAX_EXPANSIONS", "cuckoo-max-expansions"),
];

pub(crate) fn settings() -> Settings {
    let format = usize::try_from(FORMAT.value()).ok().and_then(|place| Format::ALL.get(place));
    Settings {
        error_rate: f64::from_bits(ERROR_RATE.value()),
        initial_size_items: INITIAL_SIZE.value(),
        expansion_factor: u32::try_from(EXPANSION_FACTOR.value()).unwrap_or(EXPANSION_MAX),
        max_filter_bytes: MAX_FILTER_BYTES.value(),
        format: format.copied().unwrap_or_default(),
        missing_filter_is_error: MISSING_FILTER.value() == 1,
        auto_create: AUTO_CREATE.is_on(),
        fixed_filters_saturate: ON_FULL.value() == 1,
        keyed: KEYED.is_on(),
        assume_redisbloom_1_1: ASSUME_REDISBLOOM_1_1.is_on(),
        follow_log_bytes: FOLLOW_LOG_BYTES.value(),
        follow_total_bytes: FOLLOW_TOTAL_BYTES.value(),
        cuckoo: CuckooSettings {
            bucket_size_slots: u8::try_from(CUCKOO_BUCKET_SIZE.value()).unwrap_or(u8::MAX),
            initial_size_items: CUCKOO_INITIAL_SIZE.value(),
            max_iterations: u16::try_from(CUCKOO_MAX_ITERATIONS.value()).unwrap_or(u16::MAX),
            expansion_factor: u32::try_from(CUCKOO_EXPANSION_FACTOR.value()).unwrap_or(EXPANSION_MAX),
            max_expansions: usize::try_from(CUCKOO_MAX_EXPANSIONS.value()).unwrap_or(usize::MAX),
        },
    }
}

pub(crate) fn huge_pages_wanted() -> bool {
    HUGE_PAGES.is_on()
}

/// Whether values of RedisBloom's other types are carried: the load argument `CARRY`.
static CARRIES_OTHER_TYPES: AtomicBool = AtomicBool::new(true);

/// Returns whether values of RedisBloom's other types are carried.
pub(crate) fn carries_other_types() -> bool {
    CARRIES_OTHER_TYPES.load(Relaxed)
}

/// Resets the value and the default of every setting.
pub(crate) fn reset() {
    CARRIES_OTHER_TYPES.store(true, Relaxed);
    for setting in SETTINGS {
        setting.default.store(setting.built_in, Relaxed);
        setting.value.store(setting.built_in, Relaxed);
        // SAFETY: on the main thread, before the settings are registered: none of their texts is in use.
        unsafe { setting.replace_text(ptr::null_mut()) };
    }
}

/// Sets the defaults of settings from the arguments of MODULE LOAD, pairs of a name and a value. A name is
/// RedisBloom's old word (`ERROR_RATE`), its name (`cf-bucket-size`), or that of the setting, with `bf.`, with `bf-` or
/// without a prefix, in any case. `CARRY` is no setting.
///
/// # Errors
/// A line for the log. It begins with RedisBloom's text if it has one for this error. The module must not load.
pub(crate) fn apply_arguments(arguments: &[&[u8]]) -> Result<(), String> {
    // A single empty argument counts as none, as in RedisBloom: launchers pass an unset variable that way.
    if arguments == [b"".as_slice()] {
        return Ok(());
    }
    let (pairs, rest) = arguments.as_chunks::<2>();
    if let [word] = rest {
        return Err(format!("Invalid number of arguments passed: no value for '{}'", text(word)));
    }
    for [word, value] in pairs {
        let name = text(word);
        if word.eq_ignore_ascii_case(b"CARRY") {
            let is_wanted = ["no", "yes"].iter().position(|word| word.as_bytes().eq_ignore_ascii_case(value));
            let is_wanted = is_wanted.ok_or_else(|| {
                format!("Invalid argument for '{name}': '{}' is not yes or no", quotable(value))
            })?;
            CARRIES_OTHER_TYPES.store(is_wanted == 1, Relaxed);
            continue;
        }
        let setting = named(word).ok_or_else(|| format!("Unrecognized option '{name}'"))?;
        let value = setting.parse(value).map_err(|bad| {
            let value = quotable(value);
            match bad {
                BadValue::NotANumber(form) => {
                    format!("Invalid argument for '{name}': '{value}' is not {form}")
                }
                BadValue::OutOfRange => {
                    format!("'{name}' must be in the range {}, not '{value}'", setting.range_text())
                }
            }
        })?;
        setting.default.store(value, Relaxed);
        // The configuration may override the value.
        setting.value.store(value, Relaxed);
    }
    Ok(())
}

/// Returns the setting that a load argument names.
fn named(word: &[u8]) -> Option<&'static Setting> {
    let is = |name: &str| name.as_bytes().eq_ignore_ascii_case(word);
    let name = if has_prefix(word, "bf.") || has_prefix(word, "bf-") { word.get(3..)? } else { word };
    let old = OLD_WORDS.iter().find(|(old, _)| is(old));
    let name = old.map_or(name, |(_, name)| name.as_bytes());
    SETTINGS
        .into_iter()
        .find(|setting| setting.name.as_bytes().eq_ignore_ascii_case(name) || is(&setting.plain_name()))
}

fn has_prefix(word: &[u8], prefix: &str) -> bool {
    word.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// One setting.
pub(super) struct Setting {
    /// Its name without a prefix.
    pub(super) name: &'static str,
    pub(super) setting_type: SettingType,
    /// The default without load arguments.
    built_in: u64,
    value: AtomicU64,
    pub(super) default: AtomicU64,
    /// The text that CONFIG GET shows, which this setting owns. Null until the setting is set by a text or shown.
    text: AtomicPtr<RedisModuleString>,
}

/// The type of a setting.
#[derive(Clone, Copy)]
pub(super) enum SettingType {
    /// A number strictly between 0 and 1, stored as the bits of a double.
    Rate,
    /// An integer in this range.
    Count { min: u64, max: u64 },
    /// A number of bytes in this range, with an optional unit such as `gb`.
    Bytes { min: u64, max: u64 },
    /// One of these words, stored as its position.
    Choice(&'static [&'static str]),
}

/// Why a text is not a value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadValue {
    /// The text is not a number. Holds the form of a value, with an example.
    NotANumber(&'static str),
    /// The value is not in the range.
    OutOfRange,
}

impl Setting {
    const fn new(name: &'static str, setting_type: SettingType, built_in: u64) -> Self {
        let (value, default) = (AtomicU64::new(built_in), AtomicU64::new(built_in));
        Self { name, setting_type, built_in, value, default, text: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns the name without the module's prefix: RedisBloom's, if it has this setting.
    pub(super) fn plain_name(&self) -> String {
        let (prefix, name) = self.name.strip_prefix("cuckoo-").map_or(("bf", self.name), |name| ("cf", name));
        format!("{prefix}-{name}")
    }

    pub(super) fn value(&self) -> u64 {
        self.value.load(Relaxed)
    }

    fn is_on(&self) -> bool {
        self.value() == switch(true)
    }

    /// Returns the range as RedisBloom writes it.
    pub(super) fn range_text(&self) -> String {
        match self.setting_type {
            SettingType::Rate => "(0.000000, 1.000000)".to_owned(),
            SettingType::Count { min, max } | SettingType::Bytes { min, max } => format!("[{min}, {max}]"),
            SettingType::Choice(words) => words.join(", "),
        }
    }

    pub(super) fn parse(&self, text: &[u8]) -> Result<u64, BadValue> {
        match self.setting_type {
            SettingType::Rate => {
                let rate = parse_double(text).ok_or(BadValue::NotANumber("a number, such as 0.01"))?;
                is_ratio(rate).then_some(rate.to_bits())
            }
            SettingType::Count { min, max } => {
                let count = parse_integer(text).ok_or(BadValue::NotANumber("an integer, such as 1000000"))?;
                u64::try_from(count).ok().filter(|count| (min..=max).contains(count))
            }
            SettingType::Bytes { min, max } => {
                let bytes =
                    parse_bytes(text).ok_or(BadValue::NotANumber("a number of bytes, such as 4gb"))?;
                bytes.filter(|bytes| (min..=max).contains(bytes))
            }
            SettingType::Choice(words) => {
                let place = words.iter().position(|word| word.as_bytes().eq_ignore_ascii_case(text));
                place.map(|place| place as u64)
            }
        }
        .ok_or(BadValue::OutOfRange)
    }

    pub(super) fn format(&self, value: u64) -> String {
        match self.setting_type {
            SettingType::Rate => f64::from_bits(value).to_string(),
            SettingType::Count { .. } | SettingType::Bytes { .. } => value.to_string(),
            SettingType::Choice(words) => {
                let word = usize::try_from(value).ok().and_then(|place| words.get(place));
                word.copied().unwrap_or_default().to_owned()
            }
        }
    }

    pub(super) fn set(&self, value: u64) {
        self.value.store(value, Relaxed);
    }

    /// Returns the text for CONFIG GET. It is the text with which the setting was set, or the formatted value if it was
    /// set as a number.
    pub(super) fn text(&self) -> *mut RedisModuleString {
        let text = self.text.load(Relaxed);
        // SAFETY: this setting owns the text. Only the main thread replaces it, and this runs on the main thread.
        if !text.is_null() && self.parse(unsafe { string_bytes(text) }) == Ok(self.value()) {
            return text;
        }
        let text = new_string(&self.format(self.value()));
        // SAFETY: the new text was just made without a context. The server has copied the last one before this call.
        unsafe { self.replace_text(text) };
        text
    }

    /// Takes ownership of a text and frees the last one.
    ///
    /// # Safety
    /// `text` must be null, or alive and the caller's own to give away, made or retained without a context. Nothing
    /// that [`text`](Self::text) has returned may be used afterwards. Only the main thread may call this.
    pub(super) unsafe fn replace_text(&self, text: *mut RedisModuleString) {
        let last = self.text.swap(text, Relaxed);
        if let Some(free) = api!(RedisModule_FreeString).filter(|_| !last.is_null()) {
            // SAFETY: this setting owned the last text, which is not used again. It was made or retained without a
            // context, so it is freed without one.
            unsafe { free(ptr::null_mut(), last) };
        }
    }
}

/// Returns a number of bytes, written with or without a unit of redis.conf; `Some(None)` if the number is negative or
/// too large.
fn parse_bytes(text: &[u8]) -> Option<Option<u64>> {
    const UNITS: [(&str, u64); 7] = [
        ("kb", 1 << 10),
        ("mb", 1 << 20),
        ("gb", 1 << 30),
        ("k", 1_000),
        ("m", 1_000_000),
        ("g", 1_000_000_000),
        ("b", 1),
    ];
    let text = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
    let unit = UNITS.iter().find_map(|(name, bytes)| Some((text.strip_suffix(name)?, *bytes)));
    let (number, unit_bytes) = unit.unwrap_or((&text, 1));
    let number = parse_integer(number.as_bytes())?;
    Some(u64::try_from(number).ok().and_then(|number| number.checked_mul(unit_bytes)))
}

/// Returns a string of the server; null if there is no memory.
pub(super) fn new_string(text: &str) -> *mut RedisModuleString {
    let Some(create) = api!(RedisModule_CreateString) else { return ptr::null_mut() };
    // SAFETY: no context is needed. The bytes are copied.
    unsafe { create(ptr::null_mut(), text.as_ptr().cast(), text.len()) }
}
