//! Dialogues: lists of commands with their replies. Two kinds of tests run the same dialogues: the tests of commands
//! with a simulated server, and the tests of servers with real servers in both protocols.
//!
//! A dialogue begins without filters. The key `string` has another type. The replies have the notation of
//! `server::Server`: `#t` and `#f` are booleans, `*2` an array of two, `$` a bulk string, `_` null, `,` a double.

pub(crate) mod errors;
pub(crate) mod replicated;
pub(crate) mod replies;

/// Commands with their replies. The words of a command are separated by one space.
pub(crate) type Dialogue = &'static [(&'static str, &'static str)];

/// Every dialogue with its name.
pub(crate) const DIALOGUES: &[(&str, Dialogue)] = &[
    ("errors of BF.RESERVE", errors::RESERVE_ERRORS),
    ("errors of BF.INSERT", errors::INSERT_ERRORS),
    ("other kinds", errors::KIND_ERRORS),
    ("options", errors::OPTION_ERRORS),
    ("no filter", errors::NO_FILTER),
    ("errors of a filter", errors::FILTER_ERRORS),
    ("errors of batches", errors::BATCH_ERRORS),
    ("errors of BF.IMPORT", errors::IMPORT_ERRORS),
    ("long exports", errors::LONG_EXPORTS),
    ("reserved", replies::RESERVED),
    ("added", replies::ADDED),
    ("full", replies::FULL_FIXED),
    ("options", replies::OPTIONS),
    ("tables", replies::TABLES),
    ("windows", replies::WINDOWS),
    ("batches", replies::BATCHES),
    ("distinct items", replies::DISTINCT_ITEMS),
    ("emptied", replies::EMPTIED),
    ("saturating", replies::SATURATING),
    ("united imports", replies::UNITED_IMPORTS),
    ("united layers", replies::UNITED_LAYERS),
    ("united counts", replies::UNITED_COUNTS),
    ("cleared import", replies::CLEARED_IMPORT),
    ("FORCE as a key", replies::FORCE_IS_A_KEY),
];

/// Returns the error of a command with too few or too many arguments.
pub(crate) fn arity_error(line: &str) -> String {
    let name = line.split(' ').next().unwrap_or_default().to_lowercase();
    format!("-ERR wrong number of arguments for '{name}' command")
}
