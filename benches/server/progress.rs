//! Shows the progress of a run on standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Time between two lines of progress if standard error is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(15);
/// Width of the bar in characters.
const WIDTH: usize = 30;

/// The progress of a run: a bar on a terminal, otherwise a line at intervals.
pub(crate) struct Progress {
    steps: usize,
    done: usize,
    started: Instant,
    last_line: Option<Instant>,
}

impl Progress {
    /// Returns the progress of a run of `steps` steps.
    pub(crate) fn new(steps: usize) -> Self {
        Self { steps, done: 0, started: Instant::now(), last_line: None }
    }

    /// Shows that the next step begins.
    pub(crate) fn step(&mut self, what: &str) {
        let share = self.done.min(self.steps) * WIDTH / self.steps.max(1);
        let bar = format!("{}{}", "#".repeat(share), ".".repeat(WIDTH - share));
        let percent = self.done.min(self.steps) * 100 / self.steps.max(1);
        let line = format!("[{bar}] {percent:3} %  {:4} s  {what}", self.started.elapsed().as_secs());
        self.done += 1;
        let mut out = std::io::stderr();
        // A failure to write is ignored: standard error may be closed.
        if out.is_terminal() {
            let _ = write!(out, "\r\x1b[K{line}");
        } else if self.last_line.is_none_or(|last| last.elapsed() > LINE_EVERY) {
            let _ = writeln!(out, "{line}");
            self.last_line = Some(Instant::now());
        }
    }

    /// Shows an important text on its own line.
    pub(crate) fn say(&self, line: &str) {
        let clear = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
        let _ = writeln!(std::io::stderr(), "{clear}{line}");
    }

    /// Shows the end of the run.
    pub(crate) fn end(mut self) {
        self.done = self.steps;
        self.last_line = None;
        self.step("done");
        self.say("");
    }
}
