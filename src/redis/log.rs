//! Lines in the server's log. The text is always an argument, never the format: it may hold what a client
//! sent.
//!
//! What a client can bring about as often as it likes is throttled, each [`Topic`] by itself, and what is
//! left out is counted and told. What happens once, at load or at the end, is always written.

use std::ffi::{CStr, CString, c_void};
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{mem, ptr};

use redis_module::raw;

use super::api::{Context, server_flags};

const WARNING: &CStr = c"warning";
const TEXT: &CStr = c"%s";

/// Most lines of one topic within a [`WINDOW`].
const LINES_MAX: u32 = 5;
/// Time over which lines are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// What a client can bring about as often as it likes.
#[derive(Clone, Copy)]
pub(super) enum Topic {
    /// A payload that is no filter.
    Loading,
    /// A filter for whose copy there is no memory.
    Copying,
    /// A filter that the server does not take.
    Publishing,
    /// A command that the server does not pass on.
    Replicating,
    /// A filter that has grown more often than is good for it.
    Growing,
    /// A panic that the barrier around every command stopped.
    Panicking,
}

/// How many lines of a topic were written lately.
struct Throttle {
    /// What every line of the topic begins with.
    what: &'static str,
    window: Mutex<Window>,
}

/// In the order of [`Topic`].
static THROTTLES: [Throttle; 6] = [
    Throttle::new("a filter cannot be loaded"),
    Throttle::new("a filter cannot be copied"),
    Throttle::new("the server refused a new filter"),
    Throttle::new("the server did not replicate a command"),
    Throttle::new("a filter was reserved too small"),
    Throttle::new("everbloom"),
];

/// What was written and what was left out.
struct Window {
    /// When the lines written now began to be counted; none before the first.
    began: Option<Instant>,
    lines: u32,
    /// When the first line was left out that is not told yet.
    left_out_from: Option<Instant>,
    left_out: u64,
}

/// Whether a [`WINDOW`] has passed since; true when there is no since.
fn is_over(since: Option<Instant>, now: Instant) -> bool {
    since.is_none_or(|since| now.duration_since(since) >= WINDOW)
}

impl Window {
    /// Counts a line; answers whether it may be written.
    fn admit(&mut self, now: Instant) -> bool {
        if is_over(self.began, now) {
            (self.began, self.lines) = (Some(now), 0);
        }
        if self.lines < LINES_MAX {
            self.lines = self.lines.saturating_add(1);
            return true;
        }
        self.left_out_from.get_or_insert(now);
        self.left_out = self.left_out.saturating_add(1);
        false
    }

    /// How many lines were left out, if it is time to tell.
    fn take_left_out(&mut self, now: Instant) -> Option<u64> {
        if self.left_out == 0 || !is_over(self.left_out_from, now) {
            return None;
        }
        self.left_out_from = None;
        Some(mem::take(&mut self.left_out))
    }
}

impl Throttle {
    const fn new(what: &'static str) -> Self {
        Self { what, window: Mutex::new(Window { began: None, lines: 0, left_out_from: None, left_out: 0 }) }
    }

    fn of(topic: Topic) -> &'static Self {
        let [loading, copying, publishing, replicating, growing, panicking] = &THROTTLES;
        match topic {
            Topic::Loading => loading,
            Topic::Copying => copying,
            Topic::Publishing => publishing,
            Topic::Replicating => replicating,
            Topic::Growing => growing,
            Topic::Panicking => panicking,
        }
    }

    /// Whether a line may be written now. Never waits: a line is better written than lost.
    fn admits(&self) -> bool {
        self.window.try_lock().map_or(true, |mut window| window.admit(Instant::now()))
    }

    fn tell_left_out(&self, context: Context) {
        let left_out =
            self.window.try_lock().ok().and_then(|mut window| window.take_left_out(Instant::now()));
        if let Some(left_out) = left_out {
            warning(context, &format!("{}: {left_out} more such lines were left out", self.what));
        }
    }
}

/// Writes a warning; `context` must be null or alive.
pub(super) fn warning(context: Context, text: &str) {
    let Some(log) = api!(RedisModule_Log) else { return };
    let text = c_text(text);
    // SAFETY: level and format are C strings, the one argument of the format is one too; the server copies
    // them. It accepts a null context, and any other is that of the callback that runs, as all of this room are.
    unsafe { log(context, WARNING.as_ptr(), TEXT.as_ptr(), text.as_ptr()) };
}

/// Writes a warning on a topic, unless there were too many lately; `context` must be null or alive.
pub(super) fn throttled(topic: Topic, context: Context, text: &str) {
    let throttle = Throttle::of(topic);
    if throttle.admits() {
        warning(context, &format!("{}: {text}", throttle.what));
    }
}

/// Writes why a value cannot be loaded. Where the server loads its data there is one such line, the last one,
/// and it is always written; a client can cause any number of them.
///
/// # Safety
/// `io` must be the server's, within the callback it was given to.
pub(super) unsafe fn unloadable(io: *mut raw::RedisModuleIO, error: &str) {
    let throttle = Throttle::of(Topic::Loading);
    if !(is_server_loading() || throttle.admits()) {
        return;
    }
    let Some(log) = api!(RedisModule_LogIOError) else { return };
    let text = c_text(&format!("{}: {error}", throttle.what));
    // SAFETY: the caller vouches for `io`; the rest as in `warning`.
    unsafe { log(io, WARNING.as_ptr(), TEXT.as_ptr(), text.as_ptr()) };
}

/// Whether the server reads a snapshot or an append-only file.
fn is_server_loading() -> bool {
    const LOADING: u32 = raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING;
    server_flags() & LOADING != 0
}

/// Asks the server to be called several times a second, so that what was left out is told when the flood is
/// over.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn watch(context: Context) {
    let Some(subscribe) = api!(RedisModule_SubscribeToServerEvent) else { return };
    let event = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_CRON_LOOP, dataver: 1 };
    // SAFETY: the context is OnLoad's by the caller's word; the callback lives as long as the module.
    unsafe { subscribe(context, event, Some(on_cron)) };
}

/// # Safety
/// Called by the server only.
unsafe extern "C" fn on_cron(
    context: Context,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    _data: *mut c_void,
) {
    // A panic has said so itself.
    let _ = catch_unwind(|| THROTTLES.iter().for_each(|throttle| throttle.tell_left_out(context)));
}

/// Sends the message of every panic to the server's log; a daemon has no standard error.
pub(super) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        throttled(Topic::Panicking, ptr::null_mut(), &panic.to_string());
    }));
}

/// Ends the server on purpose, after a panic that left a filter or a snapshot in an unknown state.
pub(super) fn abort(what: &str) -> ! {
    warning(ptr::null_mut(), &format!("everbloom: panic in {what}, ending the server to save the data"));
    std::process::abort()
}

/// The text as one line without a NUL.
pub(super) fn c_text(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().map(|byte| if byte < b' ' { b' ' } else { byte }).collect();
    CString::new(bytes).unwrap_or_default()
}
