//! Why a subcommand ended without having done what it was asked for, and the exit code that says so.

use std::fmt;
use std::io;

/// What every subcommand's help says of its exit code.
pub(crate) const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 failed, and no key was changed; 2 wrong arguments; 3 done in part: items were refused, filters \
not copied, or differences found; 130 interrupted, and no key was changed.";

/// Which exit code a failure has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What was to be done was not done.
    Failed,
    /// The arguments contradict one another.
    Usage,
    /// It was done in part, or what was to be found is not so.
    Partly,
    /// By the user.
    Interrupted,
}

/// Why a subcommand ended otherwise than asked for.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    message: String,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, message: message.into() }
    }

    pub(crate) fn partly(message: impl Into<String>) -> Self {
        Self { kind: Kind::Partly, message: message.into() }
    }

    pub(crate) fn interrupted() -> Self {
        Self { kind: Kind::Interrupted, message: "interrupted".to_owned() }
    }

    /// With what it was about in front.
    pub(crate) fn of(what: impl fmt::Display, trouble: impl fmt::Display) -> Self {
        Self::new(format!("{what}: {trouble}"))
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(error.to_string())
    }
}
