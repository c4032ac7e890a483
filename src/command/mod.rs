//! The `BF.*` commands: arguments in, replies and effects out.
//!
//! [`execute()`] runs a command. It reads all arguments and opens keys through a [`Keyspace`], where a key is
//! "vacant", "a filter" or "another type". The command acts, publishes a new filter when it is complete, and replies.
//! It returns [`Effects`] for the host. The module `redis` and the tests call the same function.
#![forbid(unsafe_code)]

mod adding;
pub mod arguments;
mod bulk;
mod chunks;
mod creation;
mod debug;
pub mod effects;
pub mod error;
mod execute;
mod fields;
mod import;
mod info;
mod items;
pub mod keyspace;
mod log_lines;
mod memory;
mod merge;
pub mod number;
pub mod options;
mod outcomes;
mod replicated;
mod reserve;
pub mod table;
mod window;
pub mod words;

pub use effects::{Effects, Replication};
pub use error::CommandError;
pub use execute::{end_after_panic, execute, refuse};
pub use keyspace::{Host, KeyName, KeyValue, Keyspace, OpenKey, Protocol, Reply, Settings};
pub use log_lines::{Refusals, growth_line};
pub use replicated::ReplicatedCommand;
pub use table::{COMMANDS, Command};
