//! The failure of a command, with its exit code. An interruption is a failure too.

use std::fmt::Display;
use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

/// The exit codes, for the help.
pub(crate) const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 failed, and 130 interrupted: no key was changed, except by `load --add` and `copy`; 2 wrong \
arguments; 3 done in part: items were refused, filters were not copied, differences were found, the result of a load \
was not printed, or the connection broke at its end.";

/// The kind of a failure, with its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FailureKind {
    /// Nothing was changed.
    Failed = 1,
    /// The arguments are wrong.
    Usage = 2,
    /// The command was done in part, or differences were found.
    Partly = 3,
    /// The user interrupted the command.
    Interrupted = 130,
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    message: String,
}

impl Failure {
    pub(crate) fn new(message: impl Display) -> Self {
        Self { kind: FailureKind::Failed, message: message.to_string() }
    }

    pub(crate) fn usage(message: impl Display) -> Self {
        Self { kind: FailureKind::Usage, ..Self::new(message) }
    }

    pub(crate) fn partly(message: impl Display) -> Self {
        Self { kind: FailureKind::Partly, ..Self::new(message) }
    }

    pub(crate) fn interrupted() -> Self {
        Self { kind: FailureKind::Interrupted, ..Self::new("interrupted") }
    }

    /// Returns the failure of a thread that panicked.
    pub(crate) fn of_panic() -> Self {
        Self::new("internal error: a thread panicked")
    }

    /// Returns the failure with a subject, such as a key, before its message.
    pub(crate) fn about(self, subject: impl Display) -> Self {
        Self { message: format!("{subject}: {}", self.message), ..self }
    }

    /// Returns the failure with more information after its message.
    pub(crate) fn with(self, more: impl Display) -> Self {
        Self { message: format!("{}; {more}", self.message), ..self }
    }

    /// Returns a failure with a subject, such as a key, before the text of the error.
    pub(crate) fn of(subject: impl Display, error: impl Display) -> Self {
        Self::new(format!("{subject}: {error}"))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(error)
    }
}

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Handles SIGINT, SIGTERM and SIGHUP. After the first signal, the command cleans up and exits. A second signal ends
/// the process at once. If the handler cannot be set, the first signal ends it at once.
pub(crate) fn handle_signals() {
    let _ = ctrlc::set_handler(|| {
        if IS_INTERRUPTED.swap(true, Ordering::Relaxed) {
            process::exit(130);
        }
    });
}

/// Returns an error if a signal was received. Commands call this between their steps.
pub(crate) fn check_interruption() -> Result<(), Failure> {
    if IS_INTERRUPTED.load(Ordering::Relaxed) { Err(Failure::interrupted()) } else { Ok(()) }
}
