//! Why a subcommand did not do what it was asked for, with its exit code; an interruption is one such reason.

use std::fmt::Display;
use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

/// The exit codes, for the help.
pub(crate) const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 failed, and no key was changed; 2 wrong arguments; 3 done in part: items were refused, filters \
not copied, or differences found; 130 interrupted, and no key was changed.";

/// The reason of a failure, which decides its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing was done.
    Failed,
    /// The arguments contradict one another.
    Usage,
    /// It was done in part, or differences were found.
    Partly,
    /// The user interrupted it.
    Interrupted,
}

/// Why a subcommand failed.
#[derive(Clone, Debug, Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    message: String,
}

impl Failure {
    pub(crate) fn new(message: impl Display) -> Self {
        Self { kind: Kind::Failed, message: message.to_string() }
    }

    pub(crate) fn usage(message: impl Display) -> Self {
        Self { kind: Kind::Usage, ..Self::new(message) }
    }

    pub(crate) fn partly(message: impl Display) -> Self {
        Self { kind: Kind::Partly, ..Self::new(message) }
    }

    pub(crate) fn interrupted() -> Self {
        Self { kind: Kind::Interrupted, ..Self::new("interrupted") }
    }

    /// Returns a failure with its subject in front of the message.
    pub(crate) fn of(subject: impl Display, error: impl Display) -> Self {
        Self::new(format!("{subject}: {error}"))
    }

    pub(crate) const fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Failed => 1,
            Kind::Usage => 2,
            Kind::Partly => 3,
            Kind::Interrupted => 130,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(error)
    }
}

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Handles Ctrl-C and the signals that end a service: the first asks for an orderly end, the second exits at once. If
/// the system refuses the handler, the first exits at once.
pub(crate) fn handle_signals() {
    let _ = ctrlc::set_handler(|| {
        if IS_INTERRUPTED.swap(true, Ordering::Relaxed) {
            process::exit(130);
        }
    });
}

/// Returns an error after a signal; called between any two steps.
pub(crate) fn check_interruption() -> Result<(), Failure> {
    if IS_INTERRUPTED.load(Ordering::Relaxed) { Err(Failure::interrupted()) } else { Ok(()) }
}
