//! The settings: their values, and how the server reads and writes them.
//!
//! Every setting is `bf.name`. Servers that can register names without the module's prefix (Redis 8) know it as
//! `bf-name` too, RedisBloom's spelling; both names are one setting.

mod registration;

pub(super) use registration::register;

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};

use redis_module::raw::RedisModuleString;

use super::args::string_bytes;
use super::huge_pages;
use crate::bloom::Format;
use crate::bloom::limits::{
    CAPACITY_MAX_ITEMS, CAPACITY_MIN_ITEMS, EXPANSION_MAX, FILTER_MAX_MAX_BYTES, FILTER_MIN_MAX_BYTES,
};
use crate::command::Settings;
use crate::command::number::{parse_double, parse_integer};

/// What a setting holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A number strictly between 0 and 1, stored as the bits of a double.
    Rate,
    /// A whole number in this range.
    Count { min: u64, max: u64 },
    /// A number of bytes in this range; units such as `gb` are understood.
    Bytes { min: u64, max: u64 },
    /// A format by its name, stored as its place among all formats.
    Format,
    /// `yes` or `no`, stored as 1 or 0.
    Switch,
}

/// One setting.
pub(super) struct Setting {
    /// Its name as `bf.name`.
    pub(super) dotted: &'static CStr,
    /// Its name as `bf-name`.
    pub(super) dashed: &'static CStr,
    /// Its name as a load argument of RedisBloom before 8.
    pub(super) legacy: Option<&'static str>,
    kind: Kind,
    /// The default where no load argument says otherwise.
    built_in: u64,
    value: AtomicU64,
    default: AtomicU64,
    /// The text that CONFIG GET shows, as it was set; null before it is first asked for. Owned.
    text: AtomicPtr<RedisModuleString>,
}

/// Why a text is no value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadValue {
    /// Not a number.
    NotANumber,
    /// Not in the range.
    OutOfRange,
}

/// All settings.
pub(super) static SETTINGS: [Setting; 7] = [
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
    Setting::new([c"bf.huge-pages", c"bf-huge-pages"], None, Kind::Switch, huge_pages::DEFAULT as u64),
];

/// Whether the server is giving the settings their first values.
static IS_LOADING: AtomicBool = AtomicBool::new(false);

/// The settings now.
pub(super) fn settings() -> Settings {
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
pub(super) fn reset() {
    for setting in &SETTINGS {
        setting.default.store(setting.built_in, Relaxed);
        setting.value.store(setting.built_in, Relaxed);
        setting.replace_text(ptr::null_mut());
    }
}

/// Whether large bit arrays are to have large pages.
pub(super) fn huge_pages_wanted() -> bool {
    let [.., huge_pages] = &SETTINGS;
    huge_pages.value.load(Relaxed) == 1
}

/// The format at a place among all formats.
fn format_at(index: u64) -> Format {
    usize::try_from(index).ok().and_then(|index| Format::ALL.get(index)).copied().unwrap_or_default()
}

impl Setting {
    const fn new(
        [dotted, dashed]: [&'static CStr; 2],
        legacy: Option<&'static str>,
        kind: Kind,
        default: u64,
    ) -> Self {
        Self {
            dotted,
            dashed,
            legacy,
            kind,
            built_in: default,
            value: AtomicU64::new(default),
            default: AtomicU64::new(default),
            text: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Makes `text` the default, to which the configuration is set unless it says otherwise.
    pub(super) fn set_default(&self, text: &[u8]) -> Result<(), BadValue> {
        let value = self.parse(text)?;
        self.default.store(value, Relaxed);
        self.value.store(value, Relaxed);
        Ok(())
    }

    /// The range as RedisBloom writes it.
    pub(super) fn range_text(&self) -> String {
        match self.kind {
            Kind::Rate => "(0.000000, 1.000000)".to_owned(),
            Kind::Count { min, max } | Kind::Bytes { min, max } => format!("[{min}, {max}]"),
            Kind::Format => Format::ALL.map(Format::name).join(", "),
            Kind::Switch => "yes, no".to_owned(),
        }
    }

    fn parse(&self, text: &[u8]) -> Result<u64, BadValue> {
        match self.kind {
            Kind::Rate => {
                let rate = parse_double(text).ok_or(BadValue::NotANumber)?;
                (rate > 0.0 && rate < 1.0).then_some(rate.to_bits())
            }
            Kind::Count { min, max } => {
                let count = parse_integer(text).ok_or(BadValue::NotANumber)?;
                u64::try_from(count).ok().filter(|count| (min..=max).contains(count))
            }
            Kind::Bytes { min, max } => {
                let bytes = parse_bytes(text).ok_or(BadValue::NotANumber)?;
                bytes.filter(|bytes| (min..=max).contains(bytes))
            }
            Kind::Format => Format::from_name(text).map(|format| format as u64),
            Kind::Switch if text.eq_ignore_ascii_case(b"yes") => Some(1),
            Kind::Switch => text.eq_ignore_ascii_case(b"no").then_some(0),
        }
        .ok_or(BadValue::OutOfRange)
    }

    fn format(&self, value: u64) -> String {
        match self.kind {
            Kind::Rate => f64::from_bits(value).to_string(),
            Kind::Count { .. } | Kind::Bytes { .. } => value.to_string(),
            Kind::Format => format_at(value).name().to_owned(),
            Kind::Switch => if value == 1 { "yes" } else { "no" }.to_owned(),
        }
    }

    /// Takes a value from the server. While it loads the configuration, a default changes nothing: with two names,
    /// the default of the one that is not configured must not undo the value of the other.
    fn set(&self, value: u64) {
        if !(IS_LOADING.load(Relaxed) && value == self.default.load(Relaxed)) {
            self.value.store(value, Relaxed);
        }
    }

    /// The text for CONFIG GET: as it was set, or written out when the value came as a number.
    fn text(&self) -> *mut RedisModuleString {
        let value = self.value.load(Relaxed);
        let text = self.text.load(Relaxed);
        if !text.is_null() {
            // SAFETY: the text is owned by this setting, and only the main thread, which runs this, replaces it.
            let bytes = unsafe { string_bytes(text) };
            if self.parse(bytes) == Ok(value) {
                return text;
            }
        }
        let text = new_string(&self.format(value));
        self.replace_text(text);
        text
    }

    /// Takes ownership of a text and gives up the last one.
    fn replace_text(&self, text: *mut RedisModuleString) {
        let last = self.text.swap(text, Relaxed);
        if let Some(free) = api!(RedisModule_FreeString).filter(|_| !last.is_null()) {
            // SAFETY: the last text was owned by this setting and is not used again; strings that were made or
            // retained without a context are freed without one.
            unsafe { free(ptr::null_mut(), last) };
        }
    }
}

/// A number of bytes, with one of the units of redis.conf; `Some(None)` when it is too large to write down.
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

fn new_string(text: &str) -> *mut RedisModuleString {
    let Some(create) = api!(RedisModule_CreateString) else { return ptr::null_mut() };
    // SAFETY: no context is needed; the bytes are copied.
    unsafe { create(ptr::null_mut(), text.as_ptr().cast(), text.len()) }
}
