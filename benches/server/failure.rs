//! Why a run ends early.

use std::error::Error;

/// Why the run ends early.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;
