//! The settings: their values, and how the server reads and writes them.
//!
//! Every setting is `bf.name`. Servers that can register names without the module's prefix (Redis 8) know it as
//! `bf-name` too, RedisBloom's spelling; both names are one setting.

use std::ffi::{CStr, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};

use redis_module::raw::{self, RedisModuleString};

use super::api::{Context, ERR, OK, succeeded};
use super::args::string_bytes;
use super::huge_pages;
use super::log;
use super::server::Server;
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

/// One name of a setting, as the server hands it to the callbacks.
struct Name {
    name: &'static CStr,
    setting: &'static Setting,
}

/// Registers every setting and lets the server give it its value. Answers false, with a line in the log, when a name
/// is taken or a configured value is not possible; the module must not load then.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn register(context: Context, server: Server) -> bool {
    for setting in &SETTINGS {
        // SAFETY: the context is OnLoad's by the caller's word.
        let mut registered = unsafe { register_name(context, setting, setting.dotted, 0) };
        if server.knows_plain_names() && registered {
            let flags = raw::REDISMODULE_CONFIG_UNPREFIXED;
            // SAFETY: the context is OnLoad's by the caller's word.
            registered = unsafe { register_name(context, setting, setting.dashed, flags) };
        }
        if !registered {
            let name = setting.dotted.to_string_lossy();
            log::warning(context, &format!("cannot register the setting {name}: is the name taken?"));
            return false;
        }
    }
    let Some(load_configs) = api!(RedisModule_LoadConfigs) else { return false };
    IS_LOADING.store(true, Relaxed);
    // SAFETY: the context is OnLoad's by the caller's word.
    let status = unsafe { load_configs(context) };
    IS_LOADING.store(false, Relaxed);
    if !succeeded(status) {
        log::warning(context, "a configured value of a bf setting is not possible; the module is not loaded");
    }
    succeeded(status)
}

/// # Safety
/// As [`register`].
unsafe fn register_name(
    context: Context,
    setting: &'static Setting,
    name: &'static CStr,
    flags: c_uint,
) -> bool {
    let (Some(register_string), Some(register_numeric)) =
        (api!(RedisModule_RegisterStringConfig), api!(RedisModule_RegisterNumericConfig))
    else {
        return false;
    };
    let is_plain = flags & raw::REDISMODULE_CONFIG_UNPREFIXED != 0;
    // The server puts the module's name in front of names that are not plain.
    let registered_name = if is_plain { name } else { strip_prefix(name) };
    let default = setting.default.load(Relaxed);
    // The server keeps the address for as long as the module is loaded.
    let name_address: *mut c_void = ptr::from_mut(Box::leak(Box::new(Name { name, setting }))).cast();
    let status = match setting.kind {
        // RedisBloom's names have RedisBloom's texts for bad values, which only a string setting can give.
        Kind::Count { min, max } if !is_plain => {
            // SAFETY: the context is OnLoad's by the caller's word; the name is copied; callbacks and their argument
            // live as long as the module.
            unsafe {
                register_numeric(
                    context,
                    registered_name.as_ptr(),
                    default.cast_signed(),
                    flags,
                    min.cast_signed(),
                    max.cast_signed(),
                    Some(get_number),
                    Some(set_number),
                    None,
                    name_address,
                )
            }
        }
        Kind::Bytes { min, max } => {
            // SAFETY: as above.
            unsafe {
                register_numeric(
                    context,
                    registered_name.as_ptr(),
                    default.cast_signed(),
                    flags | raw::REDISMODULE_CONFIG_MEMORY,
                    min.cast_signed(),
                    max.cast_signed(),
                    Some(get_number),
                    Some(set_number),
                    None,
                    name_address,
                )
            }
        }
        Kind::Rate | Kind::Count { .. } | Kind::Format | Kind::Switch => {
            let default = log::c_text(&setting.format(default));
            // SAFETY: as above; the default is copied too.
            unsafe {
                register_string(
                    context,
                    registered_name.as_ptr(),
                    default.as_ptr(),
                    flags,
                    Some(get_text),
                    Some(set_text),
                    None,
                    name_address,
                )
            }
        }
    };
    succeeded(status)
}

