//! Ctrl-C, and the signals that end a service: the first asks for an orderly end, the second ends at once.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use super::failure::Failure;

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Begins to listen. Where the system refuses, a signal ends the process as it does any other.
pub(crate) fn watch() {
    let _ = ctrlc::set_handler(|| {
        if IS_INTERRUPTED.swap(true, Ordering::Relaxed) {
            process::exit(130);
        }
    });
}

/// An error once the user wants an end; asked between any two steps.
pub(crate) fn check() -> Result<(), Failure> {
    if IS_INTERRUPTED.load(Ordering::Relaxed) { Err(Failure::interrupted()) } else { Ok(()) }
}
