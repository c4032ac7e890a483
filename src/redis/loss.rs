//! The end of a server that cannot keep what its primary or its append-only file has.
//!
//! The server's own types end it too when they cannot have the memory that a primary or a log asks for. Going
//! on would be worse: the filter, or a part of it, would be missing, and every answer about its items a wrong
//! no.

use std::ptr;

use super::allocator;
use super::args::Argv;
use super::log;
use crate::command::error::quotable;
use crate::command::{Command, CommandError};

/// Exits with status 1 at once, as the server's children do. No handler runs that was registered for the end of the
/// process: threads of the module are alive, and would use what the handlers free. No line of the log is lost, since the
/// server flushes each as it writes it.
pub(super) fn exit_at_once() -> ! {
    // SAFETY: no precondition.
    unsafe { libc::_exit(1) }
}

/// Exits, after a line in the log that names the key, the bytes and what went wrong.
pub(super) fn end_server(error: &CommandError, command: Command, argv: Argv<'_>) -> ! {
    let (key, sent_bytes) = argv.with_bytes(
        |arguments| {
            let key = quotable(arguments.first().copied().unwrap_or_default());
            (key, arguments.iter().map(|bytes| bytes.len()).sum::<usize>())
        },
        Default::default,
    );
    let name = command.spec().name.to_uppercase();
    let refused = match allocator::refused_bytes() {
        0 => String::new(),
        bytes => format!("; the last allocation that failed was of {bytes} bytes"),
    };
    log::warning(
        ptr::null_mut(),
        &format!(
            "everbloom: {name} of the primary or the append-only file failed for key '{key}' ({sent_bytes} bytes sent): \
             {error}{refused}. This server would deny items that were added, so it ends here. Give it the memory that \
             the filter takes, or intact data."
        ),
    );
    // As with a file that the server cannot load: no crash, so no report of one.
    exit_at_once()
}
