//! Slow work that commands may cause again and again, such as reading the files of the system.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Work that takes at most a sixteenth of the time, however often it is wanted.
pub(super) struct Pace {
    /// When the work may be done again; `None` if it was never done.
    next: Mutex<Option<Instant>>,
}

impl Pace {
    /// How many times as long as the work took it is not done again.
    const REST: u32 = 15;

    pub(super) const fn new() -> Self {
        Self { next: Mutex::new(None) }
    }

    /// Does the work. Returns its result; `None` if it was done a short time ago, or is being done.
    pub(super) fn run<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let mut next = self.next.try_lock().ok()?;
        let begun = Instant::now();
        if next.is_some_and(|next| begun < next) {
            return None;
        }
        let result = work();
        let ended = Instant::now();
        let rest = ended.saturating_duration_since(begun).checked_mul(Self::REST).unwrap_or(Duration::MAX);
        *next = ended.checked_add(rest);
        Some(result)
    }
}