/// The name without the module's prefix `bf.`.
fn strip_prefix(name: &'static CStr) -> &'static CStr {
    let bytes = name.to_bytes_with_nul();
    let rest = bytes.strip_prefix(b"bf.").unwrap_or(bytes);
    CStr::from_bytes_with_nul(rest).unwrap_or(name)
}

/// # Safety
/// `name` must be an address that [`register_name`] gave to the server.
unsafe fn name_at(name: *mut c_void) -> &'static Name {
    // SAFETY: `register_name` leaked it and nothing changes it.
    unsafe { &*name.cast::<Name>() }
}

/// # Safety
/// Called by the server only, with the argument it was registered with.
unsafe extern "C" fn get_number(_name: *const std::ffi::c_char, name: *mut c_void) -> std::ffi::c_longlong {
    // SAFETY: the server passes on what it was registered with.
    let Name { setting, .. } = unsafe { name_at(name) };
    setting.value.load(Relaxed).cast_signed()
}

/// # Safety
/// Called by the server only, with the argument it was registered with and a value in the registered range.
unsafe extern "C" fn set_number(
    _name: *const std::ffi::c_char,
    value: std::ffi::c_longlong,
    name: *mut c_void,
    _error: *mut *mut RedisModuleString,
) -> std::ffi::c_int {
    // SAFETY: the server passes on what it was registered with.
    let Name { setting, .. } = unsafe { name_at(name) };
    setting.set(value.cast_unsigned());
    OK
}

/// # Safety
/// Called by the server only, with the argument it was registered with.
unsafe extern "C" fn get_text(_name: *const std::ffi::c_char, name: *mut c_void) -> *mut RedisModuleString {
    // SAFETY: the server passes on what it was registered with.
    let Name { setting, .. } = unsafe { name_at(name) };
    catch_unwind(AssertUnwindSafe(|| setting.text())).unwrap_or(ptr::null_mut())
}

/// # Safety
/// Called by the server only, with a living string, the argument it was registered with and a place for an error.
unsafe extern "C" fn set_text(
    _name: *const std::ffi::c_char,
    value: *mut RedisModuleString,
    name: *mut c_void,
    error: *mut *mut RedisModuleString,
) -> std::ffi::c_int {
    // SAFETY: the server passes on what it was registered with.
    let Name { name, setting } = unsafe { name_at(name) };
    // SAFETY: the string is alive for this call.
    let text = unsafe { string_bytes(value) };
    let outcome =
        catch_unwind(AssertUnwindSafe(|| setting.parse(text).map_err(|bad| describe(bad, name, setting))));
    match outcome {
        Ok(Ok(new_value)) => {
            setting.set(new_value);
            if let Some(retain) = api!(RedisModule_RetainString) {
                // SAFETY: the string is alive; without a context it stays so until `replace_text` frees it.
                unsafe { retain(ptr::null_mut(), value) };
                setting.replace_text(value);
            }
            OK
        }
        Ok(Err(text)) => {
            // SAFETY: the server gives a place for an error and frees the string it finds there.
            unsafe { error.write(new_string(&text)) };
            ERR
        }
        Err(_) => ERR,
    }
}

/// RedisBloom's text for a bad value.
fn describe(bad: BadValue, name: &CStr, setting: &Setting) -> String {
    let name = name.to_string_lossy();
    match bad {
        BadValue::NotANumber => format!("Invalid value for `{name}`"),
        BadValue::OutOfRange => format!("Value for `{name}` must be in the range {}", setting.range_text()),
    }
}

fn new_string(text: &str) -> *mut RedisModuleString {
    let Some(create) = api!(RedisModule_CreateString) else { return ptr::null_mut() };
    // SAFETY: no context is needed; the bytes are copied.
    unsafe { create(ptr::null_mut(), text.as_ptr().cast(), text.len()) }
}
