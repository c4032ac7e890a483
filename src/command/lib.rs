//! The `BF.*` and `CF.*` commands: arguments in, replies and effects out. The way of a command through the files:
//!
//! 1. The server or a test calls [`execute()`] with a [`Command`]. Its row in `table` lists the arguments and the key.
//! 2. `execute` checks the number of arguments and calls the function of the command in `items`, `bulk`, `reserve`,
//!    `info`, `debug`, `chunks`, `follow`, `import`, `merge` or `cuckoo`.
//! 3. That function reads all arguments: `arguments`, `options`, `number` and `words`. `creation` says which filter the
//!    options describe.
//! 4. It opens its keys through a [`Keyspace`], where a key is vacant, a filter, or of another type.
//! 5. It acts on the filter, or on a new one. All commands that add items share `adding`, `outcomes` and `window`.
//! 6. `effects` publishes a new filter when it is complete, and `replicated` has the commands that replicas get.
//! 7. It writes a [`Reply`], and returns [`Effects`] for the server. Every error is a [`CommandError`]. A command that
//!    fails has changed nothing, or the server exits.
#![forbid(unsafe_code)]

mod adding;
pub mod arguments;
mod bulk;
mod chunks;
mod creation;
mod cuckoo;
mod debug;
pub mod effects;
pub mod error;
mod execute;
mod fields;
mod follow;
mod import;
mod info;
mod items;
pub mod keyspace;
mod log_lines;
mod merge;
pub mod number;
pub mod options;
mod outcomes;
mod replicated;
mod reserve;
pub mod rings;
mod spare;
mod suggestion;
pub mod table;
mod timing;
pub mod totals;
pub mod words;

pub use effects::{Effects, Replication};
pub use error::CommandError;
pub use execute::{end_after_panic, execute, refuse};
pub use keyspace::{
    CuckooSettings, Found, Host, KeyName, KeyValue, Keyspace, MergedInto, Protocol, ReadKey, Reply, Settings,
    Value, ValueMut, ValueRef, WriteKey,
};
pub use log_lines::{Refusals, growth_line, import_line};
pub use replicated::ReplicatedCommand;
pub use table::{COMMANDS, Command};
