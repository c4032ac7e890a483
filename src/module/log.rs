//! Lines in the server's log. The text is always an argument, never the format, because it may contain a client's
//! bytes.
//!
//! Lines that a client can cause repeatedly are throttled, each [`Topic`] separately. Omitted lines are counted, and
//! the count is logged. Lines at load and at exit are always written.

use std::ffi::{CStr, CString, c_void};
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{mem, ptr};

use redis_module::raw;

use super::api::{Context, server_flags, subscribe};

const WARNING: &CStr = c"warning";
const TEXT: &CStr = c"%s";

/// Most lines of one topic within a [`WINDOW`].
const LINES_MAX: u32 = 5;
/// The period in which lines are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// A topic of lines that a client can cause repeatedly.
pub(super) struct Topic {
    /// The start of every line of the topic.
    what: &'static str,
    recent: Mutex<RecentLines>,
}

/// Makes a static of each topic, and the list of all of them.
macro_rules! topics {
    ($($(#[$about:meta])* $visibility:vis static $name:ident: Topic = $topic:expr;)*) => {
        $($(#[$about])* $visibility static $name: Topic = $topic;)*
        static TOPICS: &[&Topic] = &[$(&$name),*];
    };
}

topics! {
    /// Lines about a payload that is not a filter.
    static LOADING: Topic = Topic::new("a filter cannot be loaded");
    /// Lines about a copy of a filter for which there is no memory.
    pub(super) static COPYING: Topic = Topic::new("a filter cannot be copied");
    /// Lines about a cuckoo filter with an old hash.
    pub(super) static OLD_CUCKOO: Topic = Topic::new("a cuckoo filter is from RedisBloom before 2.2");
    /// Lines about a filter that the server refuses.
    pub(super) static PUBLISHING: Topic = Topic::new("the server refused a new filter");
    /// Lines about a command that the server does not replicate.
    pub(super) static REPLICATING: Topic = Topic::new("the server did not replicate a command");
    /// Lines about a filter that has grown often.
    pub(super) static GROWING: Topic = Topic::new("a filter has grown often");
    /// Lines about an imported filter that the next new item makes unexportable.
    pub(super) static IMPORTING: Topic = Topic::new("an imported filter is full");
    /// Lines about a large block of memory that does not fit in the cgroup.
    pub(super) static ALLOCATING: Topic = Topic::new("memory was not allocated");
    /// Lines about a filter that has no room for new items.
    pub(super) static REFUSING: Topic = Topic::new("a filter refuses items");
    /// Lines about a panic. Every function that the server calls catches panics.
    static PANICKING: Topic = Topic::new("everbloom");
}

/// The lines that were written and omitted.
struct RecentLines {
    /// When the current window began; `None` before the first line.
    began: Option<Instant>,
    lines: u32,
    /// The time of the first omitted line that is not logged yet.
    omitted_since: Option<Instant>,
    omitted: u64,
}

/// Returns whether a [`WINDOW`] has passed since a time; true for `None`.
fn is_over(since: Option<Instant>, now: Instant) -> bool {
    since.is_none_or(|since| now.duration_since(since) >= WINDOW)
}

impl RecentLines {
    /// Counts a line. Returns whether it may be written.
    fn admit(&mut self, now: Instant) -> bool {
        if is_over(self.began, now) {
            (self.began, self.lines) = (Some(now), 0);
        }
        if self.lines < LINES_MAX {
            self.lines = self.lines.saturating_add(1);
            return true;
        }
        self.omitted_since.get_or_insert(now);
        self.omitted = self.omitted.saturating_add(1);
        false
    }

    /// Returns and resets the number of omitted lines, if it is time to log it.
    fn take_omitted(&mut self, now: Instant) -> Option<u64> {
        if self.omitted == 0 || !is_over(self.omitted_since, now) {
            return None;
        }
        self.omitted_since = None;
        Some(mem::take(&mut self.omitted))
    }
}

impl Topic {
    const fn new(what: &'static str) -> Self {
        let recent = RecentLines { began: None, lines: 0, omitted_since: None, omitted: 0 };
        Self { what, recent: Mutex::new(recent) }
    }

    /// Returns whether a line may be written now. It never blocks: if the lock is taken, the line may be written.
    fn admits(&self) -> bool {
        self.recent.try_lock().map_or(true, |mut recent| recent.admit(Instant::now()))
    }

    /// Logs the number of omitted lines.
    fn log_omitted(&self, context: Context) {
        let omitted = self.recent.try_lock().ok().and_then(|mut recent| recent.take_omitted(Instant::now()));
        if let Some(omitted) = omitted {
            warning(context, &format!("{}: {omitted} more lines of this kind were omitted", self.what));
        }
    }
}

/// Writes a warning; `context` must be null or alive.
pub(super) fn warning(context: Context, text: &str) {
    let Some(log) = api!(RedisModule_Log) else { return };
    let text = c_text(text);
    // SAFETY: level, format and the argument of the format are C strings, which the server copies. The context is
    // alive, or null, which the server accepts.
    unsafe { log(context, WARNING.as_ptr(), TEXT.as_ptr(), text.as_ptr()) };
}

/// Writes a warning on a topic, unless it is throttled; `context` must be null or alive.
pub(super) fn throttled(topic: &Topic, context: Context, text: &str) {
    if topic.admits() {
        warning(context, &format!("{}: {text}", topic.what));
    }
}

/// Logs why a value cannot be loaded. While the server loads its own data, the line is always written, because the
/// server then exits. A client can cause any number of such lines, so these are throttled.
///
/// # Safety
/// `io` must be the server's, within the callback that it was passed to.
pub(super) unsafe fn unloadable(io: *mut raw::RedisModuleIO, error: &str) {
    if !(is_server_loading() || LOADING.admits()) {
        return;
    }
    let Some(log) = api!(RedisModule_LogIOError) else { return };
    let text = c_text(&format!("{}: {error}", LOADING.what));
    // SAFETY: `io` is alive by the caller's contract. Level, format and the argument of the format are C strings, which
    // the server copies.
    unsafe { log(io, WARNING.as_ptr(), TEXT.as_ptr(), text.as_ptr()) };
}

/// Returns whether the server is loading a snapshot or an append-only file.
pub(super) fn is_server_loading() -> bool {
    const LOADING: u32 = raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING;
    server_flags() & LOADING != 0
}

/// Subscribes to the server's timer, which logs the number of omitted lines later.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn watch(context: Context) {
    // SAFETY: the context is OnLoad's by the caller's contract, and this is a callback of such events.
    unsafe { subscribe(context, raw::REDISMODULE_EVENT_CRON_LOOP, Some(on_cron)) };
}

/// # Safety
/// Called by the server only.
unsafe extern "C" fn on_cron(
    context: Context,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    _data: *mut c_void,
) {
    // The panic hook has logged a panic.
    let _ = catch_unwind(|| TOPICS.iter().for_each(|topic| topic.log_omitted(context)));
}

/// Sends the message of every panic to the server's log, because a daemon has no standard error.
pub(super) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        throttled(&PANICKING, ptr::null_mut(), &panic.to_string());
    }));
}

/// Aborts the server, after a panic that left a filter or a snapshot in an unknown state.
pub(super) fn abort(what: &str) -> ! {
    warning(
        ptr::null_mut(),
        &format!(
            "everbloom: panic while {what}: the server aborts to protect its data. Please report this bug"
        ),
    );
    std::process::abort()
}

/// Returns the text as one line without a NUL.
pub(super) fn c_text(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().map(|byte| if byte < b' ' { b' ' } else { byte }).collect();
    CString::new(bytes).unwrap_or_default()
}
