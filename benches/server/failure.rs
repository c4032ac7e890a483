//! The error type of a run.

use std::error::Error;

/// Why a run ends early.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;
