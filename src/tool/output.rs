//! The output of the tool: results on standard output, progress and errors on standard error.

use std::cell::Cell;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::failure::Failure;

/// The time between two lines of progress without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The time before the first line of progress without a terminal.
const LINE_AFTER: Duration = Duration::from_millis(500);

/// Prints results, notes, progress and failures, with the options --json and --quiet.
pub(crate) struct Printer {
    is_json: bool,
    is_quiet: bool,
    has_terminal: bool,
}

impl Printer {
    pub(crate) fn new(is_json: bool, is_quiet: bool) -> Self {
        Self { is_json, is_quiet, has_terminal: stderr().is_terminal() }
    }

    /// Prints the result, as text or JSON. It is no failure if the reader has closed standard output, as `head` does.
    pub(crate) fn result(&self, text: &str, json: &Value) -> Result<(), Failure> {
        let mut out = stdout().lock();
        let written =
            if self.is_json { writeln!(out, "{json}") } else { writeln!(out, "{}", text.trim_end()) };
        match written.and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Prints why a part of a command failed on standard error, unless --quiet was given and the JSON has it.
    pub(crate) fn cause(&self, text: &str) {
        if !(self.is_quiet && self.is_json) {
            // Ignores the error, since standard error may be closed.
            let _ = writeln!(stderr(), "{text}");
        }
    }

    /// Prints a message on standard error, unless --quiet was given.
    pub(crate) fn note(&self, text: &str) {
        if !self.is_quiet {
            // Ignores the error, since standard error may be closed.
            let _ = writeln!(stderr(), "{text}");
        }
    }

    /// Prints a failure on standard error. Returns its exit code.
    pub(crate) fn fail(&self, failure: &Failure) -> ExitCode {
        let code = failure.kind as u8;
        if self.is_json {
            let _ = writeln!(stderr(), "{}", json!({"error": failure.to_string(), "code": code}));
        } else {
            let _ = writeln!(stderr(), "everbloom: {failure}");
        }
        ExitCode::from(code)
    }

    /// Shows the progress of a task: as a bar on a terminal, as lines otherwise. `total` is the number of units, if it
    /// is known.
    pub(crate) fn progress(&self, verb: &'static str, total: Option<u64>) -> Progress {
        let has_bar = self.has_terminal && !self.is_quiet;
        let target = if has_bar { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = bar(verb, total, target);
        if !self.has_terminal {
            self.note(verb);
        }
        let has_lines = !self.is_quiet && !self.has_terminal;
        Progress { bar, verb, has_lines, next: Cell::new(LINE_AFTER) }
    }
}

/// Returns a bar that fits the width of the terminal.
fn bar(verb: &str, total: Option<u64>, target: ProgressDrawTarget) -> ProgressBar {
    // `wide_msg` is cut at the end of the line, because a line that wraps cannot be drawn again.
    let template = match total {
        Some(_) => format!("{verb} {{bar:20}} {{percent}} %, {{wide_msg}} {{eta}} left"),
        None => format!("{verb} {{spinner}} {{wide_msg}}"),
    };
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(total, target).with_style(style)
}

/// The progress of a task.
pub(crate) struct Progress {
    bar: ProgressBar,
    verb: &'static str,
    has_lines: bool,
    /// When the next line is printed, as the time since the start.
    next: Cell<Duration>,
}

impl Progress {
    /// Shows that `done` units are complete. Prints a line at most every [`LINE_EVERY`].
    pub(crate) fn set(&self, done: u64, message: String) {
        self.bar.set_position(done);
        self.bar.set_message(message);
        if self.has_lines && self.bar.elapsed() >= self.next.get() {
            self.next.set(self.bar.elapsed() + LINE_EVERY);
            let left = self.bar.length().filter(|_| done > 0).map(|total| {
                let share = done as f64 / total.max(1) as f64;
                let left = self.seconds() * (1.0 - share) / share;
                format!(", {:.0} %, {left:.0} s left", share * 100.0)
            });
            let message = self.bar.message();
            let _ = writeln!(stderr(), "{}: {message}{}", self.verb, left.unwrap_or_default());
        }
    }

    /// Returns the seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.bar.elapsed().as_secs_f64()
    }

    /// Shows that the task is complete. Returns the seconds that it took.
    pub(crate) fn finish(self) -> f64 {
        let seconds = self.seconds();
        let has_shown_lines = self.next.get() > LINE_AFTER;
        if self.has_lines && has_shown_lines {
            let _ = writeln!(stderr(), "{}: {}, 100 %, {seconds:.0} s", self.verb, self.bar.message());
        }
        // Moves the bar to its end and leaves it on the terminal.
        self.bar.finish();
        seconds
    }
}

impl Drop for Progress {
    /// Removes the bar of a task that failed.
    fn drop(&mut self) {
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
    }
}

/// Returns `number` per second, rounded to a whole number; 0 if no time has passed.
pub(crate) fn per_second(number: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { (number as f64 / seconds).round() } else { 0.0 }
}

/// Returns a number of bytes with a unit.
pub(crate) fn bytes(number: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, shift)| number >> shift > 0);
    unit.map_or_else(
        || format!("{number} bytes"),
        |(unit, shift)| format!("{:.1} {unit}", number as f64 / (1u64 << shift) as f64),
    )
}

/// Returns a number with a noun, in the plural if it is not 1.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns a key or an item as text, escaped if it is not UTF-8.
pub(crate) fn shown(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), str::to_owned)
}

/// Returns rows as text. Each column is as wide as its widest cell.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// A terminal of 80 columns that keeps the lines that are drawn.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<Vec<String>>>);

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push(text.to_owned());
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_bar_fits_a_terminal_of_80_columns() {
        for (total, message) in [
            (Some(5_000_000), "1234567890 items, 12345678 items/s".to_owned()),
            (Some(9), "a key of many characters ".repeat(9)),
            (None, "1234567890 items, 12345678 items/s".to_owned()),
            (None, "a key of many characters ".repeat(9)),
        ] {
            let terminal = Terminal::default();
            let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
            let bar = bar("checking", total, target);
            bar.set_position(1);
            bar.set_message(message.clone());
            bar.tick();
            let lines = terminal.0.lock().unwrap();
            assert!(lines.iter().any(|line| line.contains(&message[..20])), "{lines:?}");
            assert!(lines.iter().all(|line| line.trim_end().chars().count() <= 80), "{lines:?}");
        }
    }
}
