//! A setting: its names, its values and their texts.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};

use redis_module::raw::RedisModuleString;

use crate::command::number::{parse_double, parse_integer};
use crate::redis::args::string_bytes;

/// The type of a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number strictly between 0 and 1, stored as the bits of a double.
    Rate,
    /// An integer in this range.
    Count { min: u64, max: u64 },
    /// A number of bytes in this range, with an optional unit such as `gb`.
    Bytes { min: u64, max: u64 },
    /// One of these words, stored as its position.
    Choice(&'static [&'static str]),
}

/// One setting.
pub(in crate::redis) struct Setting {
    /// Its name as `bf.name`.
    pub(in crate::redis) dotted: &'static CStr,
    /// Its name as `bf-name`.
    pub(in crate::redis) dashed: &'static CStr,
    /// Its name as a load argument of RedisBloom before 8.
    pub(in crate::redis) legacy: Option<&'static str>,
    pub(super) kind: Kind,
    /// The default without load arguments.
    pub(super) built_in: u64,
    pub(super) value: AtomicU64,
    pub(super) default: AtomicU64,
    /// The text that CONFIG GET shows, as it was set; null before the first CONFIG GET. Owned.
    text: AtomicPtr<RedisModuleString>,
}

/// Why a text is not a value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum BadValue {
    /// The text is not a number.
    NotANumber,
    /// The value is not in the range.
    OutOfRange,
}

/// Whether the server is setting the initial values.
pub(super) static IS_LOADING: AtomicBool = AtomicBool::new(false);

impl Setting {
    pub(super) const fn new(
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

    /// Sets the default, and the value, which the configuration may override.
    pub(in crate::redis) fn set_default(&self, text: &[u8]) -> Result<(), BadValue> {
        let value = self.parse(text)?;
        self.default.store(value, Relaxed);
        self.value.store(value, Relaxed);
        Ok(())
    }

    /// Returns the range as RedisBloom writes it.
    pub(in crate::redis) fn range_text(&self) -> String {
        match self.kind {
            Kind::Rate => "(0.000000, 1.000000)".to_owned(),
            Kind::Count { min, max } | Kind::Bytes { min, max } => format!("[{min}, {max}]"),
            Kind::Choice(words) => words.join(", "),
        }
    }

    /// Returns the value that a text represents.
    pub(super) fn parse(&self, text: &[u8]) -> Result<u64, BadValue> {
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
            Kind::Choice(words) => {
                let place = words.iter().position(|word| word.as_bytes().eq_ignore_ascii_case(text));
                place.map(|place| place as u64)
            }
        }
        .ok_or(BadValue::OutOfRange)
    }

    /// Returns the text of a value.
    pub(super) fn format(&self, value: u64) -> String {
        match self.kind {
            Kind::Rate => f64::from_bits(value).to_string(),
            Kind::Count { .. } | Kind::Bytes { .. } => value.to_string(),
            Kind::Choice(words) => {
                let word = usize::try_from(value).ok().and_then(|place| words.get(place));
                word.copied().unwrap_or_default().to_owned()
            }
        }
    }

    /// Sets the value. While the server loads the configuration, a default is ignored: a setting has two names, and
    /// the default of the name that is not configured must not replace the configured value of the other.
    pub(super) fn set(&self, value: u64) {
        if !(IS_LOADING.load(Relaxed) && value == self.default.load(Relaxed)) {
            self.value.store(value, Relaxed);
        }
    }

    /// Returns the text for CONFIG GET: as it was set, or formatted if it was set as a number.
    pub(super) fn text(&self) -> *mut RedisModuleString {
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
        // SAFETY: the new text was just made without a context. The server has copied the last one: it calls this for
        // one reply of CONFIG GET at a time.
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
            // SAFETY: the last text was owned by this setting and is not used again; strings that were made
            // or retained without a context are freed without one.
            unsafe { free(ptr::null_mut(), last) };
        }
    }
}

/// Returns a number of bytes that may have one of the units of redis.conf; `Some(None)` if it is too large.
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
    // SAFETY: no context is needed; the bytes are copied.
    unsafe { create(ptr::null_mut(), text.as_ptr().cast(), text.len()) }
}
